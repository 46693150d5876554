//! A resource that shows another's objects, with some of their fields under other names.
//!
//! Events are the only such kind. They lie in the store as the core group's; whoever asks
//! `events.k8s.io` gets them under that group's names, and gives them so. Owners of fields who came
//! through the other group are forgotten at the next write, as upstream does.

use serde_json::{Map, Value};

use super::decode;
use super::facts::facts;
use crate::resource::group_version;

/// Whose objects a resource shows.
#[derive(Debug)]
pub struct Alias {
    /// The group and version in whose form the objects are stored.
    pub(crate) group: &'static str,
    version: &'static str,
    /// Top-level fields: the name here, the name in the store.
    names: &'static [(&'static str, &'static str)],
}

/// Events of the newer group.
pub(super) static EVENTS: Alias = Alias {
    group: "",
    version: "v1",
    names: &[
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ],
};

/// Whose objects a built-in resource shows, if not its own.
pub(super) fn of(group: &str, plural: &str) -> Option<&'static Alias> {
    (group == "events.k8s.io" && plural == "events").then_some(&EVENTS)
}

impl Alias {
    /// `apiVersion` in the store.
    pub(crate) fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// What a dotted path here is in the store.
    pub(super) fn stored_path(&self, path: &str) -> String {
        match path.split_once('.') {
            Some((first, rest)) => format!("{}.{rest}", self.stored_name(first)),
            None => self.stored_name(path).to_owned(),
        }
    }

    fn stored_name<'a>(&self, name: &'a str) -> &'a str {
        self.names.iter().find(|(here, _)| *here == name).map_or(name, |(_, stored)| stored)
    }

    fn name_here<'a>(&self, name: &'a str) -> &'a str {
        self.names.iter().find(|(_, stored)| *stored == name).map_or(name, |(here, _)| here)
    }

    /// Gives an object the form that it has in the store.
    pub(crate) fn store(&self, kind: &str, object: &mut Value) {
        convert(&self.api_version(), kind, object, |name| self.stored_name(name));
    }

    /// Gives a stored object the form that it has here, in this `apiVersion`.
    pub(crate) fn show(&self, api_version: &str, kind: &str, object: &mut Value) {
        convert(api_version, kind, object, |name| self.name_here(name));
    }
}

fn convert(api_version: &str, kind: &str, object: &mut Value, rename: impl Fn(&str) -> &str) {
    let Value::Object(fields) = object else { return };
    let renamed: Map<String, Value> = std::mem::take(fields)
        .into_iter()
        .map(|(name, value)| (rename(&name).to_owned(), value))
        .collect();
    // The other form leaves other empty fields out. What is stored has its types.
    let typed = facts().ok().and_then(|facts| {
        let type_ = facts.kind(api_version, kind)?;
        decode::typed(facts, type_, renamed.clone()).ok()
    });
    *fields = typed.map_or(renamed, |typed| typed.object);
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_come_back_as_they_were() {
        let newer = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "e", "resourceVersion": "7"},
            "eventTime": "2020-01-02T03:04:05.678901Z", "note": "n", "reason": "r",
            "regarding": {"kind": "Pod"}, "reportingController": "a/b",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        });
        let mut object = newer.clone();
        EVENTS.store("Event", &mut object);
        assert_eq!(object["apiVersion"], "v1");
        assert_eq!(object["message"], "n");
        assert_eq!(object["reportingInstance"], "");
        assert_eq!(object["metadata"], newer["metadata"]);
        EVENTS.show("events.k8s.io/v1", "Event", &mut object);
        assert_eq!(object, newer);
        assert_eq!(EVENTS.stored_path("regarding.kind"), "involvedObject.kind");
    }
}
