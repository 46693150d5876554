//! The built-in resources that are served: discovery's facts, less what nothing stands behind.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::alias::{self, Alias};
use super::facts::{Facts, Form, ResourceFact, SubresourceFact};
use super::{cells, shape};
use crate::dotted::DottedPath;
use crate::resource::{
    Cell, Column, Origin, Resource, Scale, Selectable, Subresource, Table, Version, group_version,
};

/// Resources that upstream serves and this server does not, since nothing stands behind them yet.
const ABSENT: &[(&str, &str)] = &[
    ("", "componentstatuses"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
];

/// Versions that would need a conversion.
const ABSENT_VERSIONS: &[(&str, &str, &str)] = &[("autoscaling", "horizontalpodautoscalers", "v1")];

/// What every answer about a kind warns of.
const DEPRECATED: &[(&str, &str)] = &[(
    "v1 Endpoints",
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)];

/// Subresources that have a handler.
const SUBRESOURCES: &[&str] = &[
    "status",
    "scale",
    "finalize",
    "token",
    "binding",
    "eviction",
    "ephemeralcontainers",
    "resize",
    "log",
    "exec",
    "attach",
    "portforward",
    "proxy",
    "approval",
];

/// Selectors that are named otherwise than the field that they look at.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("v1 Event", "source", "source.component"),
    ("batch/v1 Job", "status.successful", "status.succeeded"),
];

/// Selectors that look at another field where theirs is empty.
const ELSE: &[(&str, &str, &str)] = &[("v1 Event", "source", "reportingComponent")];

/// The table of built-in resources.
pub(super) fn table(facts: &'static Facts) -> Result<Table, String> {
    let mut table = Table::default();
    for group in &facts.groups {
        for version in &group.versions {
            let resources = facts.resources.get(&group_version(&group.name, version));
            for (plural, fact) in resources.into_iter().flatten() {
                let name = (group.name.as_str(), plural.as_str());
                let absent =
                    ABSENT.contains(&name) || ABSENT_VERSIONS.contains(&(name.0, name.1, version));
                if !absent {
                    table.insert_built_in(resource(facts, &group.name, version, plural, fact)?);
                }
            }
        }
    }
    Ok(table)
}

fn resource(
    facts: &'static Facts,
    group: &str,
    version: &str,
    plural: &str,
    fact: &'static ResourceFact,
) -> Result<Resource, String> {
    let api_version = group_version(group, version);
    let type_ = facts
        .kind(&api_version, &fact.kind)
        .ok_or_else(|| format!("{api_version} {} has no type", fact.kind))?;
    let kind = format!("{api_version} {}", fact.kind);
    let alias = alias::of(group, plural);
    let subresources: Vec<Subresource> = fact
        .subresources
        .iter()
        .filter(|(name, _)| SUBRESOURCES.contains(&name.as_str()))
        .map(|(name, sub)| subresource(group, version, name, fact, sub))
        .collect();
    let scale = if subresources.iter().any(|s| s.name == "scale") { Some(scale()?) } else { None };
    let columns = fact.columns.iter().map(|column| {
        let (recipe, words) = cells::column(&kind, &column.name)
            .ok_or_else(|| format!("{kind}: nothing says how {} is printed", column.name))?;
        Ok(Column {
            name: column.name.clone(),
            type_: column.type_.clone(),
            format: column.format.clone(),
            description: words.to_owned(),
            priority: column.priority,
            cell: Cell::BuiltIn(recipe),
        })
    });
    let version = Version {
        name: version.to_owned(),
        served: true,
        schema: LazyLock::new(Box::new(move || Some(Arc::new(shape::schema(facts, type_))))),
        rules: None,
        columns: columns.collect::<Result<_, String>>()?,
        finished: (kind == "v1 Pod").then_some(cells::finished as _),
        selectable: selectable(facts, type_, &kind, &fact.selectors, alias)?,
        deprecation: DEPRECATED
            .iter()
            .find(|(k, _)| *k == kind)
            .map(|(_, said)| (*said).to_owned()),
    };
    Ok(Resource {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: fact.singular.clone(),
        kind: fact.kind.clone(),
        list_kind: format!("{}List", fact.kind),
        short_names: fact.short_names.clone(),
        categories: fact.categories.clone(),
        namespaced: fact.namespaced,
        verbs: fact.verbs.clone(),
        scale,
        subresources,
        storage: 0,
        versions: vec![version],
        origin: Origin::BuiltIn,
        alias,
    })
}

fn subresource(
    group: &str,
    version: &str,
    name: &str,
    fact: &ResourceFact,
    sub: &SubresourceFact,
) -> Subresource {
    let own = format!("{} {}", group_version(group, version), fact.kind);
    let (api_version, kind) =
        sub.kind.as_deref().unwrap_or(&own).rsplit_once(' ').unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: sub.verbs.clone(),
    }
}

fn selectable(
    facts: &Facts,
    type_: &str,
    kind: &str,
    selectors: &[String],
    alias: Option<&Alias>,
) -> Result<BTreeMap<String, Selectable>, String> {
    let mut out = BTreeMap::new();
    for name in selectors {
        let otherwise = OTHERWISE.iter().find(|(k, n, _)| *k == kind && n == name);
        let field = otherwise.map_or(name.as_str(), |(_, _, field)| field);
        let form = facts.at(type_, field).map(|field| &field.form);
        let absent = match form {
            Some(Form::Bool) => "false",
            Some(Form::Int32 | Form::Int64) => "0",
            Some(Form::Text) => "",
            // Lists are not looked into.
            Some(_) => continue,
            None => return Err(format!("{kind} has no field {field}")),
        };
        let other = ELSE.iter().find(|(k, n, _)| *k == kind && n == name);
        let other = other.map(|(_, _, field)| path(field)).transpose()?;
        // Selectors look at objects as they are stored.
        let stored = alias.map(|alias| alias.stored_path(field));
        let path = path(stored.as_deref().unwrap_or(field))?;
        out.insert(name.clone(), Selectable { path, other, absent: Some(absent) });
    }
    Ok(out)
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

#[cfg(test)]
mod tests {
    use super::super::facts::facts;
    use super::*;

    #[test]
    fn the_table_holds_what_is_served_and_nothing_else() {
        let table = table(facts().unwrap()).unwrap();
        assert!(table.get("", "pods").is_some_and(|r| r.namespaced && r.has("status")));
        assert!(table.get("apps", "deployments").is_some_and(|r| r.scale.is_some()));
        assert!(table.get("apiregistration.k8s.io", "apiservices").is_none());
        assert!(table.get("", "pods").unwrap().has("eviction"));
        assert_eq!(table.groups()[..3], ["", "apps", "events.k8s.io"]);
        let nodes = table.get("", "nodes").unwrap();
        let unschedulable = &nodes.versions[0].selectable["spec.unschedulable"];
        assert_eq!(unschedulable.text(&serde_json::Map::new()).as_deref(), Some("false"));
        let hpas = table.get("autoscaling", "horizontalpodautoscalers").unwrap();
        assert_eq!(hpas.versions[0].name, "v2");
    }

    #[test]
    fn every_kind_has_a_schema() {
        for resource in table(facts().unwrap()).unwrap().iter() {
            let schema = resource.versions[0].schema.as_deref();
            assert!(schema.is_some_and(|s| s.properties.contains_key("metadata")), "{resource:?}");
        }
    }
}
