//! `metadata` as JSON: reading it, and setting what only the server sets.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::Object;

/// An object's metadata; an object without any reads as empty.
pub(crate) fn meta(object: &Object) -> &Object {
    static EMPTY: LazyLock<Object> = LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// An object's metadata, made if it was not there.
pub(crate) fn meta_mut(object: &mut Object) -> &mut Object {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    match metadata {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A string field; absent and other types read as empty.
pub(crate) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The strings of a list field.
pub(crate) fn strings<'a>(object: &'a Object, field: &str) -> Vec<&'a str> {
    let items = object.get(field).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether deletion has been asked for.
pub(crate) fn is_deleting(object: &Object) -> bool {
    meta(object).get("deletionTimestamp").is_some_and(|v| !v.is_null())
}

/// Whether nothing holds back the removal of an object whose deletion has been asked for.
pub(crate) fn may_go(object: &Object) -> bool {
    let metadata = meta(object);
    let grace = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    is_deleting(object) && grace == 0 && strings(metadata, "finalizers").is_empty()
}

/// Marks an object as being deleted at a time; what counts desired states counts that once.
pub(crate) fn mark_deleting(object: &mut Object, at: &str, grace_seconds: i64) {
    let deleting = is_deleting(object);
    let metadata = meta_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), at.into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
    if !deleting && let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Drops what clients may not set when they create.
pub(crate) fn clear_system(metadata: &mut Object) {
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
}

/// Takes over from the stored object what no update changes.
pub(crate) fn carry_system(live: &Object, object: &mut Object) {
    let metadata = meta_mut(object);
    metadata.remove("selfLink");
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        // One that was sent is kept, so that validation can refuse a change of it.
        if metadata.get(field).is_none_or(|v| v.is_null() || v == "") {
            keep(live, metadata, field);
        }
    }
    for field in ["creationTimestamp", "generation"] {
        keep(live, metadata, field);
    }
}

/// Makes a field what it is in the stored object.
pub(super) fn keep(live: &Object, object: &mut Object, field: &str) {
    match live.get(field) {
        // To compare is cheaper than to copy.
        value if value == object.get(field) => None,
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}
