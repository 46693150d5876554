//! Runs the compiled rules on an object, within the budget of one request.
//!
//! Guarantees: transition rules run only where the old value can be told; after the budget is spent
//! nothing more runs, and the last error says so.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::compile::{Compiled, Node};
use super::eval::Machine;
use super::expr::Program;
use super::meter::{Fail, Meter};
use super::value::{Val, json_equals};
use super::{Verdict, with_deep_stack};
use crate::sabotage::Sabotage;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};

/// What all rules on one object may cost together.
const BUDGET: u64 = 10_000_000;
/// The longest message that a `messageExpression` may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The budget is spent; nothing more may run.
struct Spent;

/// What the rules have against the object, and what finding out has cost.
pub(super) fn validate(root: &Node, new: &Value, old: Option<&Value>) -> (Verdict, u64) {
    let mut run = Run { verdict: Verdict::default(), budget: BUDGET };
    let old = old.filter(|o| !o.is_null());
    let correlation = Correlation { current: old.map(|o| (new, o)), parent: None };
    // The errors say whether the budget lasted.
    let _spent: Result<(), Spent> = run.node(root, &FieldPath::root(), new, old, correlation);
    (run.verdict, BUDGET - run.budget)
}

/// The pair of values, or that of the nearest ancestor, by which a failure may be forgiven.
#[derive(Clone, Copy)]
struct Correlation<'v> {
    current: Option<(&'v Value, &'v Value)>,
    parent: Option<(&'v Value, &'v Value)>,
}

impl<'v> Correlation<'v> {
    fn is_unchanged(&self) -> bool {
        let pair = self.current.or(self.parent);
        // An object is compared in full at most once per failing rule: enough work for that.
        pair.is_some_and(|(new, old)| json_equals(new, old, &mut Meter::default()).unwrap_or(false))
    }

    fn below(self, pair: Option<(&'v Value, &'v Value)>) -> Self {
        match self.current {
            None => self,
            Some(current) => Self { current: pair, parent: Some(current) },
        }
    }
}

struct Run {
    verdict: Verdict,
    budget: u64,
}

impl Run {
    fn node<'v>(
        &mut self,
        node: &Node,
        path: &FieldPath,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) -> Result<(), Spent> {
        if new.is_null() {
            return Ok(());
        }
        self.rules(node, path, new, old, correlation)?;
        match new {
            Value::Array(items) => {
                let Some(node_items) = &node.items else { return Ok(()) };
                let earlier = Earlier::of(node.map_keys(), old);
                for (i, item) in items.iter().enumerate() {
                    let old = earlier.find(item);
                    let correlation = correlation.below(old.map(|o| (item, o)));
                    self.node(node_items, &path.index(i), item, old, correlation)?;
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    let (below, path) = match (&node.additional, node.properties.get(name)) {
                        (Some(values), _) => (&**values, path.key(name)),
                        (None, Some(property)) => (property, path.child(name)),
                        (None, None) => continue,
                    };
                    let old = old.and_then(|o| o.get(name)).filter(|o| !o.is_null());
                    // What kind of object it is was converted, so it says nothing about a change.
                    let type_field =
                        correlation.parent.is_none() && (name == "apiVersion" || name == "kind");
                    let correlation = match type_field {
                        true => Correlation { current: None, parent: None },
                        false => correlation.below(old.map(|o| (value, o))),
                    };
                    self.node(below, &path, value, old, correlation)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules<'v>(
        &mut self,
        node: &Node,
        path: &FieldPath,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) -> Result<(), Spent> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let type_ = json!(node.type_);
        if self.budget == 0 {
            self.invalid(path, type_, OUT_OF_BUDGET);
            return Err(Spent);
        }
        for compiled in &node.rules {
            let program = &compiled.program;
            let optional = compiled.rule.optional_old_self == Some(true);
            if program.uses_old && old.is_none() && !optional {
                continue;
            }
            if program.uses_old && Sabotage::NoTransitionRules.is_planted() {
                continue;
            }
            let values = Values { node, new, old, optional };
            let (result, cost) = values.eval(program);
            self.pay(path, &type_, cost)?;
            match result {
                Ok(Answer::Bool(true)) => {}
                Ok(_) => {
                    let error = self.failure(compiled, &values, path)?;
                    if program.uses_old || !correlation.is_unchanged() {
                        self.verdict.errors.push(error);
                    } else {
                        self.verdict.warnings.push(error.to_string());
                    }
                }
                Err(Fail::Cost) => {
                    let detail = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        compiled.name()
                    );
                    self.invalid(path, type_, &detail);
                    return Err(Spent);
                }
                Err(Fail::Error(e)) if e.starts_with("no such overload") => {
                    let detail = format!(
                        "'{e}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                        compiled.name()
                    );
                    self.invalid(path, type_.clone(), &detail);
                }
                Err(Fail::Error(e)) => {
                    let detail = format!("{e} evaluating rule: {}", compiled.name());
                    self.invalid(path, type_.clone(), &detail);
                }
            }
        }
        Ok(())
    }

    fn invalid(&mut self, path: &FieldPath, value: Value, detail: &str) {
        let error = FieldError::new(ErrorKind::Invalid, path.clone(), Some(value), detail);
        self.verdict.errors.push(error);
    }

    fn pay(&mut self, path: &FieldPath, type_: &Value, cost: u64) -> Result<(), Spent> {
        match self.budget.checked_sub(cost) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                self.invalid(path, type_.clone(), OUT_OF_BUDGET);
                Err(Spent)
            }
        }
    }

    /// The error of a rule that is false.
    fn failure(
        &mut self,
        compiled: &Compiled,
        values: &Values<'_>,
        path: &FieldPath,
    ) -> Result<FieldError, Spent> {
        let path = match &compiled.field_path {
            Some(below) => path.child(below),
            None => path.clone(),
        };
        let mut detail = None;
        if let Some(message) = &compiled.message {
            let (result, cost) = values.eval(message);
            let text = compiled.rule.message_expression.as_deref().unwrap_or_default();
            let problem = match (self.budget.checked_sub(cost), &result) {
                (None, _) => Some(
                    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned(),
                ),
                (_, Err(Fail::Cost)) => Some(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {text:?}"
                )),
                (Some(left), _) => {
                    self.budget = left;
                    None
                }
            };
            if let Some(problem) = problem {
                self.invalid(&path, json!(values.node.type_), &problem);
                return Err(Spent);
            }
            if let Ok(Answer::Text(s)) = result {
                let s = s.trim();
                if !s.is_empty() && s.len() <= LONGEST_MESSAGE && !s.contains('\n') {
                    detail = Some(s.to_owned());
                }
            }
        }
        let detail = detail.unwrap_or_else(|| compiled.default_message());
        let value = match values.node.type_ {
            "object" | "array" => None,
            _ => Some(values.new.clone()),
        };
        let (kind, value, detail) = match compiled.rule.reason.as_deref() {
            Some("FieldValueForbidden") => (ErrorKind::Forbidden, None, detail),
            Some("FieldValueRequired") => (ErrorKind::Required, None, detail),
            Some("FieldValueDuplicate") => (ErrorKind::Duplicate, value, String::new()),
            _ => (ErrorKind::Invalid, value, detail),
        };
        Ok(FieldError::new(kind, path, value, &detail))
    }
}

