//! CEL's types as the checker sees them, and their unification.
//!
//! Guarantees: printing matches what users of Kubernetes read in error messages; unification is
//! sound for the overloads of [`super::library`]. Types are finite trees no deeper than the schema
//! they came from plus the expression that made them, and binding a variable inside itself is
//! refused, so every walk here ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::decl::{Decl, Shape};

/// The type of an expression.
#[derive(Debug, Clone)]
pub(super) enum Ty {
    Dyn,
    /// The type of an expression that has already been complained about.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Self>),
    Map(Arc<(Self, Self)>),
    Optional(Arc<Self>),
    /// A type of Kubernetes' own, such as `kubernetes.Quantity`.
    Abstract(&'static str),
    /// An object with declared fields; the name says where in the schema it stands.
    Object(Arc<str>, Arc<Decl>),
    /// The type of a type.
    Type(Arc<Self>),
    /// A variable that unification may bind.
    Param(u32),
}

impl Ty {
    /// A list of these.
    pub(super) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map between these.
    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Perhaps one of these.
    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// The type of values of a declared schema node that stands at `name`.
    pub(super) fn of_decl(decl: &Arc<Decl>, name: &str) -> Self {
        match &decl.shape {
            Shape::IntOrString | Shape::Opaque | Shape::Any => Self::Dyn,
            Shape::Bool => Self::Bool,
            Shape::Int => Self::Int,
            Shape::Double => Self::Double,
            Shape::String => Self::String,
            Shape::Bytes => Self::Bytes,
            Shape::Date | Shape::DateTime => Self::Timestamp,
            Shape::Duration => Self::Duration,
            Shape::List { items, .. } => Self::list(Self::of_decl(items, &format!("{name}.@idx"))),
            Shape::Map(values) => {
                Self::map(Self::String, Self::of_decl(values, &format!("{name}.@elem")))
            }
            Shape::Object(_) => Self::Object(Arc::from(name), Arc::clone(decl)),
        }
    }

    /// Whether nothing can be said against it before it has a value.
    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type inside an optional, and whether there was one.
    pub(super) fn unwrap_optional(&self) -> (Self, bool) {
        match self {
            Self::Optional(inner) => ((**inner).clone(), true),
            _ => (self.clone(), false),
        }
    }

    /// Whether a value of the type always counts as one unit of size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::Timestamp
            | Self::Duration => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Dyn
                | Self::Error
                | Self::Optional(_)
                | Self::Abstract(_)
                | Self::Object(..)
                | Self::Timestamp
                | Self::Duration
        )
    }
}

impl PartialEq for Ty {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Abstract(a), Self::Abstract(b)) => a == b,
            (Self::Object(a, _), Self::Object(b, _)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(kv) => write!(f, "map({}, {})", kv.0, kv.1),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Abstract(name) => f.write_str(name),
            Self::Object(name, _) => f.write_str(name),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Param(id) => write!(f, "_var{id}"),
        }
    }
}

/// What the type variables met so far stand for.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: HashMap<u32, Ty>,
    next: u32,
    /// Variables bound since the last checkpoint, with what they were bound to before.
    journal: Vec<(u32, Option<Ty>)>,
}

impl Bindings {
    /// A variable that nothing else mentions.
    pub(super) fn fresh(&mut self) -> Ty {
        self.next += 1;
        Ty::Param(self.next - 1)
    }

    /// The type with fresh variables in place of the overload's own, numbered from zero.
    pub(super) fn instantiate(&mut self, signature: &[Ty]) -> Vec<Ty> {
        let mut fresh = HashMap::new();
        signature.iter().map(|t| self.rename(t, &mut fresh)).collect()
    }

    fn rename(&mut self, t: &Ty, fresh: &mut HashMap<u32, Ty>) -> Ty {
        match t {
            Ty::Param(id) => {
                if let Some(known) = fresh.get(id) {
                    return known.clone();
                }
                let new = self.fresh();
                fresh.insert(*id, new.clone());
                new
            }
            Ty::List(a) => Ty::list(self.rename(a, fresh)),
            Ty::Map(kv) => Ty::map(self.rename(&kv.0, fresh), self.rename(&kv.1, fresh)),
            Ty::Optional(a) => Ty::optional(self.rename(a, fresh)),
            Ty::Type(a) => Ty::Type(Arc::new(self.rename(a, fresh))),
            other => other.clone(),
        }
    }

    /// Whether each of `from` fits where the like of `to` is wanted; binds variables only if so.
    pub(super) fn assignable_all(&mut self, from: &[Ty], to: &[Ty]) -> bool {
        self.journal.clear();
        let fits = self.all(from, to);
        if !fits {
            while let Some((id, before)) = self.journal.pop() {
                match before {
                    Some(t) => self.bound.insert(id, t),
                    None => self.bound.remove(&id),
                };
            }
        }
        fits
    }

