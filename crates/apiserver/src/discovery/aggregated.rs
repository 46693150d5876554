//! Aggregated discovery: everything in two documents, which is what clients of today ask for.

use http::HeaderValue;
use serde_json::{Value, json};

use crate::resource::{Resource, Table};

/// The aggregated document, in its only version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aggregated;

/// Whether the first form in `Accept` that this server can write is the aggregated one.
pub(super) fn wanted(accept: Option<&HeaderValue>) -> Option<Aggregated> {
    let header = accept?.to_str().ok()?;
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        if !matches!(parts.next()?, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let parameters: Vec<&str> = parts.collect();
        let has = |parameter: &str| parameters.contains(&parameter);
        if !parameters.iter().any(|p| p.starts_with("as=")) {
            return None;
        }
        if has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io") && has("v=v2") {
            return Some(Aggregated);
        }
    }
    None
}

impl Aggregated {
    pub(super) fn content_type(self) -> &'static str {
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    }

    /// The document of `/api` (the core group) or of `/apis` (all others).
    pub(super) fn document(self, table: &Table, core: bool) -> Value {
        let groups = table.groups();
        let groups = groups.iter().filter(|group| group.is_empty() == core);
        let items: Vec<Value> = groups.map(|name| group(table, name)).collect();
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        })
    }
}

fn group(table: &Table, name: &str) -> Value {
    let versions: Vec<Value> = (table.versions_of(name).iter())
        .map(|version| {
            let resources: Vec<Value> = (table.iter())
                .filter(|r| r.group == name && r.version(version).is_some())
                .map(|r| resource(r, version))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = json!({});
    if !name.is_empty() {
        metadata["name"] = name.into();
    }
    json!({"metadata": metadata, "versions": versions})
}

fn resource(resource: &Resource, version: &str) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own_kind(resource, version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    for (field, names) in
        [("shortNames", &resource.short_names), ("categories", &resource.categories)]
    {
        if !names.is_empty() {
            entry[field] = names.clone().into();
        }
    }
    let subresources: Vec<Value> = (resource.subresources.iter())
        .map(|sub| {
            let kind = if sub.group == resource.group {
                own_kind(resource, version, &sub.kind)
            } else {
                json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
            };
            json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// A kind of the resource's own group and version, which built-in ones do not repeat.
fn own_kind(resource: &Resource, version: &str, kind: &str) -> Value {
    let (group, version) =
        if resource.is_custom() { (resource.group.as_str(), version) } else { ("", "") };
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_order_decides() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (header, want) in [
            (kubectl, Some(Aggregated)),
            ("application/json", None),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", None),
            (
                "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                Some(Aggregated),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
                None,
            ),
        ] {
            assert_eq!(wanted(Some(&HeaderValue::from_static(header))), want, "{header}");
        }
    }
}
