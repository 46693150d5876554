//! A status that takes the place of the one that was looked at, as the patch that does it.
//!
//! A JSON patch (RFC 6902) of the parts that differ, and of no others: half the work of a server-side
//! apply of the whole for the API, and what somebody else once wrote into a part of ours goes with it,
//! where an apply would leave it standing because another owns it too. It insists on the revision that
//! was looked at, so no later one is overwritten. Inside a part nothing is merged.

use serde_json::{Map, Value, json};

/// Which parts of a status, its fields of the first level, somebody writes.
#[derive(Clone, Copy, Debug)]
pub enum Parts<'a> {
    /// All of them.
    All,
    /// These.
    Only(&'a [&'a str]),
    /// All but these, which others write.
    Except(&'a [&'a str]),
}

impl Parts<'_> {
    fn hold(self, part: &str) -> bool {
        match self {
            Parts::All => true,
            Parts::Only(parts) => parts.contains(&part),
            Parts::Except(parts) => !parts.contains(&part),
        }
    }
}

/// What makes the wanted parts of the status stand in an object that was seen as JSON; none if they do.
pub(super) fn patch(seen: &Value, wanted: Map<String, Value>, parts: Parts<'_>) -> Option<Value> {
    let status = seen.get("status").and_then(Value::as_object);
    let ours = |(part, _): &(&String, &Value)| parts.hold(part);
    let gone =
        status.into_iter().flatten().filter(ours).filter(|(part, _)| !wanted.contains_key(*part));
    let mut steps: Vec<Value> =
        gone.map(|(part, _)| json!({"op": "remove", "path": path(part)})).collect();
    let mut wanted = wanted;
    wanted.retain(|part, value| {
        parts.hold(part) && status.and_then(|status| status.get(part)) != Some(value)
    });
    match status {
        None => steps.push(json!({"op": "add", "path": "/status", "value": wanted})),
        Some(_) => steps.extend(
            wanted
                .into_iter()
                .map(|(part, value)| json!({"op": "add", "path": path(&part), "value": value})),
        ),
    }
    if steps.is_empty() {
        return None;
    }
    let revision = seen.pointer("/metadata/resourceVersion");
    steps.insert(0, json!({"op": "add", "path": "/metadata/resourceVersion", "value": revision}));
    Some(Value::Array(steps))
}

/// Where a part is (RFC 6901).
fn path(part: &str) -> String {
    format!("/status/{}", part.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn seen() -> Value {
        json!({
            "metadata": {"name": "m", "resourceVersion": "7"},
            "status": {"state": "Test", "pool": "a", "tests": [1], "agent": {"boot": "b"}},
        })
    }

    #[test]
    fn a_part_that_is_gone_is_taken_out_and_one_of_others_is_let_be() {
        let wanted = map(json!({"state": "Zap", "tests": [1], "role": "Spare", "agent": "mine"}));
        let patch = patch(&seen(), wanted, Parts::Except(&["agent"])).unwrap();
        let expected = json!([
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/status/pool"},
            {"op": "add", "path": "/status/role", "value": "Spare"},
            {"op": "add", "path": "/status/state", "value": "Zap"},
        ]);
        assert_eq!(patch, expected);
    }

    #[test]
    fn only_the_named_parts_are_written() {
        let patch = patch(&seen(), map(json!({"agent": {"a/b~": 1}})), Parts::Only(&["agent"]));
        let expected = json!([
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/status/agent", "value": {"a/b~": 1}},
        ]);
        assert_eq!(patch, Some(expected));
        assert_eq!(path("a/b~"), "/status/a~1b~0");
    }

    #[test]
    fn the_first_status_is_written_as_a_whole() {
        let fresh = json!({"metadata": {"resourceVersion": "3"}});
        let patch =
            patch(&fresh, map(json!({"state": "Test", "agent": 1})), Parts::Except(&["agent"]));
        let expected = json!([
            {"op": "add", "path": "/metadata/resourceVersion", "value": "3"},
            {"op": "add", "path": "/status", "value": {"state": "Test"}},
        ]);
        assert_eq!(patch, Some(expected));
    }

    #[test]
    fn what_stands_is_not_written() {
        let Value::Object(status) = seen()["status"].clone() else { panic!() };
        assert_eq!(patch(&seen(), status, Parts::All), None);
    }
}
