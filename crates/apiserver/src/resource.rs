//! The resource table: every kind this server serves, built-in or custom, in one shape.
//!
//! The generic handlers know nothing of kinds; whatever differs between two kinds is a field here
//! or a hook in `strategy`. The table is immutable: a change (a CRD comes, goes or changes) makes a
//! new table, and requests in flight keep the one they began with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::builtin::{Alias, Recipe};
use crate::cel::Rules;
use crate::decode::TypeMeta;
use crate::dotted::DottedPath;
use crate::projection::Projection;
use crate::schema::Schema;
use crate::schema::jsonpath::JsonPath;

/// A resource and its group, printed as `widgets.example.com` or `pods`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

impl GroupResource {
    /// A resource of a group; the core group is the empty string.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.resource, &self.group)
    }
}

/// A kind and its group, printed as `Widget.example.com` or `Pod`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.kind, &self.group)
    }
}

fn qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

/// `group/version`, or the bare version for the core group.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// One resource: where it is served, what its objects look like, what may be done with them.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are discovery's own")]
pub struct Resource {
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// Where the scale subresource reads and writes, if there is one.
    pub scale: Option<Scale>,
    /// Every subresource that is served, `status` and `scale` among them.
    pub subresources: Vec<Subresource>,
    /// The version in which objects are stored; an index into `versions`.
    pub storage: usize,
    /// Served versions and the storage version, in the order of preference.
    pub versions: Vec<Version>,
    pub origin: Origin,
    /// Whose objects these are, if the resource only shows them in another form.
    pub alias: Option<&'static Alias>,
}

/// A subresource, and the kind that it reads and writes.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are discovery's own")]
pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// Where a resource comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// From the table of facts.
    BuiltIn,
    /// From a `CustomResourceDefinition` of this name.
    Custom {
        /// `metadata.name` of the CRD.
        definition: String,
        /// Whether the CRD's spec has changed since it was made.
        revised: bool,
        /// Whether the CRD is going, so that nothing more may be created.
        terminating: bool,
    },
}

/// One version of a resource.
#[derive(Debug)]
pub struct Version {
    /// Such as `v1alpha1`.
    pub name: String,
    /// Whether requests may name it.
    pub served: bool,
    /// The shape; `None` where nothing is known and everything is kept.
    pub schema: LazySchema,
    /// The schema's CEL rules.
    pub rules: Option<Arc<Rules>>,
    /// Columns of the table form.
    pub columns: Vec<Column>,
    /// Whether and how an object has run to its end: the conditions of its row in a table.
    pub finished: Option<fn(&Value) -> Option<Value>>,
    /// Fields that a field selector may name, beside `metadata.name` and `metadata.namespace`.
    pub selectable: BTreeMap<String, Selectable>,
    /// The sentence of the `Warning` header that every use of the version gets.
    pub deprecation: Option<String>,
}

/// A schema that is made when it is first asked for: few of the built-in kinds ever are.
pub type LazySchema =
    LazyLock<Option<Arc<Schema>>, Box<dyn FnOnce() -> Option<Arc<Schema>> + Send + Sync>>;

/// A field that a field selector may name.
#[derive(Debug, Clone)]
pub struct Selectable {
    /// Where it is in the object as it is stored.
    pub path: DottedPath,
    /// Where else it is looked for if it is empty there.
    pub other: Option<DottedPath>,
    /// What it counts as where it is not; `None`: nothing.
    pub absent: Option<&'static str>,
}

impl Selectable {
    /// The field's value as a selector compares it.
    pub fn text(&self, object: &Map<String, Value>) -> Option<String> {
        let text = self.path.text(object).or_else(|| self.absent.map(str::to_owned));
        match &self.other {
            Some(other) if text.as_deref().is_none_or(str::is_empty) => other.text(object).or(text),
            _ => text,
        }
    }
}

/// How the cells of a column come about.
#[derive(Debug, Clone)]
pub enum Cell {
    /// From a field of the object.
    Path(JsonPath),
    /// As the printer of a built-in kind has it.
    BuiltIn(&'static Recipe),
}

impl Cell {
    /// Wants the fields that the cell comes of.
    pub(crate) fn wants(&self, projection: &mut Projection) {
        match self {
            Self::Path(path) => projection.want(path.head()),
            Self::BuiltIn(recipe) => recipe.wants(projection),
        }
    }
}

/// A column of the table form.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are the table's own")]
pub struct Column {
    pub name: String,
    pub type_: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub cell: Cell,
}

/// Where the scale subresource reads and writes.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are the CRD's own")]
pub struct Scale {
    pub spec_replicas: DottedPath,
    pub status_replicas: DottedPath,
    pub label_selector: Option<DottedPath>,
}

impl Resource {
    /// The name that error messages and RBAC use.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// The name that validation errors use.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The served version of this name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.served && v.name == name)
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> &Version {
        &self.versions[self.storage]
    }

