//! Server-side apply and `metadata.managedFields`.
//!
//! [`apply`] merges a configuration into an object; [`update`] tracks every other write; both
//! answer the object with its new `managedFields`, as a kube-apiserver would. They decide only:
//! defaulting, validation, resetting of status and storage are the caller's, after which
//! [`keep_times`] undoes what was no change at all.
//!
//! Guarantees: nothing here panics, depth over input is bounded by [`MAX_DEPTH`], and a write that
//! changes nothing returns the object it was given, times included.
//!
//! Deliberately absent: conversion between versions that moves fields, and the translation of
//! entries for `/scale`. Two things that a kube-apiserver does to custom resources are left out as
//! harmful: an entry of a version that is gone is dropped, where it fails the request there; and a
//! write to the main resource in one version spares who owns the status in another.

mod compare;
mod last_applied;
mod managers;
mod merge;
mod path;
mod set;
mod shape;
#[cfg(test)]
mod tests;
mod updater;
mod validate;
mod value;

use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use managers::{DecodeManagers, ManagerId, Operation};
pub use path::PathElement;
pub use set::FieldSet;
pub use shape::object_meta;
pub use validate::ShapeErrors;

use crate::schema::Schema;
use managers::{Managers, Owned};
use shape::Shape;
use updater::Versions;
use validate::{Strictness, validate};

/// How deep an object may nest for its fields to be tracked. With what `managedFields` adds, it
/// stays below what JSON parsers take.
pub const MAX_DEPTH: usize = 100;

/// Updaters beyond this many are merged, oldest first.
const MOST_UPDATERS: usize = 10;

/// The manager of all that an object had before somebody first applied to it.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes what kind of object, through which endpoint, when.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The schema of that version; without one, all that is known is the metadata.
    pub schema: Option<&'a Schema>,
    /// The other versions that the kind is served in.
    pub other_versions: &'a [(&'a str, Option<&'a Schema>)],
    /// What a new object has before anybody set a field: for a built-in kind the fields that are
    /// always there, such as `spec: {}`. Nobody is said to have added these. `None` for a kind
    /// without any, as custom resources are.
    pub empty: Option<&'a Value>,
    /// The fields that this endpoint resets, in every version, so that its writers own nothing
    /// there and take nothing from others.
    pub reset_fields: &'a FieldSet,
    /// The client's name for itself.
    pub manager: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The time of the write.
    pub now: Timestamp,
}

/// A field that somebody else owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner.
    pub manager: ManagerId,
    /// The path, as in `.spec.replicas`.
    pub field: String,
}

/// All conflicts of one apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// The `FieldManagerConflict` causes: message and field.
    pub fn causes(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|c| (format!("conflict with {}", c.manager), c.field.clone()))
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &*self.0 {
            let Conflict { manager, field } = one;
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {field}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut lines = Vec::new();
        for of_one in self.0.chunk_by(|a, b| a.manager == b.manager) {
            lines.extend(of_one.first().map(|c| format!("conflicts with {}:", c.manager)));
            lines.extend(of_one.iter().map(|c| format!("- {}", c.field)));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Why an apply failed. The texts are the messages that clients read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 400: the applied object is not of the request's kind and version.
    #[error("invalid object type: {0}")]
    InvalidObjectType(String),
    /// 400: the applied object says who owns what.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// 409, reason `Conflict`: others own fields with other values.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// 500, without a reason: the stored `managedFields` are broken.
    #[error("failed to decode managed fields: {0}")]
    DecodeManagers(#[source] DecodeManagers),
    /// 500, without a reason: the applied object does not follow the schema.
    #[error("failed to create typed patch object ({object}): {errors}")]
    TypeApplied {
        /// Which object.
        object: String,
        /// What is wrong with it.
        #[source]
        errors: ShapeErrors,
    },
    /// 500, without a reason: the stored object does not follow the schema.
    #[error("failed to create typed live object ({object}): {errors}")]
    TypeLive {
        /// Which object.
        object: String,
        /// What is wrong with it.
        #[source]
        errors: ShapeErrors,
    },
    /// 400: the object nests too deep to be merged.
    #[error("the object nests more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// 500, without a reason: pruning left nothing of the object.
    #[error(
        "failed to convert new typed object ({0}) to object: failed to convert value to unstructured for type <nil>"
    )]
    NothingLeft(String),
}

