//! One kubeconfig taken into another, without harm to what was there.
//!
//! Entries are matched by name. One that is ours already is renewed; one of somebody else's under
//! our name is never touched.

use serde_json::{Map, Value, json};

/// Why a kubeconfig was not taken in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MergeError {
    /// Another cluster, user or context has the name.
    #[error("it has another {what} {name:?} already; give this one another name with --name")]
    Taken { what: &'static str, name: String },
    /// The file is no kubeconfig.
    #[error("{field} is not {expected}; mend or move the file")]
    Shape { field: &'static str, expected: &'static str },
}

/// The lists of a kubeconfig, and the key of each entry's content.
const LISTS: [(&str, &str); 3] =
    [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

/// Gives the one cluster, user and context of a document of ours another name.
pub(crate) fn rename(document: &mut Value, name: &str) {
    let user = format!("{name}-admin");
    for (list, content) in LISTS {
        let entry = &mut document[list][0];
        entry["name"] = if content == "user" { user.as_str() } else { name }.into();
    }
    document["contexts"][0]["context"] = json!({"cluster": name, "user": user});
    document["current-context"] = name.into();
}

/// Takes `ours` into `theirs`. The current context stays theirs if they have one, unless `switch`.
pub(crate) fn merge(theirs: Value, ours: &Value, switch: bool) -> Result<Value, MergeError> {
    let Value::Object(mut merged) = (match theirs {
        Value::Null => json!({"apiVersion": "v1", "kind": "Config"}),
        other => other,
    }) else {
        return Err(MergeError::Shape { field: "the file", expected: "a map" });
    };
    if merged.get("kind").is_some_and(|kind| kind != "Config") {
        return Err(MergeError::Shape { field: "kind", expected: "Config" });
    }
    let known = entry(&merged, "clusters", ours).is_some_and(|there| {
        there["cluster"]["server"] == ours["clusters"][0]["cluster"]["server"]
    });
    for (list, content) in LISTS {
        if !known && entry(&merged, list, ours).is_some() {
            let name = ours[list][0]["name"].as_str().unwrap_or_default().to_owned();
            return Err(MergeError::Taken { what: content, name });
        }
        take_entry(&mut merged, ours, list, content)?;
    }
    let current = merged.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if switch || current.is_empty() {
        merged.insert("current-context".to_owned(), ours["current-context"].clone());
    }
    Ok(Value::Object(merged))
}

/// Their entry of the name that ours has.
fn entry<'a>(theirs: &'a Map<String, Value>, list: &str, ours: &Value) -> Option<&'a Value> {
    theirs.get(list)?.as_array()?.iter().find(|there| there["name"] == ours[list][0]["name"])
}

fn take_entry(
    merged: &mut Map<String, Value>,
    ours: &Value,
    list: &'static str,
    content: &str,
) -> Result<(), MergeError> {
    let entry = &ours[list][0];
    let entries = merged.entry(list).or_insert_with(|| json!([]));
    if entries.is_null() {
        *entries = json!([]);
    }
    let Value::Array(entries) = entries else {
        return Err(MergeError::Shape { field: list, expected: "a list" });
    };
    let Some(there) = entries.iter_mut().find(|there| there["name"] == entry["name"]) else {
        entries.push(entry.clone());
        return Ok(());
    };
    // A namespace, say, that its owner chose for the context stays.
    match (&mut there[content], &entry[content]) {
        (Value::Object(there), Value::Object(entry)) if content == "context" => {
            there.extend(entry.clone());
        }
        (there, entry) => *there = entry.clone(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(name: &str, server: &str) -> Value {
        let mut document = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": "x", "cluster": {"server": server}}],
            "users": [{"name": "x", "user": {"client-key-data": "new"}}],
            "contexts": [{"name": "x", "context": {}}],
            "current-context": "x",
        });
        rename(&mut document, name);
        document
    }

    fn theirs() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {"colors": true},
            "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}}],
            "users": [{"name": "me", "user": {"exec": {"command": "login"}}}],
            "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
            "current-context": "prod",
        })
    }

    #[test]
    fn into_nothing_it_is_all_there_is() {
        let document = ours("demo", "https://a");
        for nothing in [Value::Null, json!({}), json!({"clusters": null})] {
            let merged = merge(nothing, &document, false).unwrap();
            for field in ["clusters", "users", "contexts", "current-context"] {
                assert_eq!(merged[field], document[field]);
            }
        }
    }

    #[test]
    fn what_was_there_stays() {
        let merged = merge(theirs(), &ours("demo", "https://a"), false).unwrap();
        assert_eq!(merged["current-context"], "prod");
        assert_eq!(merged["preferences"], json!({"colors": true}));
        for (list, names) in [
            ("clusters", ["prod", "demo"]),
            ("users", ["me", "demo-admin"]),
            ("contexts", ["prod", "demo"]),
        ] {
            assert_eq!(merged[list][0], theirs()[list][0]);
            let found: Vec<_> =
                merged[list].as_array().unwrap().iter().map(|e| &e["name"]).collect();
            assert_eq!(found, names);
        }
        let switched = merge(merged, &ours("demo", "https://a"), true).unwrap();
        assert_eq!(switched["current-context"], "demo");
    }

    #[test]
    fn ours_is_renewed_and_its_namespace_kept() {
        let mut old = merge(theirs(), &ours("demo", "https://a"), false).unwrap();
        old["users"][1]["user"] = json!({"client-key-data": "old"});
        old["contexts"][1]["context"]["namespace"] = "team".into();
        let merged = merge(old, &ours("demo", "https://a"), false).unwrap();
        assert_eq!(merged["users"][1]["user"], json!({"client-key-data": "new"}));
        assert_eq!(merged["contexts"][1]["context"]["namespace"], "team");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn anothers_name_is_not_taken() {
        let taken = merge(theirs(), &ours("prod", "https://a"), false).unwrap_err();
        assert_eq!(taken, MergeError::Taken { what: "cluster", name: "prod".into() });
        let mut user = theirs();
        user["users"][0]["name"] = "demo-admin".into();
        let taken = merge(user, &ours("demo", "https://a"), false).unwrap_err();
        assert_eq!(taken, MergeError::Taken { what: "user", name: "demo-admin".into() });
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_refused() {
        for (text, field) in [
            (json!([]), "the file"),
            (json!({"kind": "Pod"}), "kind"),
            (json!({"users": {}}), "users"),
        ] {
            let refused = merge(text, &ours("demo", "https://a"), false).unwrap_err();
            assert!(refused.to_string().starts_with(field), "{refused}");
        }
    }
}
