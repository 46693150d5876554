//! Rules of events, which two groups share: the older one is lenient, for the sake of old clients.
//!
//! They are held against the form in which events are stored, whichever group was asked; so do
//! upstream's, and the paths in refusals are of that form.

use serde_json::{Value, json};

use super::place::{At, Errors};
use crate::builtin::alias;
use crate::schema::field::{FieldError, FieldPath};
use crate::schema::names;

/// The most that a reason, an action and the name of a reporting instance may hold, in bytes.
const WORD: usize = 128;
/// The most that a message may hold, in bytes.
const MESSAGE: usize = 1024;

/// What does not change once it is written, for clients of the newer group.
const IMMUTABLE: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// An event of the older group.
pub(super) fn lenient(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    errors.extend(always(at.value, false));
}

/// An event of the newer group.
pub(super) fn strict(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let stored = |event: &Value| {
        let mut event = event.clone();
        alias::EVENTS.store("Event", &mut event);
        event
    };
    let new = stored(at.value);
    errors.extend(always(&new, true));
    match old.map(stored) {
        None => errors.extend(new_event(&new)),
        Some(old) => errors.extend(changed(&old, &new)),
    }
}

fn at(name: &str) -> FieldPath {
    name.split('.').fold(FieldPath::root(), |path, name| path.child(name))
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An event lies in the namespace of what it is about; of what has none, in `default`. One that has
/// a time is of the newer kind, and says who reports what.
fn always(event: &Value, strict: bool) -> Vec<FieldError> {
    let (own, about) =
        (text(event, "/metadata/namespace"), text(event, "/involvedObject/namespace"));
    let elsewhere = || {
        FieldError::invalid(at("involvedObject.namespace"), about, "does not match event.namespace")
    };
    let mut errors = Vec::new();
    if text(event, "/eventTime").is_empty() {
        if own != about && !(about.is_empty() && own == "default") {
            errors.push(elsewhere());
        }
        return errors;
    }
    if about.is_empty() && own != "default" && own != "kube-system" {
        errors.push(elsewhere());
    }
    let controller = text(event, "/reportingComponent");
    let name = at(if strict { "reportingController" } else { "reportingComponent" });
    if controller.is_empty() {
        errors.push(FieldError::required(name.clone(), ""));
    }
    let wrong = names::qualified(controller).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(name.clone(), controller, why)));
    for (name, needed, most) in [
        ("reportingInstance", true, WORD),
        ("action", true, WORD),
        ("reason", true, WORD),
        ("message", false, MESSAGE),
    ] {
        let value = text(event, &format!("/{name}"));
        if needed && value.is_empty() {
            errors.push(FieldError::required(at(name), ""));
        }
        if value.len() > most {
            let why = format!("can have at most {most} characters");
            errors.push(FieldError::invalid(at(name), "", why));
        }
    }
    errors
}

/// What the newer group asks of a new event besides.
fn new_event(event: &Value) -> Vec<FieldError> {
    let mut errors = series(event);
    if text(event, "/eventTime").is_empty() {
        errors.push(FieldError::required(at("eventTime"), ""));
    }
    let kind = text(event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(at("type"), "", format!("has invalid value: {kind}")));
    }
    for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let unset = match event.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::Object(source)) => source.is_empty(),
            Some(_) => false,
        };
        if !unset {
            errors.push(FieldError::invalid(at(name), "", "needs to be unset"));
        }
    }
    errors
}

/// All that changes in an event is its series.
fn changed(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.get("series") != new.get("series") {
        errors.extend(series(new));
    }
    for name in IMMUTABLE {
        if old.get(name) != new.get(name) {
            let shown = if name == "reportingComponent" { "reportingController" } else { name };
            let value = new.get(name).cloned().unwrap_or_else(|| json!(""));
            errors.push(FieldError::invalid(at(shown), value, "field is immutable"));
        }
    }
    errors
}

fn series(event: &Value) -> Vec<FieldError> {
    let Some(series) = event.get("series").filter(|series| series.is_object()) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    // Upstream's path has a dot in a name, which is printed alike.
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(at("series.count"), "", "should be at least 2"));
    }
    if text(series, "/lastObservedTime").is_empty() {
        errors.push(FieldError::required(at("series.lastObservedTime"), ""));
    }
    errors
}
