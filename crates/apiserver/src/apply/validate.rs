//! Whether a value has the shape of its schema, as far as merging needs it to.
//!
//! Not the validation of the object: only types, known fields and keys of list items, with the
//! texts that clients of a kube-apiserver read.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::shape::{Form, ListShape, Scalar, Shape};
use super::value;
use crate::schema::print;

/// How strict to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// What a client applies: no duplicate items, no unknown fields.
    Applied,
    /// What is or will be stored: both may have got in by other ways.
    Stored,
}

/// Everything wrong with a value's shape.
#[derive(Debug, Default, PartialEq)]
pub struct ShapeErrors(Vec<String>);

impl fmt::Display for ShapeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [one] => f.write_str(one),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ShapeErrors {}

/// Checks that the value can be merged by its shape.
pub(super) fn validate(
    shape: Shape<'_>,
    value: &Value,
    strictness: Strictness,
) -> Result<(), ShapeErrors> {
    let mut walk = Walk { path: String::new(), strictness, errors: ShapeErrors::default() };
    walk.node(shape, value);
    if walk.errors.0.is_empty() { Ok(()) } else { Err(walk.errors) }
}

struct Walk {
    path: String,
    strictness: Strictness,
    errors: ShapeErrors,
}

impl Walk {
    fn refuse(&mut self, message: impl fmt::Display) {
        self.errors.0.push(if self.path.is_empty() {
            message.to_string()
        } else {
            format!("{}: {message}", self.path)
        });
    }

    fn below(&mut self, element: impl fmt::Display, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        visit(self);
        self.path.truncate(length);
    }

    fn node(&mut self, shape: Shape<'_>, value: &Value) {
        match (shape.form(value), value) {
            (_, Value::Null) => {}
            (Form::Map, Value::Object(fields)) => {
                for (name, value) in fields {
                    match shape.field(name) {
                        Some(field) => {
                            self.below(format_args!(".{name}"), |w| w.node(field.shape, value));
                        }
                        None if self.strictness == Strictness::Stored => {}
                        None => {
                            self.below(format_args!(".{name}"), |w| {
                                w.refuse("field not declared in schema");
                            });
                            return;
                        }
                    }
                }
            }
            (Form::Map, _) => {
                self.refuse(format_args!("expected map, got &{{{}}}", print::plain(value)))
            }
            (Form::List, Value::Array(items)) => self.list(shape, items),
            (Form::List, _) => {
                self.refuse(format_args!("expected list, got &{{{}}}", print::plain(value)));
            }
            (Form::Scalar, _) => self.scalar(shape.scalar(), value),
        }
    }

    fn list(&mut self, shape: Shape<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if let ListShape::Atomic = shape.list() {
                self.below(format_args!("[{i}]"), |w| w.node(shape.item(), item));
                continue;
            }
            let element = match shape.item_element(item) {
                Ok(element) => element,
                Err(error) => return self.refuse(format_args!("element {i}: {error}")),
            };
            if self.strictness == Strictness::Applied && seen.contains(&element) {
                self.refuse(format_args!("duplicate entries for key {element}"));
            }
            self.below(&element, |w| w.node(shape.item(), item));
            seen.insert(element);
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Numeric, _) => self.refuse(format_args!(
                "expected numeric (int or float), got {}",
                value::type_name(value)
            )),
            (Scalar::String, _) => self.refuse(format_args!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                value::syntax(value)
            )),
            (Scalar::Boolean, _) => {
                self.refuse(format_args!("expected boolean, got &{{{}}}", print::plain(value)));
            }
            (Scalar::Any, _) => {
                self.refuse(format_args!("expected any scalar, got &{{{}}}", print::plain(value)));
            }
        }
    }
}
