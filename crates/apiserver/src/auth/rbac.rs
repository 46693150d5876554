//! Roles and bindings, indexed by who they are for.
//!
//! [`RbacIndex`] is kept current object by object and answers in which order bindings grant what to
//! a user: cluster-wide ones by name, then those of the namespace by name. A binding whose role is
//! missing grants nothing and says so. Objects that do not read as what they claim to be are
//! dropped, so that nothing outdated keeps granting.
//!
//! Aggregated roles count by the rules written in them; filling those in is a controller's part.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::authz::{Attributes, Target};
use super::quote::quote;
use super::{SERVICE_ACCOUNT_PREFIX, User};
use crate::sabotage::Sabotage;

const ALL: &str = "*";

/// The four kinds of `rbac.authorization.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds' own names")]
pub enum RbacKind {
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

/// What may be done, as a role says it. An empty list of names stands for any name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields of the Kubernetes type")]
pub struct PolicyRule {
    #[serde(deserialize_with = "null_as_empty")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_as_empty")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Whether this rule allows the attempt by itself.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, attributes.verb)
            && match attributes.target {
                Target::Resource { group, resource, subresource, name, .. } => {
                    has_or_all(&self.api_groups, group)
                        && self.resources.iter().any(|r| resource_matches(r, resource, subresource))
                        && (self.resource_names.is_empty()
                            || has(&self.resource_names, name)
                            || Sabotage::AnyName.is_planted())
                }
                Target::Path(path) => {
                    self.non_resource_urls.iter().any(|pattern| url_covers(pattern, path))
                }
            }
    }
}

pub(super) fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == wanted)
}

pub(super) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == ALL || entry == wanted)
}

/// A rule names `pods`, `pods/log`, `*/scale` or `*`; `*` includes every subresource.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL || subresource.is_empty() {
        return rule == ALL || rule == resource;
    }
    let of = |resource: &str| rule.strip_prefix(resource).and_then(|rest| rest.strip_prefix('/'));
    of(ALL) == Some(subresource) || of(resource) == Some(subresource)
}

/// A URL pattern is exact unless it ends in `*`.
pub(super) fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Deserialize)]
struct Role {
    #[serde(default, deserialize_with = "null_as_empty")]
    rules: Vec<PolicyRule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    role_ref: RoleRef,
    #[serde(default, deserialize_with = "null_as_empty")]
    subjects: Vec<Subject>,
}

#[derive(Debug, Deserialize)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Whom a subject names, as far as a user's name and groups can tell.
enum Whom {
    User(String),
    Group(String),
}

impl Subject {
    /// A service account without a namespace is one of the binding's; a cluster-wide binding has
    /// none, so such a subject is nobody.
    fn whom(&self, binding_namespace: &str) -> Option<Whom> {
        match self.kind.as_str() {
            "User" => Some(Whom::User(self.name.clone())),
            "Group" => Some(Whom::Group(self.name.clone())),
            "ServiceAccount" => {
                let own = self.namespace.as_str();
                let namespace = if own.is_empty() { binding_namespace } else { own };
                let name = &self.name;
                (!namespace.is_empty())
                    .then(|| Whom::User(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")))
            }
            _ => None,
        }
    }

    fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.whom(binding_namespace) {
            Some(Whom::User(name)) => user.name == name,
            Some(Whom::Group(name)) => user.is_in(&name),
            None => false,
        }
    }
}

/// The bindings of one namespace, or of the whole cluster.
#[derive(Debug, Default)]
struct Bindings {
    by_name: BTreeMap<String, Binding>,
    by_user: HashMap<String, BTreeSet<String>>,
    by_group: HashMap<String, BTreeSet<String>>,
}

impl Bindings {
    fn insert(&mut self, namespace: &str, name: &str, binding: Binding) {
        for whom in binding.subjects.iter().filter_map(|subject| subject.whom(namespace)) {
            let (index, key) = match whom {
                Whom::User(key) => (&mut self.by_user, key),
                Whom::Group(key) => (&mut self.by_group, key),
            };
            index.entry(key).or_default().insert(name.to_owned());
        }
        self.by_name.insert(name.to_owned(), binding);
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for whom in binding.subjects.iter().filter_map(|subject| subject.whom(namespace)) {
            let (index, key) = match whom {
                Whom::User(key) => (&mut self.by_user, key),
                Whom::Group(key) => (&mut self.by_group, key),
            };
            if let Some(names) = index.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(&key);
                }
            }
        }
    }

    /// The bindings for `user`, in the order of their names.
    fn of<'a>(&'a self, user: &User) -> impl Iterator<Item = (&'a str, &'a Binding)> {
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let names: BTreeSet<&str> = self
            .by_user
            .get(&user.name)
            .into_iter()
            .chain(groups)
            .flatten()
            .map(String::as_str)
            .collect();
        names.into_iter().filter_map(|name| Some((name, self.by_name.get(name)?)))
    }
}

