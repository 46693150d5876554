//! `x-kubernetes-list-type`: items of a set, and keys of a map, are there once.
//!
//! Each repeated item is told once, at its second place. Only what the schema's properties, map
//! values and items describe is looked at. A caller that updates leaves a list alone whose old
//! state already broke the rule: it checks the old object, and the new one only if that is fine.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::field::{FieldError, FieldPath};
use super::{Additional, ListType, Schema, print};

/// What is there twice and must not be.
pub fn validate(schema: &Schema, value: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, value, at, &mut errors);
    errors
}

fn node(schema: &Schema, value: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if let Some(Additional::Schema(below)) = &schema.additional_properties {
                for (key, value) in map {
                    node(below, value, &at.key(key), errors);
                }
            }
            for (key, property) in &schema.properties {
                if let Some(value) = map.get(key) {
                    node(property, value, &at.child(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for i in repeated(items.iter()) {
                        if let Some(item) = items.get(i) {
                            errors.push(FieldError::duplicate(at.index(i), item.clone()));
                        }
                    }
                }
                Some(ListType::Map) => keyed(schema, items, at, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(below) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    // A path costs memory: only where something is below.
                    if item.is_object() || item.is_array() {
                        node(below, item, &at.index(i), errors);
                    }
                }
            }
        }
        _ => {}
    }
}

fn keyed(schema: &Schema, items: &[Value], at: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some((i, item)) =
        items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        return errors.push(FieldError::invalid(at.index(i), item.clone(), detail));
    }
    let key = |item: &Value| {
        let fields = schema.list_map_keys.iter();
        let present = fields.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    let keys: Vec<_> = items.iter().map(key).collect();
    for i in repeated(keys.iter()) {
        if let Some(key) = keys.get(i) {
            errors.push(FieldError::duplicate(at.index(i), key.clone()));
        }
    }
}

/// The second place of each value that is there more than once.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut times = HashMap::new();
    let mut out = Vec::new();
    for (i, value) in values.enumerate() {
        let times = times.entry(print::json(value)).or_insert(0_u32);
        *times += 1;
        if *times == 2 {
            out.push(i);
        }
    }
    out
}
