//! What differs between kinds, as data and small hooks.
//!
//! A kind that is not named here behaves like most: no generation, graceless deletion, background
//! collection, an update needs a `resourceVersion`.

use std::time::Duration;

use serde_json::{Value, json};

use super::metadata::{keep, meta, meta_mut, strings, text};
use super::{Object, birth};
use crate::builtin;
use crate::crd;
use crate::resource::Resource;
use crate::sabotage::Sabotage;
use crate::schema::names::NameRule;

/// How long events live; what upstream has if nobody sets `--event-ttl`.
const EVENTS_LIVE: Duration = Duration::from_secs(60 * 60);

/// How a kind's objects are written and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// A PUT without `resourceVersion` overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// A PUT on a name that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// `metadata.generation` counts changes of the desired state.
    pub(crate) generation: bool,
    /// A delete answers with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// Dependents are orphaned unless the client says otherwise.
    pub(crate) orphans: bool,
    /// How long an object lives after it was last written; `None`: until it is deleted.
    pub(crate) lives: Option<Duration>,
    /// What a name may look like.
    pub(crate) name: NameRule,
}

impl Strategy {
    const COMMON: Self = Self {
        unconditional_update: true,
        create_on_update: false,
        generation: false,
        returns_deleted: false,
        orphans: false,
        lives: None,
        name: NameRule::Subdomain,
    };

    pub(crate) fn of(resource: &Resource) -> Self {
        let common = Self::COMMON;
        if resource.is_custom() {
            return Self { unconditional_update: false, generation: true, ..common };
        }
        let generation = Self { generation: true, ..common };
        let returned = Self { returns_deleted: true, ..common };
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") => Self { name: NameRule::Label, ..returned },
            ("" | "events.k8s.io", "events") => {
                Self { create_on_update: true, lives: Some(EVENTS_LIVE), ..common }
            }
            ("", "pods") => Self { generation: true, ..returned },
            ("", "services") => {
                Self { name: NameRule::Label1035, create_on_update: true, ..returned }
            }
            ("", "replicationcontrollers") => {
                Self { generation: true, orphans: true, returns_deleted: true, ..common }
            }
            (
                "",
                "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts",
            ) => returned,
            ("batch", "jobs") => Self { orphans: true, ..generation },
            ("apps", "controllerrevisions") => common,
            ("apps" | "batch" | "policy" | "networking.k8s.io", _) => generation,
            ("discovery.k8s.io", _) => Self { generation: true, ..common },
            ("rbac.authorization.k8s.io", _) => {
                Self { create_on_update: true, name: NameRule::PathSegment, ..common }
            }
            ("coordination.k8s.io", _) => {
                Self { create_on_update: true, unconditional_update: false, ..common }
            }
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => Self {
                generation: resource.group == "apiextensions.k8s.io",
                unconditional_update: false,
                ..common
            },
            ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _) => {
                Self { unconditional_update: false, ..generation }
            }
            ("scheduling.k8s.io", _) => generation,
            ("storage.k8s.io", _) => returned,
            _ => common,
        }
    }
}

/// Sets what the server decides when an object is born.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Object) {
    // Only a node brings its status along: its kubelet knows it before it registers.
    if resource.has("status") && !resource.is("", "nodes") {
        let (api_version, kind) = (text(object, "apiVersion"), &resource.kind);
        let empty = (!resource.is_custom()).then(|| builtin::empty(api_version, kind)).flatten();
        match empty.as_ref().and_then(|empty| empty.get("status")) {
            Some(status) => object.insert("status".to_owned(), status.clone()),
            None => object.remove("status"),
        };
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            name_label(object);
            let spec = object.get("spec").and_then(Value::as_object);
            let mut finalizers = spec.map(|s| strings(s, "finalizers")).unwrap_or_default();
            if !finalizers.contains(&"kubernetes") {
                finalizers.push("kubernetes");
            }
            let spec = json!({"finalizers": finalizers});
            object.insert("spec".to_owned(), spec);
            object.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        ("", "pods") => birth::pod(object),
        ("", "persistentvolumeclaims") => birth::claim(object),
        ("apps", "daemonsets") => birth::template_generation(None, object),
        ("scheduling.k8s.io", "priorityclasses") => {
            meta_mut(object).insert("generation".to_owned(), 1.into());
        }
        ("coordination.k8s.io", "leases") => drop_gated(object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::prepare_create(object),
        _ => {}
    }
}