/// Applies a configuration to the live object, or creates one from it.
///
/// Afterwards the caller sets defaults, prunes, and resets what the endpoint resets: here all that
/// was applied is merged.
pub fn apply(
    cx: &Context<'_>,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, Error> {
    let type_ = type_of(applied);
    if type_ != group_version_kind(cx.api_version, cx.kind) {
        return Err(Error::InvalidObjectType(type_));
    }
    let stored = live.or(cx.empty).and_then(managers::entries);
    let stored = stored.map_or(Ok(Managers::default()), Managers::decode);
    let mut managers = stored.map_err(Error::DecodeManagers)?;
    let live = cx.live_or_empty(live);
    if value::deeper_than(&live, MAX_DEPTH) || value::deeper_than(applied, MAX_DEPTH) {
        return Err(Error::TooDeep);
    }
    if managers.owned.is_empty() {
        let first = Context { manager: BEFORE_FIRST_APPLY, ..*cx };
        let empty = cx.live_or_empty(None);
        first.track(&empty, &live, &mut managers).map_err(|e| cx.type_live(&live, e))?;
    }
    if managers::entries(applied).is_some() {
        return Err(Error::ManagedFieldsGiven);
    }
    validate(cx.shape(), applied, Strictness::Applied)
        .map_err(|errors| Error::TypeApplied { object: describe(applied), errors })?;
    validate(cx.shape(), &live, Strictness::Stored).map_err(|e| cx.type_live(&live, e))?;

    let mut object = cx.merge(&live, applied, &mut managers, force)?;
    if !object.is_object() {
        return Err(Error::NothingLeft(describe(applied)));
    }
    if cx.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, applied);
    }
    managers.encode_into(&mut object);
    Ok(object)
}

/// Tracks who owns what after a write that is no apply: `new` is the object that was sent or
/// patched, decoded but not yet reset by the endpoint; `live` what is stored, or `None` on creation.
///
/// A client may send `managedFields` of its own to the main resource: they replace the stored ones,
/// an empty list or a list of one empty entry turns tracking off, and what is absent or broken
/// leaves the stored ones be. An object whose fields cannot be tracked is returned without any.
pub fn update(cx: &Context<'_>, live: Option<&Value>, mut new: Value) -> Value {
    let created = live.is_none();
    let mut managers = cx.sent_or_stored(&new, live.or(cx.empty));
    managers::strip(&mut new);
    if managers.owned.is_empty() && !created {
        return new;
    }
    let live = cx.live_or_empty(live);
    if value::deeper_than(&live, MAX_DEPTH) || value::deeper_than(&new, MAX_DEPTH) {
        return new;
    }
    if cx.track(&live, &new, &mut managers).is_ok() {
        managers.encode_into(&mut new);
    }
    new
}

/// Puts back the stored times where the new object differs from the stored one in nothing else.
///
/// For the last moment before storing: defaulting and resetting may have undone what looked like a
/// change before.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(old), Some(current)) = (managers::entries(live), managers::entries(new)) else {
        return;
    };
    let timeless = |(old, new): (&Value, &Value)| value::equal_but(old, new, &["time"]);
    if old == current || old.len() != current.len() || !old.iter().zip(current).all(timeless) {
        return;
    }
    if value::equal_but(live, new, &["metadata", "managedFields"]) {
        new["metadata"]["managedFields"] = Value::from(old.to_vec());
    }
}

