//! What a CRD's schema may say, beyond being structural: unsupported keywords, `x-kubernetes-*`
//! marks that contradict each other, defaults where none may be, malformed rules.
//!
//! CEL expressions are not compiled here; the rules' texts, reasons and field paths are checked.

use serde_json::Value;

use super::field::{FieldError, FieldPath};
use super::raw::{self, Raw};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Where a node stands.
#[derive(Clone, Default)]
struct Place {
    inside_meta: bool,
    /// Why a default is forbidden here, if it is.
    no_defaults: Option<String>,
}

/// What is wrong with a schema, in upstream's order; `at` is where it stands in its CRD.
pub fn validate(schema: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(Raw(schema), at, &Place::default(), true, &mut errors);
    errors
}

/// The first keyword, or form of it, that no structural schema can hold.
pub(super) fn unsupported(schema: Raw<'_>) -> Option<&'static str> {
    let keywords = [
        ("id", "id"),
        ("items", "items"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let says = |key: &str| {
        schema.any(&|node: Raw<'_>| match key {
            "additionalItems" => node.get(key).is_some(),
            "items" => !node.list(key).is_empty(),
            key => node.has(key),
        })
    };
    keywords.iter().find(|(key, _)| says(key)).map(|(_, name)| *name)
}

fn node(
    schema: Raw<'_>,
    at: &FieldPath,
    place: &Place,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    keywords(schema, at, place, errors);
    if schema.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(at.child("uniqueItems"), detail));
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let at = at.child("additionalProperties");
        if schema.map("properties").is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(at.clone(), detail));
        }
        if let Some(values) = schema.values() {
            let mut place = place.clone();
            if place.inside_meta {
                place.no_defaults =
                    Some(" inside additionalProperties applying to object metadata".to_owned());
            }
            node(values, &at, &place, false, errors);
        }
    }
    for (key, property) in schema.properties() {
        let mut place = place.clone();
        let is_object = is_root || schema.flag("x-kubernetes-embedded-resource");
        if is_object && META_FIELDS.contains(&key.as_str()) {
            place.inside_meta = true;
            if is_root {
                place.no_defaults = Some(format!(" in top-level {key}"));
            }
        }
        node(property, &at.child("properties").key(key), &place, false, errors);
    }
    if let Some(not) = schema.schema("not") {
        node(not, &at.child("not"), place, false, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (one, at) in schema.all(key, at) {
            node(one, &at, place, false, errors);
        }
    }
    for (key, one) in schema.map("definitions").into_iter().flatten() {
        node(Raw(one), &at.child("definitions").key(key), place, false, errors);
    }
    if let Some(items) = schema.items() {
        node(items, &at.child("items"), place, false, errors);
    }
    for (one, at) in schema.all("items", at) {
        node(one, &at, place, false, errors);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = at.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    merge_marks(schema, at, errors);
    list_map(schema, at, errors);
    nullable_keys(schema, at, errors);
    rules(schema, &at.child("x-kubernetes-validations"), errors);
}

fn keywords(schema: Raw<'_>, at: &FieldPath, place: &Place, errors: &mut Vec<FieldError>) {
    let ty = schema.ty();
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.push(FieldError::not_supported(at.child("type"), ty, &TYPES));
    }
    let mut forbid = |field: &str, detail: &str| {
        errors.push(FieldError::forbidden(at.child(field), detail));
    };
    if let Some(why) = &place.no_defaults
        && schema.get("default").is_some()
    {
        forbid("default", &format!("must not be set{why}"));
    }
    let always = ["additionalItems", "dependencies", "$ref"];
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        if schema.has(key) || (always.contains(&key) && schema.get(key).is_some()) {
            forbid(key, &format!("{key} is not supported"));
        }
    }
    if ty == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if !schema.list("items").is_empty() {
        forbid("items", "items must be a schema object and not an array");
    }
    if place.inside_meta && schema.flag("x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
}

