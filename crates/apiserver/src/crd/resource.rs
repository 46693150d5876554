//! A CRD as an entry of the resource table.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::names::is_established;
use crate::cel::Rules;
use crate::dotted::DottedPath;
use crate::registry::{Object, is_deleting, meta, strings, text};
use crate::resource::{
    Cell, Column, LazySchema, Origin, Resource, Scale, Selectable, Subresource, Version,
    compare_versions,
};
use crate::schema::Schema;
use crate::schema::field::FieldPath;
use crate::schema::jsonpath::JsonPath;

const VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resource that an established CRD brings; `None` before that, or if it cannot be served.
pub(crate) fn resource(object: &Object) -> Option<Resource> {
    if !is_established(object) {
        return None;
    }
    let spec = object.get("spec")?.as_object()?;
    let names = object.get("status")?.get("acceptedNames")?.as_object()?;
    let mut sent: Vec<&Object> =
        spec.get("versions")?.as_array()?.iter().filter_map(Value::as_object).collect();
    sent.sort_by(|a, b| compare_versions(text(b, "name"), text(a, "name")));
    let storage = sent.iter().position(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    let versions: Vec<Version> = sent.iter().map(|v| version(v, spec)).collect();
    let subresources = sent[storage].get("subresources").and_then(Value::as_object);
    Some(Resource {
        group: text(spec, "group").to_owned(),
        plural: text(names, "plural").to_owned(),
        singular: text(names, "singular").to_owned(),
        kind: text(names, "kind").to_owned(),
        list_kind: text(names, "listKind").to_owned(),
        short_names: strings(names, "shortNames").into_iter().map(str::to_owned).collect(),
        categories: strings(names, "categories").into_iter().map(str::to_owned).collect(),
        namespaced: text(spec, "scope") == "Namespaced",
        verbs: VERBS.map(str::to_owned).into(),
        scale: subresources.and_then(|s| s.get("scale")).and_then(Value::as_object).and_then(scale),
        subresources: served_subresources(spec, names, subresources),
        storage,
        versions,
        alias: None,
        origin: Origin::Custom {
            definition: text(meta(object), "name").to_owned(),
            revised: meta(object).get("generation").and_then(Value::as_i64) != Some(1),
            terminating: is_deleting(object),
        },
    })
}

fn served_subresources(spec: &Object, names: &Object, asked: Option<&Object>) -> Vec<Subresource> {
    let has = |name: &str| asked.is_some_and(|s| s.get(name).is_some_and(|v| !v.is_null()));
    let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    let one = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: verbs(),
    };
    let mut served = Vec::new();
    if has("status") {
        served.push(one("status", text(spec, "group"), "", text(names, "kind")));
    }
    if has("scale") {
        served.push(one("scale", "autoscaling", "v1", "Scale"));
    }
    served
}

fn version(sent: &Object, spec: &Object) -> Version {
    let name = text(sent, "name").to_owned();
    let schema = schema(sent).map(Arc::new);
    let rules = schema
        .as_deref()
        .and_then(|s| Rules::compile(s, &FieldPath::root(), &[]).ok())
        .filter(|r| !r.is_empty());
    let list = |field: &str| -> Vec<&Object> {
        let items = sent.get(field).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_object).collect()
    };
    let columns = list("additionalPrinterColumns");
    let columns = if columns.is_empty() {
        age_column().into_iter().collect()
    } else {
        columns.into_iter().filter_map(column).collect::<Vec<_>>()
    };
    let columns = name_column().into_iter().chain(columns).collect();
    let selectable: BTreeMap<String, Selectable> = (list("selectableFields").into_iter())
        .map(|field| text(field, "jsonPath"))
        .filter_map(|text| {
            let path = DottedPath::parse(text)?;
            Some((
                text.trim_start_matches('.').to_owned(),
                Selectable { path, other: None, absent: None },
            ))
        })
        .collect();
    let deprecated = sent.get("deprecated") == Some(&Value::Bool(true));
    let warning = text(sent, "deprecationWarning");
    let deprecation = deprecated.then(|| match warning {
        "" => format!(
            "{}/{name} {} is deprecated",
            text(spec, "group"),
            spec.get("names")
                .and_then(|n| n.get("kind"))
                .and_then(Value::as_str)
                .unwrap_or_default()
        ),
        warning => warning.to_owned(),
    });
    let served = sent.get("served") == Some(&Value::Bool(true));
    let schema = LazySchema::new(Box::new(move || schema));
    let rules = rules.map(Arc::new);
    Version { name, served, schema, rules, columns, finished: None, selectable, deprecation }
}

fn schema(version: &Object) -> Option<Schema> {
    let schema = version.get("schema")?.get("openAPIV3Schema")?;
    serde_json::from_value(schema.clone()).ok()
}

fn column(sent: &Object) -> Option<Column> {
    Some(Column {
        name: text(sent, "name").to_owned(),
        type_: text(sent, "type").to_owned(),
        format: text(sent, "format").to_owned(),
        description: match text(sent, "description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text(sent, "jsonPath")
            ),
            description => description.to_owned(),
        },
        priority: sent.get("priority").and_then(Value::as_i64).unwrap_or(0),
        cell: Cell::Path(JsonPath::parse(text(sent, "jsonPath")).ok()?),
    })
}

fn name_column() -> Option<Column> {
    Some(Column {
        name: "Name".to_owned(),
        type_: "string".to_owned(),
        format: "name".to_owned(),
        description: "The object's name, its own within namespace and kind.".to_owned(),
        priority: 0,
        cell: Cell::Path(JsonPath::parse(".metadata.name").ok()?),
    })
}

fn age_column() -> Option<Column> {
    Some(Column {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: "Time since the object was created.".to_owned(),
        priority: 0,
        cell: Cell::Path(JsonPath::parse(".metadata.creationTimestamp").ok()?),
    })
}

fn scale(sent: &Object) -> Option<Scale> {
    let path = |field: &str| DottedPath::parse(text(sent, field));
    Some(Scale {
        spec_replicas: path("specReplicasPath")?,
        status_replicas: path("statusReplicasPath")?,
        label_selector: match text(sent, "labelSelectorPath") {
            "" => None,
            text => DottedPath::parse(text),
        },
    })
}
