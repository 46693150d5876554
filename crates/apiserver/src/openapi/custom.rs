//! The definitions that a custom resource brings, made from its structural schema.
//!
//! Published is what a kube-apiserver publishes: `metadata` refers to the common type, whole objects
//! inside get their fields, int-or-string says which two types it is. Version 2 has no words for much
//! of version 3; there less is said, so that clients accept more. A schema's size bounds its
//! definition's: at most three fields come on top per node.

use serde_json::{Map, Value, json};

use super::{Dialect, names};
use crate::builtin::REFERENCE;
use crate::resource::{Resource, Version};

type Object = Map<String, Value>;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The definitions of a resource's kind and of its list, by name. `brief` leaves the schema out.
pub(super) fn definitions(
    resource: &Resource,
    version: &Version,
    dialect: Dialect,
    brief: bool,
) -> [(String, Value); 2] {
    let kind = names::definition(resource, &version.name, &resource.kind);
    let list = names::definition(resource, &version.name, &resource.list_kind);
    let mut one = if brief { json!({"type": "object"}) } else { object(version, dialect) };
    let mut many = json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}{}", names::meta("ListMeta"))}]},
            "items": {
                "description": format!("List of {}.", resource.plural),
                "type": "array",
                "items": {"$ref": format!("{REFERENCE}{kind}")},
            },
        },
    });
    mark(&mut one, resource, version, &resource.kind);
    mark(&mut many, resource, version, &resource.list_kind);
    [(kind, one), (list, many)]
}

fn mark(definition: &mut Value, resource: &Resource, version: &Version, kind: &str) {
    definition["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": version.name, "kind": kind}]);
    if !version.selectable.is_empty() {
        let fields = version.selectable.keys().map(|path| json!({"fieldPath": path}));
        definition["x-kubernetes-selectable-fields"] = fields.collect();
    }
}

fn object(version: &Version, dialect: Dialect) -> Value {
    let schema = version.schema.as_deref().and_then(|s| serde_json::to_value(s).ok());
    let Some(Value::Object(mut root)) = schema else { return json!({"type": "object"}) };
    if dialect == Dialect::V2 && is(&root, PRESERVE) {
        // Properties would make clients refuse all others.
        return json!({"type": "object"});
    }
    publish(&mut root, dialect);
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    for (name, schema) in common() {
        properties[name] = schema;
    }
    root.into()
}

/// The fields of every object.
fn common() -> [(&'static str, Value); 3] {
    [
        ("apiVersion", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        (
            "metadata",
            json!({"allOf": [{"$ref": format!("{REFERENCE}{}", names::meta("ObjectMeta"))}]}),
        ),
    ]
}

fn is(schema: &Object, mark: &str) -> bool {
    schema.get(mark) == Some(&Value::Bool(true))
}

/// Turns a node and those below it from what is stored to what is published.
fn publish(schema: &mut Object, dialect: Dialect) {
    for unpublished in ["example", "externalDocs"] {
        schema.remove(unpublished);
    }
    match dialect {
        Dialect::V3 if is(schema, INT_OR_STRING) => unfold(schema),
        Dialect::V3 => {}
        Dialect::V2 => simplify(schema),
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|p| publish(p, dialect));
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below).and_then(Value::as_object_mut) {
            publish(below, dialect);
        }
    }
    if is(schema, EMBEDDED) && !(dialect == Dialect::V2 && is(schema, PRESERVE)) {
        embed(schema);
    }
}

/// Says which two types an int-or-string has, unless the schema does.
fn unfold(schema: &mut Object) {
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    let said = schema.get("anyOf") == Some(&types)
        || schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"))
            == Some(&types);
    if said {
        return;
    }
    match schema.get("anyOf").is_some() {
        false => schema.insert("anyOf".to_owned(), types),
        true => {
            let mut all = vec![json!({"anyOf": types})];
            if let Some(Value::Array(others)) = schema.remove("allOf") {
                all.extend(others);
            }
            schema.insert("allOf".to_owned(), all.into())
        }
    };
}

/// Leaves out what version 2 has no words for, or what its clients read as more than was meant.
fn simplify(schema: &mut Object) {
    for absent in ["allOf", "anyOf", "oneOf", "not", "default"] {
        schema.remove(absent);
    }
    if schema.remove("nullable").is_some() {
        for absent in ["type", "items", "properties"] {
            schema.remove(absent);
        }
    }
    if is(schema, PRESERVE) {
        schema.remove("items");
        schema.remove("properties");
        if schema.get("type").is_some_and(|t| t == "object") {
            schema.remove("type");
        }
    }
    if schema.get("type").is_some_and(|t| t == "array") && !schema.contains_key("items") {
        schema.remove("type");
    }
    let nullable = |schema: &Value| schema.get("nullable").is_some();
    if schema.get("additionalProperties").is_some_and(nullable) {
        schema.remove("required");
    }
    let mut required = schema.remove("required").unwrap_or_default();
    if let Some(names) = required.as_array_mut() {
        let properties = schema.get("properties");
        names.retain(|name| {
            let property = name.as_str().and_then(|name| properties?.get(name));
            !property.is_some_and(nullable)
        });
        if !names.is_empty() {
            schema.insert("required".to_owned(), required);
        }
    }
}

/// Adds the fields of a whole object to a node that holds one.
fn embed(schema: &mut Object) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for (name, common) in common() {
        properties[name] = common;
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|r| r == name) {
                required.push(name.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(dialect: Dialect, schema: Value) -> Value {
        let mut schema = schema.as_object().unwrap().clone();
        publish(&mut schema, dialect);
        schema.into()
    }

    #[test]
    fn int_or_string_says_its_types_once() {
        let types = json!([{"type": "integer"}, {"type": "string"}]);
        for (sent, want) in [
            (json!({INT_OR_STRING: true}), json!({INT_OR_STRING: true, "anyOf": types})),
            (
                json!({INT_OR_STRING: true, "anyOf": types}),
                json!({INT_OR_STRING: true, "anyOf": types}),
            ),
            (
                json!({INT_OR_STRING: true, "anyOf": [{"minLength": 1}], "allOf": [{"maxLength": 3}]}),
                json!({INT_OR_STRING: true, "anyOf": [{"minLength": 1}],
                       "allOf": [{"anyOf": types}, {"maxLength": 3}]}),
            ),
        ] {
            assert_eq!(published(Dialect::V3, sent), want);
        }
    }

    #[test]
    fn version_2_says_less() {
        for (sent, want) in [
            (json!({"type": "string", "nullable": true}), json!({})),
            (
                json!({"type": "object", "required": ["a", "b"], "properties":
                    {"a": {"type": "string", "nullable": true}, "b": {"type": "string", "default": ""}}}),
                json!({"type": "object", "required": ["b"],
                       "properties": {"a": {}, "b": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", PRESERVE: true, "properties": {"a": {"type": "string"}}}),
                json!({PRESERVE: true}),
            ),
            (json!({"type": "array", "oneOf": [{"minItems": 1}]}), json!({})),
            (
                json!({EMBEDDED: true, PRESERVE: true, "type": "object"}),
                json!({EMBEDDED: true, PRESERVE: true}),
            ),
        ] {
            assert_eq!(published(Dialect::V2, sent), want);
        }
    }
}