impl Compiled {
    /// How errors of evaluation call the rule.
    fn name(&self) -> &str {
        match self.rule.message.as_deref() {
            Some(message) if !message.is_empty() => message.trim(),
            _ => self.rule.rule.trim(),
        }
    }

    fn default_message(&self) -> String {
        match self.rule.message.as_deref() {
            Some(message) if !message.is_empty() => message.trim().to_owned(),
            _ => format!("failed rule: {}", self.rule.rule.trim()),
        }
    }
}

/// What came of a program.
enum Answer {
    Bool(bool),
    Text(String),
    Other,
}

/// What a rule is evaluated on.
struct Values<'v> {
    node: &'v Node,
    new: &'v Value,
    old: Option<&'v Value>,
    optional: bool,
}

impl<'v> Values<'v> {
    /// The result of a program, and its cost.
    fn eval(&self, program: &Program) -> (Result<Answer, Fail>, u64) {
        match program.deep {
            false => self.run(program),
            true => with_deep_stack(|| self.run(program)).unwrap_or((Err(Fail::Cost), 0)),
        }
    }

    fn run(&self, program: &Program) -> (Result<Answer, Fail>, u64) {
        let this = match Val::of_json(self.new, &self.node.decl) {
            Ok(this) => this,
            Err(e) => return (Err(e), 0),
        };
        let old = match self.old.filter(|_| program.uses_old) {
            None => None,
            Some(old) => match Val::of_json(old, &self.node.decl) {
                Ok(old) => Some(old),
                Err(e) => return (Err(e), 0),
            },
        };
        let old = match self.optional {
            true => Some(Val::optional(old)),
            false => old,
        };
        let mut machine = Machine::new(this, old);
        let answer = machine.eval(&program.root).map(|value| match value {
            Val::Bool(b) => Answer::Bool(b),
            Val::Str(s) => Answer::Text(s.to_string()),
            _ => Answer::Other,
        });
        (answer, machine.meter.cost)
    }
}

/// The old items of a list, by their keys.
enum Earlier<'v> {
    Unknown,
    Keyed(&'v [String], HashMap<Vec<String>, &'v Value>),
}

impl<'v> Earlier<'v> {
    fn of(keys: Option<&'v [String]>, old: Option<&'v Value>) -> Self {
        match (keys, old.and_then(Value::as_array)) {
            (Some(keys), Some(old)) => {
                Self::Keyed(keys, old.iter().map(|item| (key_of(item, keys), item)).collect())
            }
            _ => Self::Unknown,
        }
    }

    fn find(&self, item: &Value) -> Option<&'v Value> {
        match self {
            Self::Unknown => None,
            Self::Keyed(keys, old) => old.get(&key_of(item, keys)).copied(),
        }
    }
}

fn key_of(item: &Value, keys: &[String]) -> Vec<String> {
    keys.iter().map(|k| item.get(k).unwrap_or(&Value::Null).to_string()).collect()
}