/// Fields of features that are off are not stored.
fn drop_gated(lease: &mut Object) {
    if let Some(Value::Object(spec)) = lease.get_mut("spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

/// Sets what needs the object's identity.
pub(crate) fn identify(resource: &Resource, object: &mut Object) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("batch", "jobs") => birth::job(object),
        ("", "pods") => birth::held_back(object),
        ("", "persistentvolumes") => birth::volume(object),
        _ => {}
    }
}

/// Sets what reading the new object back from the store would add.
pub(super) fn read_back(resource: &Resource, object: &mut Object) {
    if resource.is("batch", "jobs") {
        birth::label_as_template(object);
    }
}

/// A namespace can be selected by its name, as by any label.
fn name_label(object: &mut Object) {
    let name = text(meta(object), "name").to_owned();
    let labels = meta_mut(object).entry("labels").or_insert_with(|| json!({}));
    if labels.is_object() {
        labels["kubernetes.io/metadata.name"] = name.into();
    }
}

/// Restores what a write to the main resource may not change.
pub(crate) fn prepare_update(resource: &Resource, live: &Object, object: &mut Object) {
    if resource.has("status") {
        keep(live, object, "status");
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => keep(live, object, "spec"),
        ("", "services") => super::allocate::drop_of_old_type(live, object),
        ("apps", "daemonsets") => birth::template_generation(Some(live), object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::prepare_update(live, object),
        _ => {}
    }
}

/// Takes only what a write to `/status` may change; metadata of custom resources stays as it is.
pub(crate) fn prepare_status_update(resource: &Resource, live: &Object, object: &mut Object) {
    if Sabotage::StatusWritesAll.is_planted() {
        return;
    }
    let fields: Vec<String> = live.keys().chain(object.keys()).cloned().collect();
    for field in fields.iter().filter(|f| !matches!(f.as_str(), "status" | "metadata")) {
        keep(live, object, field);
    }
    if resource.is("", "pods") {
        keep(meta(live), meta_mut(object), "ownerReferences");
        let class = live.get("status").and_then(|status| status.get("qosClass"));
        if let (Some(class), Some(Value::Object(status))) = (class, object.get_mut("status")) {
            status.entry("qosClass").or_insert_with(|| class.clone());
        }
    }
    if resource.is_custom() || resource.group == "admissionregistration.k8s.io" {
        let (live, object) = (meta(live), meta_mut(object));
        let fields: Vec<String> = live.keys().chain(object.keys()).cloned().collect();
        for field in &fields {
            let own = matches!(field.as_str(), "managedFields" | "resourceVersion");
            if !own || !object.contains_key(field) {
                keep(live, object, field);
            }
        }
    }
}

/// Takes only a namespace's own finalizers, which is what `/finalize` is for.
pub(crate) fn prepare_finalize(live: &Object, object: &mut Object) {
    let fields: Vec<String> = live.keys().chain(object.keys()).cloned().collect();
    for field in fields.iter().filter(|f| !matches!(f.as_str(), "spec" | "metadata")) {
        keep(live, object, field);
    }
}

/// Whether an update changed what `metadata.generation` counts.
pub(crate) fn desired_changed(resource: &Resource, before: &Object, after: &Object) -> bool {
    // What a deployment does may hang on its annotations.
    if resource.is("apps", "deployments")
        && meta(before).get("annotations") != meta(after).get("annotations")
    {
        return true;
    }
    let counts = |field: &str| match field {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => !resource.has("status"),
        _ => true,
    };
    let mut fields = before.keys().chain(after.keys()).filter(|field| counts(field));
    fields.any(|field| before.get(field) != after.get(field))
}
