//! The built-in kinds, read from the table of facts.
//!
//! What is listed here is served; what upstream serves and we do not is left out of the table, so
//! that discovery does not promise it and a request for it is answered 404. `facts/README.md` says
//! where the facts come from.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::dotted::DottedPath;
use crate::resource::{Column, Origin, Resource, Scale, Subresource, Table, Version};
use crate::schema::jsonpath::JsonPath;

/// Resources as a kube-apiserver's discovery lists them.
const RESOURCES: &str = include_str!("../facts/resources.json");

/// Resources that upstream serves and this server does not, since nothing stands behind them yet.
const ABSENT: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    // Without effect they would be promises that nobody keeps.
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    // The same objects as the core group's, under other field names.
    ("events.k8s.io", "events"),
];

/// Versions that would need a conversion.
const ABSENT_VERSIONS: &[(&str, &str, &str)] = &[("autoscaling", "horizontalpodautoscalers", "v1")];

/// Subresources that have a handler.
const SUBRESOURCES: &[&str] = &["status", "scale", "finalize"];

/// Fields that a field selector may name, by resource; those of upstream.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "namespaces", &["status.phase"]),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("apps", "replicasets", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fact {
    group: String,
    version: String,
    resource: String,
    singular: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<SubresourceFact>,
}

#[derive(Deserialize)]
struct SubresourceFact {
    name: String,
    verbs: Vec<String>,
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
}

/// The table of built-in resources; an error names what is wrong with the facts.
pub(crate) fn table() -> Result<Table, String> {
    let facts: Vec<Fact> = serde_json::from_str(RESOURCES).map_err(|e| e.to_string())?;
    let mut table = Table::default();
    for fact in facts {
        let Fact { group, resource, version, .. } = &fact;
        let absent = ABSENT.iter().any(|(g, r)| g == group && r == resource)
            || ABSENT_VERSIONS.iter().any(|(g, r, v)| g == group && r == resource && v == version);
        if !absent {
            table.insert_built_in(resource_of(fact)?);
        }
    }
    Ok(table)
}

fn resource_of(fact: Fact) -> Result<Resource, String> {
    let wanted = SELECTABLE.iter().find(|(g, r, _)| *g == fact.group && *r == fact.resource);
    let selectable: Result<BTreeMap<String, DottedPath>, String> = wanted
        .map_or(&[][..], |(_, _, fields)| fields)
        .iter()
        .map(|field| Ok(((*field).to_owned(), path(field)?)))
        .collect();
    let subresources: Vec<Subresource> = (fact.subresources.into_iter())
        .filter(|sub| SUBRESOURCES.contains(&sub.name.as_str()))
        .map(|sub| Subresource {
            name: sub.name,
            group: sub.group.unwrap_or_else(|| fact.group.clone()),
            version: sub.version.unwrap_or_else(|| fact.version.clone()),
            kind: sub.kind.unwrap_or_else(|| fact.kind.clone()),
            verbs: sub.verbs,
        })
        .collect();
    let scale = if subresources.iter().any(|s| s.name == "scale") { Some(scale()?) } else { None };
    let version = Version {
        name: fact.version,
        served: true,
        schema: None,
        rules: None,
        columns: vec![age()?],
        selectable: selectable?,
        deprecation: None,
    };
    Ok(Resource {
        list_kind: format!("{}List", fact.kind),
        group: fact.group,
        plural: fact.resource,
        singular: fact.singular,
        kind: fact.kind,
        short_names: fact.short_names,
        categories: fact.categories,
        namespaced: fact.namespaced,
        verbs: fact.verbs,
        scale,
        subresources,
        storage: 0,
        versions: vec![version],
        origin: Origin::BuiltIn,
    })
}

fn path(text: &str) -> Result<DottedPath, String> {
    DottedPath::parse(text).ok_or_else(|| format!("{text} is no path"))
}

/// Every built-in kind that scales does so by the same fields.
fn scale() -> Result<Scale, String> {
    Ok(Scale {
        spec_replicas: path(".spec.replicas")?,
        status_replicas: path(".status.replicas")?,
        label_selector: Some(path(".spec.selector")?),
    })
}

fn age() -> Result<Column, String> {
    Ok(Column {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: "Time since the object was created.".to_owned(),
        priority: 0,
        path: JsonPath::parse(".metadata.creationTimestamp").map_err(|e| e.to_string())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_what_is_served_and_nothing_else() {
        let table = table().unwrap();
        assert!(table.get("", "pods").is_some_and(|r| r.namespaced && r.has("status")));
        assert!(table.get("apps", "deployments").is_some_and(|r| r.scale.is_some()));
        assert!(table.get("authorization.k8s.io", "subjectaccessreviews").is_none());
        assert!(!table.get("", "pods").unwrap().has("exec"));
        assert_eq!(table.groups()[..3], ["", "apps", "autoscaling"]);
    }
}