impl<'a> Context<'a> {
    fn shape(&self) -> Shape<'a> {
        Shape::object(self.schema)
    }

    fn versions(&self) -> Versions<'a> {
        let others = self.other_versions.iter();
        Versions {
            current: self.api_version,
            shape: self.shape(),
            others: others.map(|(version, schema)| (*version, Shape::object(*schema))).collect(),
            reset: self.reset_fields,
        }
    }

    fn writer(&self, operation: Operation) -> ManagerId {
        let name = if self.manager.is_empty() { "unknown" } else { self.manager };
        ManagerId::new(name, operation, self.api_version, self.subresource)
    }

    /// The stored object, or what a new one has, without who owns what.
    fn live_or_empty(&self, live: Option<&Value>) -> Value {
        live.or(self.empty)
            .map(managers::bare)
            .unwrap_or_else(|| json!({"apiVersion": self.api_version, "kind": self.kind}))
    }

    fn type_live(&self, live: &Value, errors: ShapeErrors) -> Error {
        Error::TypeLive { object: describe(live), errors }
    }

    /// The managers that an update goes by.
    fn sent_or_stored(&self, new: &Value, live: Option<&Value>) -> Managers {
        let decode = |object| managers::entries(object).and_then(|e| Managers::decode(e).ok());
        if self.subresource.is_empty() {
            match managers::entries(new) {
                Some([]) => return Managers::default(),
                Some([Value::Object(one)]) if one.values().all(is_unset) => {
                    return Managers::default();
                }
                _ => {}
            }
            if let Some(sent) = decode(new).filter(|managers| !managers.owned.is_empty()) {
                return sent;
            }
        }
        live.and_then(decode).unwrap_or_default()
    }

    /// Makes the writer own what differs between the objects.
    fn track(&self, live: &Value, new: &Value, managers: &mut Managers) -> Result<(), ShapeErrors> {
        validate(self.shape(), new, Strictness::Stored)?;
        validate(self.shape(), live, Strictness::Stored)?;
        let changed = self.versions().update(live, new, managers).difference(&NEVER_OWNED);
        if !changed.is_empty() {
            let writer = self.writer(Operation::Update);
            self.stamp(writer.clone(), managers);
            let owned = managers.owned.entry(writer).or_insert_with(|| Owned {
                set: FieldSet::default(),
                api_version: self.api_version.to_owned(),
            });
            owned.set = std::mem::take(&mut owned.set).union(&changed);
        }
        managers.cap_updaters(MOST_UPDATERS);
        Ok(())
    }

    /// Merges, with the writer as the owner of what it applies.
    fn merge(
        &self,
        live: &Value,
        applied: &Value,
        managers: &mut Managers,
        force: bool,
    ) -> Result<Value, Error> {
        let writer = self.writer(Operation::Apply);
        let versions = self.versions();
        let before = managers.clone();
        let object = match versions.apply(live, applied, managers, &writer, force) {
            Ok(object) => object,
            Err(conflicts) => {
                let allowed = (self.manager == last_applied::MANAGER)
                    .then(|| last_applied::fields(self.shape(), live, self.api_version))
                    .flatten()
                    .unwrap_or_default();
                let conflicts: Vec<_> =
                    conflicts.into_iter().filter(|(_, path)| !allowed.contains(path)).collect();
                let retried = if conflicts.is_empty() {
                    *managers = before;
                    versions.apply(live, applied, managers, &writer, true)
                } else {
                    Err(conflicts)
                };
                retried.map_err(|conflicts| Error::Conflicts(conflicts.into()))?
            }
        };
        if let Some(owned) = managers.owned.get_mut(&writer) {
            owned.set = owned.set.difference(&NEVER_OWNED);
            if owned.set.is_empty() {
                managers.owned.remove(&writer);
            }
        }
        if value::equal(live, &object) {
            return Ok(live.clone());
        }
        self.stamp(writer, managers);
        Ok(object)
    }

    /// Says when the writer wrote. What a Scale wrote has no time: its object knows none of its own.
    fn stamp(&self, writer: ManagerId, managers: &mut Managers) {
        if self.subresource != "scale" {
            managers.times.insert(writer, self.now);
        }
    }
}

impl From<Vec<(ManagerId, Vec<PathElement>)>> for Conflicts {
    fn from(conflicts: Vec<(ManagerId, Vec<PathElement>)>) -> Self {
        let text = |path: Vec<PathElement>| path.iter().map(ToString::to_string).collect();
        Self(
            conflicts
                .into_iter()
                .map(|(manager, path)| Conflict { manager, field: text(path) })
                .collect(),
        )
    }
}

/// The fields that belong to the server or to the object's identity.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let of_metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut paths: Vec<Vec<&str>> = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    paths.extend(of_metadata.map(|field| vec!["metadata", field]));
    FieldSet::of_fields(paths.iter().map(Vec::as_slice))
});

fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

/// `group/version, Kind=kind`, as Go prints it; all empty if the version makes no sense.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        None => format!("/{api_version}, Kind={kind}"),
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some((group, version)) => format!("{group}/{version}, Kind={kind}"),
    }
}

fn type_of(object: &Value) -> String {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    group_version_kind(text("apiVersion"), text("kind"))
}

/// The object in an error message: `namespace/name; group/version, Kind=kind`.
fn describe(object: &Value) -> String {
    let text = |key: &str| {
        let metadata = object.get("metadata");
        metadata.and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default()
    };
    format!("{}/{}; {}", text("namespace"), text("name"), type_of(object))
}
