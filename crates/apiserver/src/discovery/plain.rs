//! Discovery as it was before aggregation: one document per group and version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::resource::{Resource, Table, group_version};
use crate::sabotage::Sabotage;

/// `/api`.
pub(super) fn versions(host: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

/// `/apis`.
pub(super) fn groups(table: &Table) -> Value {
    let groups: Vec<Value> = (table.groups().iter())
        .filter(|group| !group.is_empty())
        .filter_map(|group| entry(table, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(super) fn group(table: &Table, group: &str) -> Option<Value> {
    let mut entry = entry(table, group)?;
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn entry(table: &Table, group: &str) -> Option<Value> {
    let versions = table.versions_of(group);
    let one = |v: &String| json!({"groupVersion": group_version(group, v), "version": v});
    let preferred = one(versions.first()?);
    Some(json!({
        "name": group,
        "versions": versions.iter().map(one).collect::<Vec<_>>(),
        "preferredVersion": preferred,
    }))
}

/// `/api/VERSION` and `/apis/GROUP/VERSION`.
pub(super) fn resources(table: &Table, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> =
        table.iter().filter(|r| r.group == group && r.version(version).is_some()).collect();
    if served.is_empty() {
        return None;
    }
    let resources: Vec<Value> = served.into_iter().flat_map(|r| resource(r)).collect();
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": resources,
    });
    // The core group's list is from a time when lists did not say what they were.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn resource(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    for (field, names) in
        [("shortNames", &resource.short_names), ("categories", &resource.categories)]
    {
        if !names.is_empty() {
            main[field] = names.clone().into();
        }
    }
    // What is only ever created is not stored.
    if resource.verbs.iter().any(|verb| verb == "get") {
        main["storageVersionHash"] = storage_version_hash(resource).into();
    }
    let mut all = vec![main];
    let told = resource.subresources.iter().filter(|_| !Sabotage::NoSubresources.is_planted());
    all.extend(told.map(|sub| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": sub.verbs,
        });
        // A subresource of another group says which; most share their resource's.
        if sub.group != resource.group {
            entry["group"] = sub.group.clone().into();
            entry["version"] = sub.version.clone().into();
        }
        entry
    }));
    all
}

/// Tells clients whether the version that objects are stored in has changed.
fn storage_version_hash(resource: &Resource) -> String {
    let Resource { group, kind, .. } = resource;
    let version = &resource.storage_version().name;
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}
