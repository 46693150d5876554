//! Aggregated discovery: everything in two documents, which is what clients of today ask for.

use http::HeaderValue;
use serde_json::{Value, json};

use crate::resource::{Resource, Table};

/// A version of the aggregated document that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregated {
    V2,
    V2Beta1,
}

/// The first aggregated form in `Accept`, if it comes before the plain one.
pub(super) fn wanted(accept: Option<&HeaderValue>) -> Option<Aggregated> {
    let header = accept?.to_str().ok()?;
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        if !matches!(parts.next()?, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let parameters: Vec<&str> = parts.collect();
        let has = |parameter: &str| parameters.contains(&parameter);
        if !has("as=APIGroupDiscoveryList") || !has("g=apidiscovery.k8s.io") {
            return None;
        }
        if has("v=v2") {
            return Some(Aggregated::V2);
        }
        if has("v=v2beta1") {
            return Some(Aggregated::V2Beta1);
        }
    }
    None
}

impl Aggregated {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }

    /// The document of `/api` (the core group) or of `/apis` (all others).
    pub(super) fn document(self, table: &Table, core: bool) -> Value {
        let groups = table.groups();
        let groups = groups.iter().filter(|group| group.is_empty() == core);
        let items: Vec<Value> = groups.map(|name| group(table, name)).collect();
        let version = match self {
            Self::V2 => "apidiscovery.k8s.io/v2",
            Self::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        };
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": version,
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
    let mut metadata = json!({"creationTimestamp": null});
    if !name.is_empty() {
        metadata["name"] = name.into();
    }
    json!({"metadata": metadata, "versions": versions})
}

fn resource(resource: &Resource, version: &str) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": version, "kind": resource.kind},
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
            let of_own = sub.group == resource.group;
            let version = if of_own { version } else { &sub.version };
            json!({
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": version, "kind": sub.kind},
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_order_decides() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (header, want) in [
            (kubectl, Some(Aggregated::V2)),
            ("application/json", None),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", Some(Aggregated::V2Beta1)),
            ("application/vnd.kubernetes.protobuf;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json", None),
        ] {
            assert_eq!(wanted(Some(&HeaderValue::from_static(header))), want, "{header}");
        }
    }
}
