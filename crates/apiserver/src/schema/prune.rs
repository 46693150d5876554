//! Pruning: fields that the schema does not know are dropped.
//!
//! What stays: everything below `x-kubernetes-preserve-unknown-fields` that no schema describes,
//! and `apiVersion`, `kind` and `metadata` of the object and of embedded objects. The dropped paths
//! are told, sorted, for the field validation modes `Warn` and `Strict`.

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::sabotage::Sabotage;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the unknown fields of a whole object; says which, as `spec.foo`.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    if Sabotage::NoPruning.is_planted() {
        return Vec::new();
    }
    let mut pruner = Pruner::default();
    pruner.node(Some(schema), object, true);
    pruner.finish()
}

/// Drops the unknown fields of a part of an object, such as a default.
pub fn prune_part(schema: &Schema, part: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.node(Some(schema), part, schema.embedded_resource);
    pruner.finish()
}

/// The strict decoding errors for paths that [`prune`] dropped.
pub fn unknown_fields(paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| format!("unknown field \"{path}\"")).collect()
}

/// Drops nulls where the schema neither admits nor replaces them.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    nulls(Some(schema), value);
}

fn nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let schema = schema.and_then(|schema| schema.field(key));
            let drop =
                value.is_null() && schema.is_some_and(|s| !s.nullable && s.default.is_none());
            if !drop {
                nulls(schema, value);
            }
            !drop
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| nulls(schema, item));
        }
        _ => {}
    }
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn finish(mut self) -> Vec<String> {
        self.dropped.sort_unstable();
        self.dropped
    }

    fn at<T>(&mut self, step: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.path.len();
        if mark > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let result = run(self);
        self.path.truncate(mark);
        result
    }

    fn node(&mut self, schema: Option<&Schema>, value: &mut Value, embedded: bool) {
        if schema.is_some_and(|schema| schema.preserve_unknown) {
            return self.preserved(schema, value, embedded);
        }
        match value {
            Value::Object(map) => self.object(schema, map, embedded),
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    self.at(&format!("[{i}]"), |this| this.node(schema, item, is_embedded(schema)));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, schema: Option<&Schema>, map: &mut Map<String, Value>, embedded: bool) {
        map.retain(|key, value| {
            let meta = META_FIELDS.contains(&key.as_str());
            if embedded && meta && schema.is_some() {
                return true;
            }
            match schema.and_then(|schema| below(schema, key)) {
                Some(schema) => {
                    self.at(key, |this| this.node(schema, value, is_embedded(schema)));
                    true
                }
                None => {
                    let path = self.at(key, |this| this.path.clone());
                    self.dropped.push(path);
                    false
                }
            }
        });
    }

    /// Below a preserving node only what a schema describes is looked at.
    fn preserved(&mut self, schema: Option<&Schema>, value: &mut Value, embedded: bool) {
        let Some(schema) = schema else {
            return;
        };
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if embedded && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(schema) = below(schema, key) {
                        self.at(key, |this| this.node(schema, value, is_embedded(schema)));
                    }
                }
            }
            Value::Array(items) => {
                let schema = schema.items.as_deref();
                for (i, item) in items.iter_mut().enumerate() {
                    let step = format!("[{i}]");
                    self.at(&step, |this| this.preserved(schema, item, is_embedded(schema)));
                }
            }
            _ => {}
        }
    }
}

fn is_embedded(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| schema.embedded_resource)
}

/// The schema of a field, where it is known: `Some(None)` is known without one.
fn below<'a>(schema: &'a Schema, key: &str) -> Option<Option<&'a Schema>> {
    match (schema.properties.get(key), &schema.additional_properties) {
        (Some(property), _) => Some(Some(property)),
        (None, Some(Additional::Schema(schema))) => Some(Some(schema)),
        (None, Some(Additional::Any(_))) => Some(None),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, mut object: Value, expect: &Value, dropped: &[&str]) {
        let parsed: Schema = serde_json::from_value(schema.clone()).expect("a schema");
        assert_eq!(prune(&parsed, &mut object), dropped, "{schema}");
        assert_eq!(&object, expect, "{schema}");
    }

    #[test]
    fn unknown_fields_go() {
        let plain = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "any": {"type": "object", "additionalProperties": true},
            "n": {"type": "array"}
        }}}});
        let keep = json!({"apiVersion": "v1", "kind": "A", "metadata": {"zz": 1}});
        let mut object = keep.clone();
        object["spec"] = json!({"a": 1, "b": 2, "l": [{"x": 1, "y": 2}, 5],
            "m": {"k": {"x": 1, "y": 2}}, "any": {"p": {"q": 1}}, "n": [{"z": 1}], "metadata": 3});
        object["status"] = json!({"x": 1});
        let mut expect = keep;
        expect["spec"] = json!({"a": 1, "l": [{"x": 1}, 5], "m": {"k": {"x": 1}},
            "any": {"p": {}}, "n": [{}]});
        let dropped = [
            "spec.any.p.q",
            "spec.b",
            "spec.l[0].y",
            "spec.m.k.y",
            "spec.metadata",
            "spec.n[0].z",
            "status",
        ];
        check(&plain, object, &expect, &dropped);
        assert_eq!(unknown_fields(&["spec.a".to_owned()]), ["unknown field \"spec.a\""]);
    }

    #[test]
    fn preserved_and_embedded_fields_stay() {
        let preserving = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}}}});
        check(
            &preserving,
            json!({"spec": {"x": {"y": 1}, "known": {"a": 1, "b": 2}}}),
            &json!({"spec": {"x": {"y": 1}, "known": {"a": 1}}}),
            &["spec.known.b"],
        );
        let embedded = json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}}}});
        check(
            &embedded,
            json!({"t": {"apiVersion": "v1", "kind": "P", "metadata": {"q": 1}, "spec": {"a": 1}, "z": 1}}),
            &json!({"t": {"apiVersion": "v1", "kind": "P", "metadata": {"q": 1}, "spec": {}}}),
            &["t.spec.a", "t.z"],
        );
        let list = json!({"type": "object", "properties": {"l": {"type": "array",
            "x-kubernetes-preserve-unknown-fields": true,
            "items": {"type": "object", "properties": {"o": {"type": "object"}}}}}});
        check(
            &list,
            json!({"l": [{"u": 1, "o": {"v": 1}}]}),
            &json!({"l": [{"u": 1, "o": {}}]}),
            &["l[0].o.v"],
        );
    }

    #[test]
    fn nulls_go_where_nothing_admits_them() {
        let schema: Schema = serde_json::from_value(json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "nullable": true},
            "c": {"type": "string", "default": "x"},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
        }}))
        .expect("a schema");
        let mut value = json!({"a": null, "b": null, "c": null, "z": null, "m": {"k": null},
            "l": [null, {"a": null}]});
        drop_nulls(&schema, &mut value);
        assert_eq!(value, json!({"b": null, "c": null, "z": null, "m": {}, "l": [null, {}]}));
    }
}
