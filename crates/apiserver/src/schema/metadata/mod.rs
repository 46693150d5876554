//! `ObjectMeta`: what may stand in an object's metadata, when created and when updated.
//!
//! The metadata has been coerced before: every field here has its type. What a client may not set
//! at all (and what the server sets) is the registry's business, not checked here.

use serde_json::Value;

use super::field::{FieldError, FieldPath};
use super::names::{self, NameRule};
use super::{Schema, coerce, print};

/// How many bytes the keys and values of all annotations may have together.
pub const ANNOTATIONS_LIMIT: u64 = 256 << 10;

fn text<'a>(meta: &'a Value, field: &str) -> &'a str {
    meta.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn entries<'a>(meta: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    meta.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn list<'a>(meta: &'a Value, field: &str) -> &'a [Value] {
    meta.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is wrong with the metadata of a new object; `at` is where it stands.
pub fn validate(meta: &Value, namespaced: bool, rule: NameRule, at: &FieldPath) -> Vec<FieldError> {
    validate_named(meta, namespaced, |name, is_prefix| rule.check(name, is_prefix), at)
}

/// As [`validate`], with a rule of the caller's own.
pub(super) fn validate_named(
    meta: &Value,
    namespaced: bool,
    rule: impl Fn(&str, bool) -> Vec<String>,
    at: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut say = |field: &str, value: &str, words: Vec<String>| {
        let invalid = |detail| FieldError::invalid(at.child(field), value, detail);
        errors.extend(words.into_iter().map(invalid));
    };
    let (name, prefix) = (text(meta, "name"), text(meta, "generateName"));
    if !prefix.is_empty() {
        say("generateName", prefix, rule(prefix, true));
    }
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required(at.child("name"), detail));
    } else {
        say("name", name, rule(name, false));
    }
    let namespace = text(meta, "namespace");
    if !namespaced {
        if !namespace.is_empty() {
            let detail = "not allowed on this type";
            errors.push(FieldError::forbidden(at.child("namespace"), detail));
        }
    } else if namespace.is_empty() {
        errors.push(FieldError::required(at.child("namespace"), ""));
    } else {
        let invalid = |detail| FieldError::invalid(at.child("namespace"), namespace, detail);
        errors.extend(NameRule::Label.check(namespace, false).into_iter().map(invalid));
    }
    let generation = meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(at.child("generation"), generation, detail));
    }
    maps_and_owners(meta, at, &mut errors);
    finalizers(meta, &at.child("finalizers"), &mut errors);
    managed_fields(meta, &at.child("managedFields"), &mut errors);
    errors
}

/// What is wrong with the metadata of an object that replaces another.
pub fn validate_update(new: &Value, old: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let before = list(old, "finalizers");
        let fresh = list(new, "finalizers").iter().filter(|one| !before.contains(one));
        let mut fresh: Vec<_> = fresh.filter_map(Value::as_str).map(print::quote).collect();
        fresh.sort_unstable();
        fresh.dedup();
        if !fresh.is_empty() {
            errors.push(FieldError::forbidden(
                at.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new \
                     finalizers []string{{{}}}",
                    fresh.join(", ")
                ),
            ));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(at.child("resourceVersion"), "", detail));
    }
    let generation =
        |meta: &Value| meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(at.child("generation"), generation(new), detail));
    }
    for (field, empty) in [
        ("name", Value::from("")),
        ("namespace", Value::from("")),
        ("uid", Value::from("")),
        ("creationTimestamp", Value::Null),
        ("deletionTimestamp", Value::Null),
        ("deletionGracePeriodSeconds", Value::Null),
    ] {
        let of = |meta: &Value| {
            meta.get(field).filter(|value| !value.is_null()).unwrap_or(&empty).clone()
        };
        if of(new) != of(old) {
            errors.push(FieldError::invalid(at.child(field), of(new), "field is immutable"));
        }
    }
    maps_and_owners(new, at, &mut errors);
    managed_fields(new, &at.child("managedFields"), &mut errors);
    errors
}

