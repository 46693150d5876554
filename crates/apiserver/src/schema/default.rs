//! Defaulting: absent fields, and nulls that are not admitted, take the schema's default.
//!
//! A default is filled in before what is below it is looked at, so defaults nest. Only fields are
//! defaulted when absent; map values and list items have a default only for a null.

use serde_json::Value;

use super::{Additional, Schema};
use crate::sabotage::Sabotage;

/// Fills in the defaults.
pub fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, property) in &schema.properties {
                if let Some(default) = &property.default
                    && !Sabotage::NoDefaults.is_planted()
                    && map.get(key).is_none_or(|value| is_stray_null(property, value))
                {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map {
                if let Some(property) = schema.properties.get(key) {
                    fill(property, value);
                } else if let Some(Additional::Schema(below)) = &schema.additional_properties {
                    item(below, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                items.iter_mut().for_each(|value| item(below, value));
            }
        }
        _ => {}
    }
}

fn item(schema: &Schema, value: &mut Value) {
    if is_stray_null(schema, value) {
        *value = schema.default.clone().unwrap_or_default();
    }
    fill(schema, value);
}

fn is_stray_null(schema: &Schema, value: &Value) -> bool {
    value.is_null() && !schema.nullable
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_fill_as_upstream() {
        for (schema, mut value, expect) in [
            (json!({}), json!({"a": 1}), json!({"a": 1})),
            (json!({"properties": {"a": {"default": "A"}}}), json!({}), json!({"a": "A"})),
            (json!({"properties": {"a": {"default": "A"}}}), json!({"a": 5}), json!({"a": 5})),
            (json!({"properties": {"a": {"default": "A"}}}), json!({"a": null}), json!({"a": "A"})),
            (
                json!({"properties": {"a": {"default": "A", "nullable": true}}}),
                json!({"a": null}),
                json!({"a": null}),
            ),
            (
                json!({"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}),
                json!({}),
                json!({"a": {"b": 1}}),
            ),
            (
                json!({"properties": {"a": {"properties": {"b": {"default": 1}}}}}),
                json!({}),
                json!({}),
            ),
            (
                json!({"items": {"default": "A", "properties": {"b": {"default": 1}}}}),
                json!([null, {}, 5]),
                json!(["A", {"b": 1}, 5]),
            ),
            (
                json!({"additionalProperties": {"default": "A", "properties": {"b": {"default": 1}}}}),
                json!({"x": null, "y": {}}),
                json!({"x": "A", "y": {"b": 1}}),
            ),
            (
                json!({"additionalProperties": {"nullable": true, "default": "A"}}),
                json!({"x": null}),
                json!({"x": null}),
            ),
            (json!({"default": "A"}), json!(null), json!(null)),
            (json!({"properties": {"a": {"default": "A"}}}), json!("text"), json!("text")),
        ] {
            let parsed: Schema = serde_json::from_value(schema.clone()).expect("a schema");
            fill(&parsed, &mut value);
            assert_eq!(value, expect, "{schema}");
        }
    }
}
