//! One stored kind under two groups: the objects are the same, some of their fields are named anew.
//!
//! Events are the only such kind. They lie in the store as the core group's; whoever asks
//! `events.k8s.io` gets them under that group's names, and gives them so. The owners of fields keep
//! the names under which they took them, and are brought to one set of names where they are
//! compared.

use serde_json::{Map, Value};

use super::decode;
use super::facts::facts;

/// What a resource shares its objects with.
#[derive(Debug)]
pub struct Twin {
    /// The group and version of the other one, and its plural name.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// Whether objects are stored in the other one's form.
    pub(crate) stores: bool,
    /// Top-level fields: the name here, the name there.
    names: &'static [(&'static str, &'static str)],
}

type Names = &'static [(&'static str, &'static str)];

/// The names in `events.k8s.io/v1`, those in `v1`, and from there back.
const OF_NEWER: Names = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];
const OF_CORE: Names = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

static CORE: Twin = Twin { group: "", version: "v1", stores: true, names: OF_NEWER };
static NEWER: Twin = Twin { group: "events.k8s.io", version: "v1", stores: false, names: OF_CORE };

/// The twin of a built-in resource, if it has one.
pub(super) fn of(group: &str, plural: &str) -> Option<&'static Twin> {
    match (group, plural) {
        ("events.k8s.io", "events") => Some(&CORE),
        ("", "events") => Some(&NEWER),
        _ => None,
    }
}

impl Twin {
    /// The other one's `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        crate::resource::group_version(self.group, self.version)
    }

    /// What a dotted path here is there.
    pub(super) fn path_there(&self, path: &str) -> String {
        let (first, rest) = path.split_once('.').map_or((path, None), |(f, r)| (f, Some(r)));
        let first = self.there(first);
        rest.map_or_else(|| first.to_owned(), |rest| format!("{first}.{rest}"))
    }

    fn there<'a>(&self, name: &'a str) -> &'a str {
        self.names.iter().find(|(here, _)| *here == name).map_or(name, |(_, there)| there)
    }

    fn here<'a>(&self, name: &'a str) -> &'a str {
        self.names.iter().find(|(_, there)| *there == name).map_or(name, |(here, _)| here)
    }

    /// Gives an object from here the form that it has there.
    pub(crate) fn send(&self, kind: &str, object: &mut Value) {
        let api_version = self.api_version();
        convert(&api_version, kind, object, |name| self.there(name));
    }

    /// Gives an object from there the form that it has here, in this `apiVersion`.
    pub(crate) fn fetch(&self, api_version: &str, kind: &str, object: &mut Value) {
        convert(api_version, kind, object, |name| self.here(name));
    }

    /// Has those who own fields there own them by the names that they have here.
    pub(crate) fn owners_here(&self, object: &mut Value) {
        self.owners(object, |name| self.here(name));
    }

    /// Undoes [`Twin::owners_here`].
    pub(crate) fn owners_there(&self, object: &mut Value) {
        self.owners(object, |name| self.there(name));
    }

    fn owners(&self, object: &mut Value, rename: impl Fn(&str) -> &str) {
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        let api_version = self.api_version();
        for entry in entries.into_iter().flatten() {
            if entry.get("apiVersion").and_then(Value::as_str) != Some(&api_version) {
                continue;
            }
            let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") else { continue };
            let renamed = std::mem::take(fields).into_iter().map(|(key, value)| {
                let name = key.strip_prefix("f:").map(|name| format!("f:{}", rename(name)));
                (name.unwrap_or(key), value)
            });
            *fields = renamed.collect();
        }
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
            "metadata": {"name": "e", "resourceVersion": "7", "managedFields": [
                {"apiVersion": "v1", "fieldsV1": {"f:message": {}}},
                {"apiVersion": "events.k8s.io/v1", "fieldsV1": {"f:note": {}}},
            ]},
            "eventTime": "2020-01-02T03:04:05.678901Z", "note": "n", "reason": "r",
            "regarding": {"kind": "Pod"}, "reportingController": "a/b",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        });
        let mut object = newer.clone();
        CORE.send("Event", &mut object);
        assert_eq!(object["apiVersion"], "v1");
        assert_eq!(object["message"], "n");
        assert_eq!(object["reportingInstance"], "");
        assert_eq!(object["metadata"], newer["metadata"]);
        CORE.fetch("events.k8s.io/v1", "Event", &mut object);
        assert_eq!(object, newer);

        CORE.owners_here(&mut object);
        assert_eq!(object["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:note": {}}));
        CORE.owners_there(&mut object);
        assert_eq!(object, newer);
        assert_eq!(CORE.path_there("regarding.kind"), "involvedObject.kind");
    }
}
