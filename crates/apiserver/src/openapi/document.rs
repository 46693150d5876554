//! Whole documents: one per group version in version 3, one of everything in version 2.
//!
//! A document holds the definitions that its paths refer to, and those that these refer to. It is
//! written definition by definition, so that only its text is ever in memory as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::descriptions::Descriptions;
use super::paths::{self, PRODUCES, PathItem};
use super::protobuf::Protobuf;
use super::{Dialect, custom, names, v2, v3};
use crate::builtin::{self, REFERENCE};
use crate::discovery::KUBERNETES_VERSION;
use crate::resource::{Resource, Table, group_version};

const VERSION: &str = "/version/";

/// A document of version 3 by what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    /// `/version`.
    Version,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// The resources of a group in a version.
    Resources { group: String, version: String },
}

impl Page {
    /// Every page of a table, by the path that the index gives it.
    pub(super) fn all(table: &Table) -> BTreeMap<String, Self> {
        let mut pages = BTreeMap::from([
            ("version".to_owned(), Self::Version),
            ("api".to_owned(), Self::Core),
            ("apis".to_owned(), Self::Groups),
        ]);
        for resource in table.iter() {
            let group = &resource.group;
            if !resource.is_custom() && !group.is_empty() {
                pages.insert(format!("apis/{group}"), Self::Group(group.clone()));
            }
            for version in resource.versions.iter().filter(|v| v.served) {
                let path = names::root(group, &version.name).trim_start_matches('/').to_owned();
                let (group, version) = (group.clone(), version.name.clone());
                pages.insert(path, Self::Resources { group, version });
            }
        }
        pages
    }

    /// The resources that it is about.
    pub(super) fn resources(&self, table: &Table) -> Vec<Arc<Resource>> {
        let Self::Resources { group, version } = self else { return Vec::new() };
        let about = |r: &&Arc<Resource>| r.group == *group && r.version(version).is_some();
        table.iter().filter(about).cloned().collect()
    }

    fn paths(&self, table: &Table) -> Vec<PathItem> {
        let one = |path: &str, id: &str, tag: String, definition: String| {
            let produces: &[&str] = if path == VERSION { &["application/json"] } else { &PRODUCES };
            vec![paths::document(path.to_owned(), id.to_owned(), tag, &definition, produces)]
        };
        match self {
            Self::Version => {
                let definition = "io.k8s.apimachinery.pkg.version.Info".to_owned();
                one(VERSION, "getCodeVersion", "version".to_owned(), definition)
            }
            Self::Core => {
                let definition = names::meta("APIVersions");
                one("/api/", "getCoreAPIVersions", "core".to_owned(), definition)
            }
            Self::Groups => {
                one("/apis/", "getAPIVersions", "apis".to_owned(), names::meta("APIGroupList"))
            }
            Self::Group(group) => {
                let id = format!("get{}APIGroup", names::title(group, None));
                let tag = names::tag(group, None);
                one(&format!("/apis/{group}/"), &id, tag, names::meta("APIGroup"))
            }
            Self::Resources { group, version } => paths::of_version(table, group, version),
        }
    }

    /// Whether all that it is about is custom; upstream calls such documents by another name.
    fn is_custom(&self, table: &Table) -> bool {
        matches!(self, Self::Resources { .. })
            && self.resources(table).iter().all(|r| r.is_custom())
    }
}

/// The text of a page in version 3. Schemas of custom resources are left out once it is longer than
/// `enough`, in bytes.
pub(super) fn page(table: &Table, page: &Page, enough: usize) -> String {
    let items = page.paths(table);
    let custom = page.is_custom(table);
    let mut out = Writer::new();
    out.field("openapi", &"3.0.0".into());
    out.field("info", &info(custom));
    out.open("paths");
    let mut needed = References::default();
    for item in &items {
        let value = v3::path_item(item);
        needed.follow(&value);
        out.field(&item.path, &value);
    }
    out.close();
    out.open("components");
    out.open("schemas");
    let described = match page {
        Page::Resources { group, version } => Descriptions::of(&group_version(group, version)),
        _ => Descriptions::default(),
    };
    definitions(table, needed, (Dialect::V3, enough), &described, &mut |name, definition| {
        out.field(name, definition);
        out.len()
    });
    out.close();
    if !custom {
        out.field("securitySchemes", &json!({"BearerToken": bearer()}));
    }
    out.close();
    out.finish()
}