    /// `apiVersion` of stored objects.
    pub fn storage_api_version(&self) -> String {
        let own = || group_version(&self.group, &self.storage_version().name);
        self.alias.map_or_else(own, Alias::api_version)
    }

    /// The group under which objects are stored.
    pub(crate) fn storage_group(&self) -> &str {
        self.alias.map_or(&self.group, |alias| alias.group)
    }

    /// Whether this subresource is served.
    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|s| s.name == subresource)
    }

    /// Whether the objects are custom ones.
    pub fn is_custom(&self) -> bool {
        self.origin != Origin::BuiltIn
    }

    /// Whether this is the named resource of the named group.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

/// Every resource, found by group and plural name.
#[derive(Debug, Clone, Default)]
pub struct Table {
    resources: BTreeMap<GroupResource, Arc<Resource>>,
    /// Built-in groups in the order in which discovery names them.
    order: Vec<String>,
}

impl Table {
    /// The resource of this name.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&GroupResource::new(group, plural))
    }

    /// The groups that are served: built-in ones in their order, then the others by name.
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = self.resources.keys().map(|r| r.group.clone()).collect();
        groups.dedup();
        let place = |group: &String| self.order.iter().position(|g| g == group);
        groups.sort_by_key(|group| place(group).unwrap_or(usize::MAX));
        groups
    }

    /// Adds a built-in resource; groups are named in the order in which they first come.
    pub fn insert_built_in(&mut self, resource: Resource) {
        if !self.order.contains(&resource.group) {
            self.order.push(resource.group.clone());
        }
        self.insert(resource);
    }

    /// Adds a resource, or replaces the one of its name.
    pub fn insert(&mut self, resource: Resource) {
        self.resources.insert(resource.group_resource(), Arc::new(resource));
    }

    /// Why an object of another kind cannot stand for one of this built-in kind.
    pub fn misplaced(&self, about: &TypeMeta, wanted_group: &str, wanted: &str) -> String {
        let TypeMeta { api_version, kind } = about;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.iter().any(|r| {
            !r.is_custom() && r.group == group && r.kind == *kind && r.version(version).is_some()
        });
        if known {
            let package = match wanted_group {
                "" => "core",
                group => group.split('.').next().unwrap_or_default(),
            };
            return format!(
                "converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
            );
        }
        // The place in upstream's source is part of the sentence that clients see.
        let scheme = "pkg/runtime/scheme.go:111";
        format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{scheme}\""
        )
    }

    /// Drops what the named CRD brought.
    pub fn remove_definition(&mut self, definition: &str) {
        self.resources.retain(
            |_, r| !matches!(&r.origin, Origin::Custom { definition: d, .. } if d == definition),
        );
    }

    /// All resources, ordered by group and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The served versions of a group, most preferred first, each once; empty for an unknown group.
    pub fn versions_of(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<&str> = self
            .iter()
            .filter(|r| r.group == group)
            .flat_map(|r| r.versions.iter().filter(|v| v.served))
            .map(|v| v.name.as_str())
            .collect();
        versions.sort_by(|a, b| compare_versions(b, a));
        versions.dedup();
        versions.into_iter().map(str::to_owned).collect()
    }
}

/// Kubernetes' order of version names: GA over beta over alpha, then by number, then other names.
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// `(stability, major, minor)` of a name like `v2beta1`.
fn parse_version(name: &str) -> Option<(u8, u32, u32)> {
    let rest = name.strip_prefix('v')?;
    let digits = |s: &str| -> Option<u32> {
        (!s.is_empty() && !s.starts_with('0') && s.bytes().all(|b| b.is_ascii_digit()))
            .then(|| s.parse().ok())
            .flatten()
    };
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, digits(major)?, digits(minor)?));
        }
    }
    Some((2, digits(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability_then_number() {
        let mut names = ["v1beta1", "foo1", "v2", "v1alpha2", "v10", "v1", "v1alpha1", "v11beta2"];
        names.sort_by(|a, b| compare_versions(b, a));
        let want = ["v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha2", "v1alpha1", "foo1"];
        assert_eq!(names, want);
    }
}
