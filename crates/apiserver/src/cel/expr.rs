//! A checked expression: what the checker makes, and the cost estimate and evaluation read.
//!
//! Guarantees: every variable is a slot, every function is found, every macro is one [`Fold`] or
//! [`Kind::OptMap`] node instead of the comprehension it stands for. The tree is no deeper than a
//! small multiple of [`super::parse::MAX_DEPTH`].

use std::sync::Arc;

use regex::Regex;

use super::decl::Decl;
use super::library::{Function, Overload};
use super::types::Ty;

/// A node with its type.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) kind: Kind,
    pub(super) ty: Ty,
    /// Where the source says it, as a character offset.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Var(Var),
    /// The name of a type, as a value.
    TypeName(&'static str),
    Select(Box<Select>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    Conditional(Box<[Expr; 3]>),
    Call(Box<Call>),
    List(Vec<Item>),
    Map(Vec<Entry>),
    Fold(Box<Fold>),
    OptMap(Box<OptMap>),
    SortBy(Box<SortBy>),
    /// Something that was complained about; never evaluated.
    Invalid,
}

impl Expr {
    /// Whether the value is the same in every evaluation, and known to the reference as such.
    pub(super) fn is_constant(&self) -> bool {
        match &self.kind {
            Kind::Literal(_) | Kind::TypeName(_) => true,
            Kind::Call(call) => call.is_conversion() && call.args.iter().all(Self::is_constant),
            Kind::List(items) => items.iter().all(|i| !i.optional && i.value.is_constant()),
            Kind::Map(entries) => {
                entries.iter().all(|e| !e.optional && e.key.is_constant() && e.value.is_constant())
            }
            _ => false,
        }
    }
}

impl Expr {
    /// Whether the node is a variable, or a step from something.
    pub(super) fn is_access(&self) -> bool {
        match &self.kind {
            Kind::Var(_) | Kind::Conditional(_) => true,
            Kind::Select(select) => select.access != Access::Test,
            Kind::Call(call) => matches!(call.function.name, "_[_]" | "_[?_]"),
            _ => false,
        }
    }
}

impl Call {
    /// Whether the function turns values of one type into another.
    pub(super) fn is_conversion(&self) -> bool {
        const CONVERSIONS: [&str; 10] = [
            "bool",
            "bytes",
            "double",
            "duration",
            "dyn",
            "int",
            "string",
            "timestamp",
            "type",
            "uint",
        ];
        !self.member && self.args.len() == 1 && CONVERSIONS.contains(&self.function.name)
    }
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Var {
    /// `self`.
    This,
    /// `oldSelf`.
    Old,
    /// What an admission expression is given, by its place among the inputs.
    Input(Input),
    /// A variable of an admission policy, by its place.
    Composed(usize),
    /// All variables of an admission policy, as a map.
    Variables,
    /// A variable of a macro, by its place on the stack.
    Local(usize),
}

/// What an admission expression is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Input {
    Object,
    OldObject,
    Params,
    Request,
    Namespace,
    Authorizer,
    RequestResource,
}

/// `operand.field`, `operand.?field` or `has(operand.field)`.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Expr,
    pub(super) field: String,
    pub(super) access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Access {
    Plain,
    Optional,
    Test,
}

/// A function call; a receiver is the first argument.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    /// Those that may apply, as far as types tell.
    pub(super) overloads: Vec<&'static Overload>,
    pub(super) member: bool,
    pub(super) args: Vec<Expr>,
    /// The pattern of a regular-expression function, where it is a literal.
    pub(super) regex: Option<Arc<Regex>>,
    /// The reference computes it once and for all, so that running it costs nothing.
    pub(super) free: bool,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A macro over the elements of a list or map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) what: What,
    pub(super) range: Expr,
    /// The slot of the first variable; a second one has the next slot.
    pub(super) slot: usize,
    pub(super) two: bool,
    pub(super) filter: Option<Expr>,
    /// The predicate or the transformation; absent for `filter`.
    pub(super) body: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    All,
    Exists,
    ExistsOne,
    /// `filter`, `map` and `transformList`.
    List,
    TransformMap,
    TransformMapEntry,
}

/// `target.optMap(var, body)` and `target.optFlatMap(var, body)`.
#[derive(Debug)]
pub(super) struct OptMap {
    pub(super) target: Expr,
    pub(super) slot: usize,
    pub(super) body: Expr,
    pub(super) flat: bool,
    /// Whether the body reads the variable, which costs its target once more.
    pub(super) used: bool,
}

/// `target.sortBy(var, key)`.
#[derive(Debug)]
pub(super) struct SortBy {
    pub(super) target: Expr,
    pub(super) slot: usize,
    pub(super) key: Expr,
}

/// A compiled expression, ready to run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) root: Expr,
    pub(super) uses_old: bool,
    /// Whether it nests deeper than an ordinary stack should bear.
    pub(super) deep: bool,
}

/// The declaration an estimate starts from.
pub(super) type Root<'d> = &'d Decl;
