//! Whether an object of a custom resource keeps the rules that its CRD sets.

use serde_json::Value;

use crate::cel::Verdict;
use crate::dotted::DottedPath;
use crate::resource::{Resource, Scale, Version};
use crate::schema::Schema;
use crate::schema::field::{FieldError, FieldPath};
use crate::schema::{lists, metadata, print, validate};

/// What is wrong with an object, given the stored one on updates. A write to `/status` answers for
/// the status alone, though CEL rules see all.
pub(crate) fn validate_object(
    resource: &Resource,
    version: &Version,
    is_status: bool,
    old: Option<&Value>,
    new: &Value,
) -> Verdict {
    let Some(schema) = version.schema.as_deref() else { return Verdict::default() };
    let at = FieldPath::root();
    let mut errors = match (old, is_status) {
        (None, _) => validate::validate(schema, new, &at),
        (Some(old), false) => validate::validate_update(schema, new, old, &at),
        (Some(old), true) => status(schema, old, new, &at),
    };
    if let Some(scale) = &resource.scale {
        errors.extend(scaled(scale, is_status, new));
    }
    if !is_status {
        errors.extend(metadata::validate_embedded(schema, new, &at));
    }
    // What is stored already may break the rule of lists; it is not the writer's fault.
    if old.is_none_or(|old| lists::validate(schema, old, &at).is_empty()) {
        errors.extend(lists::validate(schema, new, &at));
    }
    let mut verdict = Verdict { errors, ..Verdict::default() };
    if let Some(rules) = &version.rules {
        match validate::blocking(&verdict.errors) {
            Some(blocked) => verdict.errors.push(blocked),
            None => {
                let found = rules.validate(new, old);
                verdict.errors.extend(found.errors);
                verdict.warnings = found.warnings;
            }
        }
    }
    verdict
}

fn status(schema: &Schema, old: &Value, new: &Value, at: &FieldPath) -> Vec<FieldError> {
    let at = at.child("status");
    let (Some(schema), Some(new)) = (schema.properties.get("status"), new.get("status")) else {
        return Vec::new();
    };
    match old.get("status") {
        Some(old) => validate::validate_update(schema, new, old, &at),
        None => validate::validate(schema, new, &at),
    }
}

/// What the fields behind `/scale` must be, whichever way they are written.
fn scaled(scale: &Scale, is_status: bool, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_status {
        errors.extend(replicas(&scale.spec_replicas, object));
    }
    errors.extend(replicas(&scale.status_replicas, object));
    if let Some(path) = &scale.label_selector
        && let Err(words) = read(path, object, "string", Value::is_string)
    {
        errors.push(FieldError::invalid(at(path), "", words));
    }
    errors
}

fn at(path: &DottedPath) -> FieldPath {
    FieldPath::root().child(&path.to_string())
}

fn replicas(path: &DottedPath, object: &Value) -> Option<FieldError> {
    match read(path, object, "int64", Value::is_i64) {
        Err(words) => Some(FieldError::invalid(at(path), 0, words)),
        Ok(found) => {
            let count = found.and_then(Value::as_i64).unwrap_or(0);
            let words = match count {
                ..0 => "should be a non-negative integer".to_owned(),
                count if count > i64::from(i32::MAX) => {
                    format!("should be less than or equal to {}", i32::MAX)
                }
                _ => return None,
            };
            Some(FieldError::invalid(at(path), count, words))
        }
    }
}

/// The field at a path, or why it is not what it should be.
fn read<'a>(
    path: &DottedPath,
    object: &'a Value,
    wanted: &str,
    fits: impl FnOnce(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let wrong = |way: &str, value: &Value, wanted: &str| {
        let (shown, found) = (print::plain(value), go_type(value));
        format!("{way} accessor error: {shown} is of the type {found}, expected {wanted}")
    };
    let (mut value, mut way) = (object, String::new());
    for name in path.names() {
        match value {
            Value::Object(fields) => match fields.get(name) {
                Some(below) => value = below,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => {
                let way = format!("{way}.{name}");
                return Err(wrong(&way, other, "map[string]interface{}"));
            }
        }
        way = format!("{way}.{name}");
    }
    if fits(value) { Ok(Some(value)) } else { Err(wrong(&way, value, wanted)) }
}

/// The Go type that holds a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scaled_fields_are_told_as_upstream() {
        let path = |text| DottedPath::parse(text).expect("a path");
        let scale = Scale {
            spec_replicas: path(".spec.replicas"),
            status_replicas: path(".status.replicas"),
            label_selector: Some(path(".status.selector")),
        };
        for (object, expect) in [
            (json!({"spec": {"replicas": 3}}), &[][..]),
            (
                json!({"spec": {"replicas": -1}}),
                &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
            ),
            (
                json!({"status": {"replicas": 2_147_483_648_i64}}),
                &[".status.replicas: Invalid value: 2147483648: should be less than or equal to \
                   2147483647"],
            ),
            (
                json!({"spec": {"replicas": "x"}, "status": {"selector": 5}}),
                &[
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the \
                     type string, expected int64",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 is \
                     of the type int64, expected string",
                ],
            ),
            (
                json!({"spec": [true, {"a": 1.5}]}),
                &[".spec.replicas: Invalid value: 0: .spec.replicas accessor error: [true \
                   map[a:1.5]] is of the type []interface {}, expected map[string]interface{}"],
            ),
        ] {
            let found: Vec<String> =
                scaled(&scale, false, &object).iter().map(ToString::to_string).collect();
            assert_eq!(found, expect, "{object}");
        }
    }
}