fn maps_and_owners(meta: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = at.child("labels");
    for (key, value) in entries(meta, "labels") {
        let value = value.as_str().unwrap_or_default();
        let wrong = names::qualified(key).into_iter();
        errors.extend(wrong.map(|words| FieldError::invalid(path.clone(), key.as_str(), words)));
        let wrong = names::label_value(value).into_iter();
        errors.extend(wrong.map(|words| FieldError::invalid(path.clone(), value, words)));
    }
    let path = at.child("annotations");
    let mut size = 0;
    for (key, value) in entries(meta, "annotations") {
        size += (key.len() + value.as_str().map_or(0, str::len)) as u64;
        let wrong = names::qualified(&key.to_lowercase()).into_iter();
        errors.extend(wrong.map(|words| FieldError::invalid(path.clone(), key.as_str(), words)));
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
    owners(meta, &at.child("ownerReferences"), errors);
}

fn owners(meta: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let owners = list(meta, "ownerReferences");
    let mut controller: Option<String> = None;
    for owner in owners {
        let api_version = text(owner, "apiVersion");
        // What has more than one slash names no version either.
        let version = match api_version.matches('/').count() {
            0 | 1 => api_version.rsplit('/').next().unwrap_or_default(),
            _ => "",
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(at.child("apiVersion"), api_version, detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(FieldError::invalid(at.child(field), "", "must not be empty"));
            }
        }
        if api_version == "v1" && text(owner, "kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(at.clone(), owner.clone(), detail));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid_as(
                    at.clone(),
                    &shown_owners(owners),
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
}

/// Owners as Go prints them: the fields in the order of its type.
fn shown_owners(owners: &[Value]) -> String {
    const FIELDS: [&str; 6] =
        ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let one = |owner: &Value| {
        let fields = FIELDS.iter().filter_map(|field| {
            let value = owner.get(field).filter(|value| !value.is_null())?;
            Some(format!("\"{field}\":{value}"))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    format!("[{}]", owners.iter().map(one).collect::<Vec<_>>().join(","))
}

fn finalizers(meta: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    const ORPHAN: &str = "orphan";
    const FOREGROUND: &str = "foregroundDeletion";
    let all = list(meta, "finalizers");
    for one in all.iter().filter_map(Value::as_str) {
        let wrong = names::qualified(one).into_iter();
        errors.extend(wrong.map(|words| FieldError::invalid(at.clone(), one, words)));
    }
    let has = |name: &str| all.iter().any(|one| one == name);
    if has(ORPHAN) && has(FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(at.clone(), all, detail));
    }
}

fn managed_fields(meta: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for (i, entry) in list(meta, "managedFields").iter().enumerate() {
        let at = at.index(i);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(at.child("operation"), operation, detail));
        }
        let kind = text(entry, "fieldsType");
        if !matches!(kind, "" | "FieldsV1") {
            errors.push(FieldError::invalid(at.child("fieldsType"), kind, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text(entry, "manager"), &at.child("manager")));
        if text(entry, "subresource").len() > 256 {
            errors.push(FieldError::too_long(at.child("subresource"), 256));
        }
    }
}

/// What is wrong with the name of a field manager.
pub fn validate_field_manager(name: &str, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.len() > 128 {
        errors.push(FieldError::too_long(at.clone(), 128));
    }
    for (place, c) in name.char_indices().filter(|(_, c)| !print::printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {place})", u32::from(c));
        errors.push(FieldError::invalid(at.clone(), name, detail));
    }
    errors
}

/// What is wrong with `apiVersion`, `kind` and `metadata` of the objects embedded in a value.
pub fn validate_embedded(schema: &Schema, value: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    embedded_below(schema, value, at, schema.embedded_resource, &mut errors);
    errors
}

/// As [`validate_embedded`], for a value that is an object itself.
pub(super) fn validate_object(schema: &Schema, value: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    embedded_below(schema, value, at, true, &mut errors);
    errors
}

fn embedded_below(
    schema: &Schema,
    value: &Value,
    at: &FieldPath,
    is_object: bool,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if is_object {
                embedded(value, at, errors);
            }
            for (key, value) in map {
                let Some(below) = schema.field(key) else {
                    continue;
                };
                let known = schema.properties.contains_key(key);
                let at = if known { at.child(key) } else { at.key(key) };
                embedded_below(below, value, &at, below.embedded_resource, errors);
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (i, item) in items.iter().enumerate().filter(|(_, item)| {
                    // A path costs memory: only where something is below.
                    item.is_object() || item.is_array()
                }) {
                    embedded_below(below, item, &at.index(i), below.embedded_resource, errors);
                }
            }
        }
        _ => {}
    }
}

fn embedded(object: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        if object.get(field).is_none() {
            errors.push(FieldError::required(at.child(field), ""));
        }
    }
    for field in ["apiVersion", "kind"] {
        let Some(value) = object.get(field) else {
            continue;
        };
        let wrong = match value.as_str() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(kind) if field == "kind" => match names::label_1035(&kind.to_lowercase()) {
                words if words.is_empty() => continue,
                words => {
                    format!("may have mixed case, but should otherwise match: {}", words.join(","))
                }
            },
            Some(version) if version.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {version}")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::invalid(at.child(field), value.clone(), wrong));
    }
    let Some(meta) = object.get("metadata") else {
        return;
    };
    let at = at.child("metadata");
    match coerce::object_meta(meta) {
        Err(error) => errors.push(FieldError::invalid(at, meta.clone(), error)),
        Ok((mut meta, _)) => {
            // An embedded object may be one that gets its name later.
            meta.entry("name").or_insert_with(|| "fakename".into());
            let meta = Value::Object(meta);
            let namespaced = !text(&meta, "namespace").is_empty();
            errors.extend(validate(&meta, namespaced, NameRule::PathSegment, &at));
        }
    }
}

#[cfg(test)]
mod tests;
