//! From a schema to a tree of compiled rules, with the static cost limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::check::{self, Scope};
use super::decl::{Decl, Merge, Shape};
use super::estimate;
use super::expr::Program;
use super::field_path;
use super::types::Ty;
use super::with_deep_stack;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::schema::print;
use crate::schema::{Additional, Rule, Schema, Type};

/// The most that one rule may be estimated to cost on one object.
const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of a definition may be estimated to cost on one object.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named when the total is exceeded.
const NAMED: usize = 4;

/// A schema node with rules on or below it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) decl: Arc<Decl>,
    /// The node's `type`, shown in errors.
    pub(super) type_: &'static str,
    pub(super) rules: Vec<Compiled>,
    pub(super) items: Option<Box<Self>>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Box<Self>>,
}

/// A rule that is ready to run.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pub(super) program: Program,
    pub(super) message: Option<Program>,
    /// Where errors point, relative to the node.
    pub(super) field_path: Option<String>,
}

impl Node {
    /// The keys that tell the items of a `map` list apart.
    pub(super) fn map_keys(&self) -> Option<&[String]> {
        match &self.decl.shape {
            Shape::List { merge: Merge::Map(keys), .. } => Some(keys),
            _ => None,
        }
    }

    fn is_useful(&self) -> bool {
        !self.rules.is_empty()
            || self.items.is_some()
            || !self.properties.is_empty()
            || self.additional.is_some()
    }
}

/// The tree of rules of a schema, or what is wrong with them; nodes with a fault on or below them
/// are left out.
pub(super) fn compile(
    schema: &Schema,
    base: &FieldPath,
    faults: &[FieldError],
) -> Result<Option<Node>, Vec<FieldError>> {
    if !has_rules(schema) {
        return Ok(None);
    }
    let compiled = with_deep_stack(|| {
        let mut compiler = Compiler { faults, errors: Vec::new(), total: 0, expensive: Vec::new() };
        let decl = Decl::of(schema, true);
        let place = Place { path: base.clone(), cardinality: Some(1), uncorrelated: None };
        let root = compiler.node(schema, &decl, &place);
        compiler.finish(base).map(|()| root)
    });
    compiled.unwrap_or_else(|| {
        Err(vec![FieldError::new(
            ErrorKind::Invalid,
            base.clone(),
            None,
            "internal error: the validation rules could not be compiled",
        )])
    })
}

fn has_rules(schema: &Schema) -> bool {
    !schema.rules.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || matches!(&schema.additional_properties, Some(Additional::Schema(s)) if has_rules(s))
}

/// Where the compiler is.
#[derive(Clone)]
struct Place {
    path: FieldPath,
    /// How many values of the node one object has at most; nothing if only its size limits that.
    cardinality: Option<u64>,
    /// The list whose items cannot be told apart, if there is one above.
    uncorrelated: Option<FieldPath>,
}

impl Place {
    fn below(&self, path: FieldPath, schema: &Schema) -> Self {
        let factor = match (schema.type_, &schema.additional_properties) {
            (Some(Type::Array), _) => schema.max_items,
            (Some(Type::Object), Some(_)) => schema.max_properties,
            _ => Some(1),
        };
        let cardinality =
            self.cardinality.zip(factor).map(|(a, b)| if b == 0 { 0 } else { a.saturating_mul(b) });
        Self { path, cardinality, uncorrelated: self.uncorrelated.clone() }
    }
}

struct Compiler<'a> {
    /// What is wrong with the schema apart from its rules.
    faults: &'a [FieldError],
    errors: Vec<FieldError>,
    total: u64,
    expensive: Vec<(u64, FieldPath)>,
}