/// The one document of version 2, as JSON and as protobuf; `enough` as for a page.
pub(super) fn everything(table: &Table, enough: usize) -> (String, Vec<u8>) {
    let (mut out, mut protobuf) = (Writer::new(), Protobuf::default());
    out.field("swagger", &"2.0".into());
    out.field("info", &info(false));
    out.open("paths");
    let mut needed = References::default();
    let mut described = Descriptions::default();
    for page in Page::all(table).values() {
        for item in page.paths(table) {
            let value = v2::path_item(&item);
            needed.follow(&value);
            out.field(&item.path, &value);
            protobuf.path(&item.path, &value);
        }
        if let Page::Resources { group, version } = page {
            described.add(&group_version(group, version));
        }
    }
    out.close();
    out.open("definitions");
    definitions(table, needed, (Dialect::V2, enough), &described, &mut |name, definition| {
        out.field(name, definition);
        protobuf.definition(name, definition);
        out.len()
    });
    out.close();
    let bearer = bearer();
    out.field("securityDefinitions", &json!({"BearerToken": bearer}));
    out.field("security", &json!([{"BearerToken": []}]));
    (out.finish(), protobuf.finish(&info(false), "BearerToken", &bearer))
}

fn info(custom: bool) -> Value {
    let (major, minor, _) = KUBERNETES_VERSION;
    match custom {
        false => json!({"title": "Kubernetes", "version": format!("{major}.{minor}")}),
        true => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
    }
}

fn bearer() -> Value {
    json!({
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    })
}

/// Hands out the definitions that are needed, and those that they need; `write` says how long the
/// document is by then.
fn definitions(
    table: &Table,
    mut needed: References,
    (dialect, enough): (Dialect, usize),
    described: &Descriptions,
    write: &mut dyn FnMut(&str, &Value) -> usize,
) {
    let mut length = 0;
    let mut custom = BTreeMap::new();
    for resource in table.iter().filter(|r| r.is_custom()) {
        for version in resource.versions.iter().filter(|v| v.served) {
            let kind = names::definition(resource, &version.name, &resource.kind);
            let list = names::definition(resource, &version.name, &resource.list_kind);
            custom.insert(kind, (resource, version, 0));
            custom.insert(list, (resource, version, 1));
        }
    }
    while let Some(name) = needed.next() {
        // First, so that no CRD speaks for a built-in kind by calling its group alike.
        let definition = builtin::definition(&name).or_else(|| {
            let (resource, version, which) = custom.get(&name)?;
            let brief = length > enough;
            let both = custom::definitions(resource, version, dialect, brief);
            both.into_iter().nth(*which).map(|(_, definition)| definition)
        });
        let Some(mut definition) = definition else { continue };
        described.describe(&name, &mut definition);
        if dialect == Dialect::V2 {
            v2::schema(&mut definition);
        }
        needed.follow(&definition);
        length = write(&name, &definition);
    }
}

/// Definitions that were referred to, each given out once.
#[derive(Debug, Default)]
struct References {
    seen: BTreeSet<String>,
    open: Vec<String>,
}

impl References {
    fn follow(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(target)
                    && !self.seen.contains(name)
                {
                    self.seen.insert(name.to_owned());
                    self.open.push(name.to_owned());
                }
                fields.values().for_each(|value| self.follow(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.follow(item)),
            _ => {}
        }
    }

    fn next(&mut self) -> Option<String> {
        self.open.pop()
    }
}

fn target(reference: &str) -> Option<&str> {
    reference.strip_prefix(REFERENCE).or_else(|| reference.strip_prefix(v2::REFERENCE))
}

/// Writes objects field by field.
struct Writer {
    text: String,
    first: bool,
}

impl Writer {
    fn new() -> Self {
        Self { text: "{".to_owned(), first: true }
    }

    fn len(&self) -> usize {
        self.text.len()
    }

    fn name(&mut self, name: &str) {
        if !self.first {
            self.text.push(',');
        }
        self.first = false;
        self.text.push_str(&Value::from(name).to_string());
        self.text.push(':');
    }

    fn field(&mut self, name: &str, value: &Value) {
        self.name(name);
        self.text.push_str(&value.to_string());
    }

    fn open(&mut self, name: &str) {
        self.name(name);
        self.text.push('{');
        self.first = true;
    }

    fn close(&mut self) {
        self.text.push('}');
        self.first = false;
    }

    fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}