/// An object does not read as the kind that it was applied as.
#[derive(Debug, thiserror::Error)]
#[error("read {kind:?} {name:?}")]
pub struct ReadRbac {
    kind: RbacKind,
    name: String,
    source: serde_json::Error,
}

/// Every role and binding there is. See the [module](self).
#[derive(Debug, Default)]
pub struct RbacIndex {
    /// By namespace, then by name; cluster roles under the empty namespace.
    roles: HashMap<String, HashMap<String, Vec<PolicyRule>>>,
    /// By namespace; cluster-wide ones under the empty namespace.
    bindings: HashMap<String, Bindings>,
}

impl RbacIndex {
    /// Takes in an object as it is now. `namespace` is empty for the cluster-wide kinds.
    pub fn apply(
        &mut self,
        kind: RbacKind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<(), ReadRbac> {
        self.remove(kind, namespace, name);
        let failed = |source| ReadRbac { kind, name: name.to_owned(), source };
        match kind {
            RbacKind::ClusterRole | RbacKind::Role => {
                let role = Role::deserialize(object).map_err(failed)?;
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), role.rules);
            }
            RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => {
                let binding = Binding::deserialize(object).map_err(failed)?;
                let bindings = self.bindings.entry(namespace.to_owned()).or_default();
                bindings.insert(namespace, name, binding);
            }
        }
        Ok(())
    }

    /// Forgets an object.
    pub fn remove(&mut self, kind: RbacKind, namespace: &str, name: &str) {
        match kind {
            RbacKind::ClusterRole | RbacKind::Role => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(namespace, name);
                    if bindings.by_name.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
        }
    }

    /// What a role reference stands for, in a binding of `namespace` (empty if cluster-wide).
    pub fn role<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        namespace: &str,
    ) -> Result<&'a [PolicyRule], Unresolved<'a>> {
        let namespace = match kind {
            "ClusterRole" => "",
            "Role" => namespace,
            _ => return Err(Unresolved::Kind(kind)),
        };
        let rules = self.roles.get(namespace).and_then(|roles| roles.get(name));
        rules.map(Vec::as_slice).ok_or(Unresolved::Missing { kind, name })
    }

    /// Everything bound to `user` that holds in `namespace`; only what holds everywhere if that is
    /// empty.
    pub fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = Result<Grant<'a>, Unresolved<'a>>> {
        let scopes = [Some(""), (!namespace.is_empty()).then_some(namespace)];
        let scopes = scopes.into_iter().flatten();
        let bound = scopes.filter_map(|scope| self.bindings.get_key_value(scope)).flat_map(
            |(scope, bindings)| {
                bindings.of(user).map(move |(name, binding)| (scope.as_str(), name, binding))
            },
        );
        bound.map(move |(scope, name, binding)| {
            let rules = self.role(&binding.role_ref.kind, &binding.role_ref.name, scope)?;
            let subject = binding.subjects.iter().find(|subject| subject.is(user, scope));
            Ok(Grant { rules, namespace: scope, name, binding, subject })
        })
    }
}

/// A binding that applies to a user. Displays as it does in a SubjectAccessReview.
#[derive(Clone, Debug)]
pub struct Grant<'a> {
    /// What the bound role allows.
    pub rules: &'a [PolicyRule],
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
    subject: Option<&'a Subject>,
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoleRef { kind, name } = &self.binding.role_ref;
        let role = quote(name);
        match self.namespace {
            "" => write!(out, "ClusterRoleBinding {}", quote(self.name))?,
            // Name first: that is how it is reported.
            namespace => {
                write!(out, "RoleBinding {}", quote(&format!("{}/{namespace}", self.name)))?;
            }
        }
        write!(out, " of {kind} {role}")?;
        let Some(Subject { kind, name, namespace }) = self.subject else { return Ok(()) };
        if kind == "ServiceAccount" {
            let namespace = if namespace.is_empty() { self.namespace } else { namespace };
            write!(out, " to {kind} {}", quote(&format!("{name}/{namespace}")))
        } else {
            write!(out, " to {kind} {}", quote(name))
        }
    }
}

/// A role reference that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved<'a> {
    /// There is no such role.
    Missing {
        /// `Role` or `ClusterRole`.
        kind: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The reference is to something that is no role.
    Kind(&'a str),
}

impl Unresolved<'_> {
    /// As the reason of a refusal puts it.
    pub fn as_authorizer(&self) -> String {
        match self {
            Self::Missing { kind, .. } => self.describe(&kind.to_ascii_lowercase()),
            Self::Kind(_) => self.describe(""),
        }
    }

    /// As a write to `resource` reports it: the missing role goes by the name of that resource.
    pub fn as_write_to(&self, resource: &str) -> String {
        self.describe(resource)
    }

    fn describe(&self, resource: &str) -> String {
        match self {
            Self::Missing { name, .. } => {
                format!("{resource}.rbac.authorization.k8s.io {} not found", quote(name))
            }
            Self::Kind(kind) => format!("unsupported role reference kind: {}", quote(kind)),
        }
    }
}

#[cfg(test)]
#[path = "rbac_tests.rs"]
mod tests;