impl Compiler<'_> {
    fn finish(self, base: &FieldPath) -> Result<(), Vec<FieldError>> {
        let mut errors = self.errors;
        if self.total > TOTAL_LIMIT {
            for (_, path) in self.expensive {
                errors.push(forbidden(
                    path,
                    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
                ));
            }
            let message = too_expensive(
                "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema",
                self.total,
                TOTAL_LIMIT,
            );
            errors.push(forbidden(base.clone(), &message));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn observe(&mut self, path: &FieldPath, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((cost, path.clone()));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }

    /// Compiles a node and all below.
    fn node(&mut self, schema: &Schema, decl: &Arc<Decl>, at: &Place) -> Option<Node> {
        let mut node = Node {
            decl: Arc::clone(decl),
            type_: type_name(schema),
            rules: Vec::new(),
            items: None,
            properties: BTreeMap::new(),
            additional: None,
        };
        match (&decl.shape, &schema.additional_properties, &schema.items) {
            (Shape::Map(values), Some(Additional::Schema(s)), _) => {
                let at = at.below(at.path.child("additionalProperties"), schema);
                node.additional = self.node(s, values, &at).map(Box::new);
            }
            (Shape::Object(object), ..) => {
                for (name, s) in &schema.properties {
                    let Some(field) = object.fields.get(name) else { continue };
                    let at = at.below(at.path.child("properties").key(name), schema);
                    node.properties.extend(self.node(s, field, &at).map(|n| (name.clone(), n)));
                }
            }
            (Shape::List { items, merge }, _, Some(s)) => {
                let mut below = at.below(at.path.child("items"), schema);
                if !matches!(merge, Merge::Map(_)) {
                    below.uncorrelated = Some(at.path.clone());
                }
                node.items = self.node(s, items, &below).map(Box::new);
            }
            _ => {}
        }
        self.rules(schema, &mut node, at);
        node.is_useful().then_some(node)
    }

    fn rules(&mut self, schema: &Schema, node: &mut Node, at: &Place) {
        let is_faulty = || self.faults.iter().any(|fault| fault.path.is_within(&at.path));
        if schema.rules.is_empty() || is_faulty() {
            return;
        }
        let base = at.path.child("x-kubernetes-validations");
        if !node.decl.is_visible() {
            self.errors.push(FieldError::new(
                ErrorKind::Invalid,
                base,
                None,
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations",
            ));
            return;
        }
        let this = Ty::of_decl(&node.decl, "selfType");
        let plain = Scope::rule(this.clone(), this.clone());
        let optional = Scope::rule(this.clone(), Ty::optional(this));
        for (i, rule) in schema.rules.iter().enumerate() {
            let scope = if rule.optional_old_self == Some(true) { &optional } else { &plain };
            let compiled = self.rule(rule, schema, node, scope, at, &base.index(i));
            node.rules.extend(compiled);
        }
    }

    fn rule(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        node: &Node,
        scope: &Scope,
        at: &Place,
        path: &FieldPath,
    ) -> Option<Compiled> {
        let program = check::compile(&rule.rule, scope).and_then(|p| match p.root.ty {
            Ty::Bool => Ok(p),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        });
        let rule_path = path.child("rule");
        let program = match program {
            Ok(program) => program,
            Err(detail) => {
                self.errors.push(wrong(rule_path, rule, &detail));
                self.optional_unused(rule, path);
                return None;
            }
        };
        let times = at.cardinality.unwrap_or_else(|| node.decl.max_cardinality());
        let cost = estimate::worst_cost(&program.root, &node.decl).saturating_mul(times);
        if cost > RULE_LIMIT {
            let message = too_expensive("estimated rule cost", cost, RULE_LIMIT);
            self.errors.push(forbidden(rule_path.clone(), &message));
        }
        self.observe(&rule_path, cost);
        let message = rule.message_expression.as_deref().filter(|text| !text.is_empty());
        let message = message.and_then(|text| {
            self.message(text, rule, node, scope, &path.child("messageExpression"))
        });
        match (&at.uncorrelated, program.uses_old) {
            (Some(list), true) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(invalid(rule_path, json!(rule.rule), &detail));
            }
            (None, true) => {}
            (_, false) => self.optional_unused(rule, path),
        }
        let field_path = rule.field_path.as_deref().filter(|p| !p.is_empty());
        let field_path = field_path.and_then(|p| field_path::normalize(p, schema));
        Some(Compiled { rule: rule.clone(), program, message, field_path })
    }

    fn optional_unused(&mut self, rule: &Rule, path: &FieldPath) {
        if let Some(set) = rule.optional_old_self {
            self.errors.push(invalid(
                path.child("optionalOldSelf"),
                json!(set),
                "may not be set if oldSelf is not used in rule",
            ));
        }
    }

    fn message(
        &mut self,
        text: &str,
        rule: &Rule,
        node: &Node,
        scope: &Scope,
        path: &FieldPath,
    ) -> Option<Program> {
        let program = match check::compile(text, scope) {
            Ok(program) if program.root.ty == Ty::String => program,
            Ok(_) => {
                let detail = "messageExpression must evaluate to a string";
                self.errors.push(wrong(path.clone(), rule, detail));
                return None;
            }
            Err(detail) => {
                let detail = match detail.strip_prefix("program instantiation") {
                    Some(rest) => format!("messageExpression instantiation{rest}"),
                    None => format!("messageExpression {detail}"),
                };
                self.errors.push(wrong(path.clone(), rule, &detail));
                return None;
            }
        };
        let cost = estimate::worst_cost(&program.root, &node.decl);
        if cost > RULE_LIMIT {
            let message = too_expensive("estimated messageExpression cost", cost, RULE_LIMIT);
            self.errors.push(forbidden(path.clone(), &message));
        }
        self.observe(path, cost);
        Some(program)
    }
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.type_ {
        Some(Type::Object) => "object",
        Some(Type::Array) => "array",
        Some(Type::String) => "string",
        Some(Type::Integer) => "integer",
        Some(Type::Number) => "number",
        Some(Type::Boolean) => "boolean",
        None => "",
    }
}

/// An error that shows the whole rule, its fields in upstream's order.
fn wrong(path: FieldPath, rule: &Rule, detail: &str) -> FieldError {
    let text = |text: Option<&str>| print::json(&json!(text.unwrap_or_default()));
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        text(Some(&rule.rule)),
        text(rule.message.as_deref()),
        text(rule.message_expression.as_deref()),
        print::json(&json!(rule.reason)),
        text(rule.field_path.as_deref()),
        print::json(&json!(rule.optional_old_self)),
    );
    FieldError::invalid_as(path, &shown, detail)
}

fn invalid(path: FieldPath, value: Value, detail: &str) -> FieldError {
    FieldError::new(ErrorKind::Invalid, path, Some(value), detail)
}

fn forbidden(path: FieldPath, detail: &str) -> FieldError {
    FieldError::new(ErrorKind::Forbidden, path, None, detail)
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let exceeds = cost as f64 / limit as f64;
    let factor = if exceeds > 100.0 {
        "more than 100x".to_owned()
    } else if exceeds < 1.5 {
        format!("{exceeds:.6}x")
    } else {
        format!("{exceeds:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
