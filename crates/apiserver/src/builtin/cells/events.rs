//! Events, which have two API groups that name the same fields differently.

use jiff::Timestamp;
use serde_json::Value;

use super::recipe::{Recipe, age_or, has, number, or, text};
use super::{Column, Kind, UNKNOWN};

use Recipe::{Code, Text, Timed};

const TIMES: &[&str] = &[
    "eventTime",
    "series",
    "firstTimestamp",
    "lastTimestamp",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
];
const COUNTS: &[&str] = &["series", "count", "deprecatedCount"];
const SOURCES: &[&str] = &[
    "source",
    "deprecatedSource",
    "reportingController",
    "reportingComponent",
    "reportingInstance",
];

const LAST_SEEN: Column = ("Last Seen", Timed(last_seen, TIMES), "Time since it last happened.");
const FIRST_SEEN: Column =
    ("First Seen", Timed(first_seen, TIMES), "Time since it first happened.");
const TYPE: Column = ("Type", Text("type"), "Whether it is normal or a warning.");
const REASON: Column = ("Reason", Text("reason"), "What happened, in a word.");
const SOURCE: Column = ("Source", Code(source, SOURCES), "Who saw it, and where.");
const COUNT: Column = ("Count", Code(count, COUNTS), "How often it happened.");
const OBJECT: &str = "What it happened to.";
const SUBOBJECT: &str = "The part that it happened to.";
const MESSAGE: &str = "What happened, in full.";

pub(super) const KINDS: &[Kind] = &[
    (
        "v1 Event",
        &[
            LAST_SEEN,
            TYPE,
            REASON,
            ("Object", Code(object, &["involvedObject.kind", "involvedObject.name"]), OBJECT),
            ("Subobject", Text("involvedObject.fieldPath"), SUBOBJECT),
            SOURCE,
            ("Message", Code(message, &["message"]), MESSAGE),
            FIRST_SEEN,
            COUNT,
        ],
    ),
    (
        "events.k8s.io/v1 Event",
        &[
            LAST_SEEN,
            TYPE,
            REASON,
            ("Object", Code(object, &["regarding.kind", "regarding.name"]), OBJECT),
            ("Subobject", Text("regarding.fieldPath"), SUBOBJECT),
            SOURCE,
            ("Message", Code(message, &["note"]), MESSAGE),
            FIRST_SEEN,
            COUNT,
        ],
    ),
];

/// The text under the core group's name or under the other group's.
fn either<'a>(event: &'a Value, core: &str, other: &str) -> &'a str {
    or(text(event, core), text(event, other))
}

fn first_seen(event: &Value, now: Timestamp) -> Value {
    let first = either(event, "firstTimestamp", "deprecatedFirstTimestamp");
    age_or(or(first, text(event, "eventTime")), UNKNOWN, now).into()
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    if has(event, "series") {
        return age_or(text(event, "series.lastObservedTime"), UNKNOWN, now).into();
    }
    match either(event, "lastTimestamp", "deprecatedLastTimestamp") {
        "" => first_seen(event, now),
        last => age_or(last, UNKNOWN, now).into(),
    }
}

fn count(event: &Value) -> Value {
    if has(event, "series") {
        return number(event, "series.count").into();
    }
    // One that happened once does not count.
    let counts = [number(event, "count"), number(event, "deprecatedCount"), 1];
    counts.into_iter().find(|count| *count != 0).into()
}

fn object(event: &Value) -> Value {
    let kind = either(event, "involvedObject.kind", "regarding.kind").to_lowercase();
    match either(event, "involvedObject.name", "regarding.name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value) -> Value {
    let reporter = either(event, "reportingComponent", "reportingController");
    let component = or(either(event, "source.component", "deprecatedSource.component"), reporter);
    let host = either(event, "source.host", "deprecatedSource.host");
    match or(host, text(event, "reportingInstance")) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}

fn message(event: &Value) -> Value {
    either(event, "message", "note").trim().into()
}
