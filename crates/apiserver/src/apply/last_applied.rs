//! The `last-applied-configuration` annotation of client-side apply.
//!
//! For the manager `kubectl` alone: fields that the annotation still describes are no conflict, so
//! that an object can move from client-side to server-side apply; and an annotation that is there
//! is kept up to date, so that it can move back.

use serde_json::{Map, Value, json};

use super::compare::{Comparison, fields_of};
use super::set::FieldSet;
use super::shape::Shape;
use super::validate::{Strictness, validate};
use super::{MAX_DEPTH, value};
use crate::schema::print;

/// The manager that the annotation concerns.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What all annotations of an object may take, keys and values together.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// The fields that client-side apply set and nobody changed since. `None` where nothing says so.
pub(super) fn fields(shape: Shape<'_>, live: &Value, api_version: &str) -> Option<FieldSet> {
    let text = get(live)?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied["apiVersion"] != api_version || applied["kind"].as_str().is_none_or(str::is_empty) {
        return None;
    }
    if value::deeper_than(&applied, MAX_DEPTH) {
        return None;
    }
    validate(shape, live, Strictness::Applied).ok()?;
    validate(shape, &applied, Strictness::Applied).ok()?;
    let changes = Comparison::of(shape, &applied, live);
    Some(
        fields_of(shape, &applied)
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

fn get(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// Writes what was applied into the annotation, if the object has one and it fits.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if get(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = annotations(&mut applied) {
        annotations.remove(ANNOTATION);
    }
    let text = print::json(&applied) + "\n";
    let Some(annotations) = annotations(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), json!(text));
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > MOST_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}
