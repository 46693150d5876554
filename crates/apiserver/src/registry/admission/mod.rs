//! Admission: what the cluster adds to a new object before its kind's own rules see it, and what it
//! forbids although the object itself is well formed.
//!
//! One file per rule, each known by the name of the plugin of a kube-apiserver. What they read they
//! read from the store at that moment; they write nothing but the object that is on its way.

mod criteria;
pub(super) mod csr;
mod intent;
mod limit_range;
pub(super) mod node;
mod pod;
mod pod_resources;
mod pod_security;
mod policy;
mod priority;
mod service_account;
mod webhook;

use serde_json::{Value, json};

pub(super) use self::intent::Operation;
use self::node::Attempt;
pub(super) use self::pod_resources::with_overhead;
pub(crate) use self::policy::Policies;
pub(crate) use self::webhook::Webhooks;
use super::metadata::{meta, meta_mut, text};
use super::{Call, Object};
use crate::sabotage::Sabotage;
use crate::server::Plugin;
use crate::status::ApiError;

impl Call<'_> {
    /// Completes an object that is about to be created.
    pub(super) fn admit_create(&self, object: &mut Object) -> Result<(), ApiError> {
        self.restrict_node(Attempt::Create(object))?;
        match (self.resource.group.as_str(), self.resource.plural.as_str()) {
            ("", "pods") => {
                self.default_resources(object)?;
                self.run_as_account(object)?;
                self.prioritize(object)?;
                pod::tolerate_outages(object);
                self.label_by_node(object)
            }
            ("", "nodes") => {
                pod::taint_until_ready(object);
                Ok(())
            }
            ("", "persistentvolumeclaims") => {
                self.keep_while_used(object, "kubernetes.io/pvc-protection");
                Ok(())
            }
            ("", "persistentvolumes") => {
                self.keep_while_used(object, "kubernetes.io/pv-protection");
                Ok(())
            }
            ("scheduling.k8s.io", "priorityclasses") => self.check_only_default(None, object),
            ("certificates.k8s.io", "certificatesigningrequests") => {
                self.sign_in(object);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks whoever the cluster has configured whether a request may do what it is about to. What the
    /// server does of its own accord is not asked about.
    pub(super) async fn admit(
        &mut self,
        operation: Operation,
        live: Option<&Object>,
        object: Option<&Object>,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        if Sabotage::NoAdmission.is_planted() {
            return Ok(());
        }
        if self.followed {
            self.hold_to_standards(operation, live, object)?;
        }
        let idle = self.server.policies().is_empty() && self.server.webhooks().is_empty();
        if !self.followed || idle {
            return Ok(());
        }
        let intent = self.intent(operation, live, object, dry_run)?;
        self.hold_to_policies(&intent)?;
        self.hold_to_webhooks(&intent).await
    }

    /// Lets those whom the cluster has configured change an object on its way.
    pub(super) async fn change(
        &mut self,
        operation: Operation,
        live: Option<&Object>,
        object: Object,
        dry_run: bool,
    ) -> Result<Object, ApiError> {
        self.change_by_webhooks(operation, live, object, dry_run).await
    }

    /// Looks at an object once it is known to be well formed.
    pub(super) fn admit_finally(
        &self,
        live: Option<&Object>,
        object: &Object,
    ) -> Result<(), ApiError> {
        match (self.resource.group.as_str(), self.resource.plural.as_str(), live) {
            ("", "pods" | "persistentvolumeclaims", live) => self.check_limits(live, object),
            ("certificates.k8s.io", "certificatesigningrequests", None) => {
                self.check_subject(object)
            }
            ("certificates.k8s.io", "certificatesigningrequests", Some(live)) => {
                self.check_signer(live, object)
            }
            _ => Ok(()),
        }
    }

    /// Completes an object that is about to change.
    pub(super) fn admit_update(&self, live: &Object, object: &mut Object) -> Result<(), ApiError> {
        self.restrict_node(Attempt::Update { live, object })?;
        if self.subresource.is_some() {
            return Ok(());
        }
        match (self.resource.group.as_str(), self.resource.plural.as_str()) {
            ("", "pods") => {
                priority::keep(live, object);
                pod::tolerate_outages(object);
                Ok(())
            }
            ("scheduling.k8s.io", "priorityclasses") => self.check_only_default(Some(live), object),
            _ => Ok(()),
        }
    }

    /// StorageObjectInUseProtection: what is deleted while it is used goes when that is over.
    fn keep_while_used(&self, object: &mut Object, finalizer: &str) {
        if !self.server.admits_with(Plugin::StorageObjectInUseProtection) {
            return;
        }
        let finalizers = list_mut(meta_mut(object), "finalizers");
        if !finalizers.iter().any(|there| there == finalizer) {
            finalizers.push(finalizer.into());
        }
    }

    /// The refusal of an object by a rule.
    pub(super) fn forbidden(&self, object: &Object, why: &str) -> ApiError {
        let (resource, name) = (self.group_resource(), text(meta(object), "name"));
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        ApiError::forbidden(&resource, name, message)
    }
}

/// An object's `spec`, made if it was not there.
fn spec_mut(object: &mut Object) -> &mut Object {
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = json!({});
    }
    match spec {
        Value::Object(spec) => spec,
        _ => unreachable!("made an object above"),
    }
}

/// A list field, made if it was not there.
fn list_mut<'a>(object: &'a mut Object, field: &str) -> &'a mut Vec<Value> {
    let list = object.entry(field).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    match list {
        Value::Array(list) => list,
        _ => unreachable!("made a list above"),
    }
}