/// `x-kubernetes-map-type` and `x-kubernetes-list-type` on their own.
fn merge_marks(schema: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    const MAP: &str = "x-kubernetes-map-type";
    const LIST: &str = "x-kubernetes-list-type";
    let ty = schema.ty();
    let must_be = |wanted: &str, mark: &str| {
        let detail = format!("must be {wanted} if {mark} is specified");
        match ty {
            "" => FieldError::required(at.child("type"), detail),
            other => FieldError::invalid(at.child("type"), other, detail),
        }
    };
    let (map_type, list_type) = (schema.get(MAP), schema.get(LIST));
    if map_type.is_some() && ty != "object" {
        errors.push(must_be("object", MAP));
    }
    if let Some(mark) = map_type
        && !["atomic", "granular"].iter().any(|known| mark == known)
    {
        let known = ["atomic", "granular"];
        errors.push(FieldError::not_supported(at.child(MAP), mark.clone(), &known));
    }
    if list_type.is_some() && ty != "array" {
        errors.push(must_be("array", LIST));
    } else if list_type.is_some_and(|mark| mark == "set")
        && let Some(items) = schema.items()
    {
        let own = |mark: &str| items.get(mark);
        let wrong = match items.ty() {
            "array" => own(LIST).is_some_and(|mark| mark != "atomic").then_some(LIST),
            "object" => own(MAP).is_none_or(|mark| mark != "atomic").then_some(MAP),
            _ => None,
        };
        if let Some(mark) = wrong {
            // Upstream shows the list type in both cases.
            errors.push(FieldError::invalid(
                at.child("items").child(mark),
                own(LIST).cloned().unwrap_or_default(),
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            ));
        }
    }
    if let Some(mark) = list_type
        && !["atomic", "set", "map"].iter().any(|known| mark == known)
    {
        let known = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(at.child(LIST), mark.clone(), &known));
    }
}

/// `x-kubernetes-list-map-keys`: they go with a `map` list, and name scalar fields of its items.
fn list_map(schema: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let list_at = at.child("x-kubernetes-list-type");
    let list_type = schema.get("x-kubernetes-list-type");
    let keys: Vec<_> = schema.texts(KEYS).collect();
    if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.push(FieldError::required(list_at, detail)),
            Some(mark) if mark != "map" => {
                errors.push(FieldError::invalid(list_at, mark.clone(), detail));
            }
            Some(_) => {}
        }
    }
    if list_type.is_none_or(|mark| mark != "map") {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(at.child(KEYS), detail));
    }
    let items_at = at.child("items");
    let Some(items) = schema.items() else {
        errors.push(match schema.get("items") {
            None => FieldError::required(
                items_at,
                "must have a schema if x-kubernetes-list-type is map",
            ),
            Some(many) => FieldError::invalid(
                items_at,
                many.clone(),
                "must only have a single schema if x-kubernetes-list-type is map",
            ),
        });
        return;
    };
    if items.ty() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(FieldError::invalid(items_at.child("type"), items.ty(), detail));
    }
    for (i, key) in keys.iter().enumerate() {
        let mut wrong = |detail: &str| {
            errors.push(FieldError::invalid(at.child(KEYS), keys.clone(), detail));
        };
        match items.property(key) {
            None => wrong("entries must all be names of item properties"),
            Some(property) if matches!(property.ty(), "array" | "object") => {
                errors.push(FieldError::invalid(
                    items_at.child("properties").key(key).child("type"),
                    items.ty(),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
        }
        if keys.iter().take(i).any(|before| before == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(at.child(KEYS), keys.clone(), detail));
        }
    }
}

/// Items of sets and maps, and the keys of maps, are always there and never null.
fn nullable_keys(schema: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let list_type = schema.text("x-kubernetes-list-type");
    let Some(items) = schema.items().filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    let at = at.child("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(at.child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else {
            continue;
        };
        let at = at.child("properties").key(key);
        let present = items.texts("required").any(|required| required == key);
        if !present && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(FieldError::required(at.child("default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(at.child("nullable"), detail));
        }
    }
}

/// The rules' parts that are no CEL.
fn rules(schema: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for (i, rule) in schema.list("x-kubernetes-validations").iter().enumerate() {
        let (rule, at) = (Raw(rule), at.index(i));
        let [text, message, expression, path] =
            ["rule", "message", "messageExpression", "fieldPath"].map(|field| rule.text(field));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if text.trim().is_empty() {
            errors.push(FieldError::required(at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at.child("message"), message, detail));
        } else if broken(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(at.child("message"), message, detail));
        } else if broken(text.trim()) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at.child("message"), detail));
        }
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at.child("messageExpression"), detail));
        }
        if let Some(reason) = rule.get("reason")
            && !REASONS.iter().any(|known| reason == known)
        {
            errors.push(FieldError::not_supported(at.child("reason"), reason.clone(), &REASONS));
        }
        let mut wrong_path = |detail: &str| {
            errors.push(FieldError::invalid(at.child("fieldPath"), path, detail));
        };
        if path.is_empty() {
            continue;
        }
        if path.trim().is_empty() {
            wrong_path("must be non-empty if specified");
        }
        if broken(path) {
            wrong_path("must not contain line breaks");
        }
        if unsupported(schema).is_none() && raw::follow(path, schema, true).is_err() {
            wrong_path("must be a valid path");
        }
    }
}