    /// Whether one fits where the other is wanted; binds variables only if so.
    pub(super) fn assignable(&mut self, from: &Ty, to: &Ty) -> bool {
        self.assignable_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn all(&mut self, from: &[Ty], to: &[Ty]) -> bool {
        from.len() == to.len() && from.iter().zip(to).all(|(a, b)| self.fits(a, b))
    }

    fn bind(&mut self, id: u32, t: Ty) {
        let before = self.bound.insert(id, t);
        self.journal.push((id, before));
    }

    fn fits(&mut self, from: &Ty, to: &Ty) -> bool {
        if let Ty::Param(id) = to {
            match self.substitutes(from, *id) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Ty::Param(id) = from {
            return self.substitutes(to, *id).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Ty::Null, other) | (other, Ty::Null) => other.is_nullable(),
            (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => self.fits(a, b),
            (Ty::Map(a), Ty::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Ty::Type(_), Ty::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Whether the type may stand for the variable, and whether the variable was bound already.
    fn substitutes(&mut self, t: &Ty, id: u32) -> (bool, bool) {
        if *t == Ty::Param(id) {
            return (true, true);
        }
        if let Some(current) = self.bound.get(&id).cloned() {
            if *t == current {
                return (true, true);
            }
            if self.fits(t, &current) {
                let general = most_general(t.clone(), current);
                if !self.mentions(id, &general) {
                    self.bind(id, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.mentions(id, t) {
            return (false, false);
        }
        self.bind(id, t.clone());
        (true, false)
    }

    fn mentions(&self, id: u32, t: &Ty) -> bool {
        match t {
            Ty::Param(other) => {
                *other == id || self.bound.get(other).is_some_and(|t| self.mentions(id, t))
            }
            Ty::List(a) | Ty::Optional(a) | Ty::Type(a) => self.mentions(id, a),
            Ty::Map(kv) => self.mentions(id, &kv.0) || self.mentions(id, &kv.1),
            _ => false,
        }
    }

    /// The type with every bound variable replaced; unbound ones become `dyn` if asked.
    pub(super) fn resolve(&self, t: &Ty, unbound_is_dyn: bool) -> Ty {
        match t {
            Ty::Param(id) => match self.bound.get(id) {
                Some(bound) => self.resolve(bound, unbound_is_dyn),
                None if unbound_is_dyn => Ty::Dyn,
                None => t.clone(),
            },
            Ty::List(a) => Ty::list(self.resolve(a, unbound_is_dyn)),
            Ty::Map(kv) => {
                Ty::map(self.resolve(&kv.0, unbound_is_dyn), self.resolve(&kv.1, unbound_is_dyn))
            }
            Ty::Optional(a) => Ty::optional(self.resolve(a, unbound_is_dyn)),
            Ty::Type(a) => Ty::Type(Arc::new(self.resolve(a, unbound_is_dyn))),
            other => other.clone(),
        }
    }
}

/// The more general of two types that are known to unify.
pub(super) fn most_general(a: Ty, b: Ty) -> Ty {
    if no_more_specific(&a, &b) { a } else { b }
}

fn no_more_specific(a: &Ty, b: &Ty) -> bool {
    match (a, b) {
        (Ty::Dyn | Ty::Param(_), _) => true,
        (_, Ty::Dyn | Ty::Param(_)) => false,
        (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => no_more_specific(a, b),
        (Ty::Map(a), Ty::Map(b)) => no_more_specific(&a.0, &b.0) && no_more_specific(&a.1, &b.1),
        (Ty::Type(_), Ty::Type(_)) => true,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unification_binds_only_on_success() {
        let mut b = Bindings::default();
        let sig = b.instantiate(&[Ty::Param(0), Ty::Param(0)]);
        assert!(!b.assignable_all(&[Ty::Int, Ty::String], &sig));
        assert!(b.assignable_all(&[Ty::String, Ty::String], &sig));
        assert_eq!(b.resolve(&sig[0], false), Ty::String);
    }

    #[test]
    fn a_variable_is_never_bound_inside_itself() {
        let mut b = Bindings::default();
        let v = b.fresh();
        assert!(!b.assignable(&Ty::list(v.clone()), &v));
        assert_eq!(b.resolve(&v, true), Ty::Dyn);
    }

    #[test]
    fn null_fits_what_may_be_absent() {
        let mut b = Bindings::default();
        assert!(b.assignable(&Ty::Null, &Ty::Timestamp));
        assert!(!b.assignable(&Ty::Null, &Ty::Int));
    }
}
