//! What ReplicaSets and ReplicationControllers differ in.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;

use crate::pods::Keeper;

/// A kind that keeps a number of pods.
pub trait Kind: Keeper + Serialize {
    /// The controller's name, which is the kind's in small letters.
    const NAME: &'static str;
    /// Group and plural.
    const RESOURCE: (&'static str, &'static str);
    /// What it does, in a sentence.
    const ABOUT: &'static str;
    /// Its status has the number of pods that terminate.
    const REPORTS_TERMINATING: bool;

    /// How many pods, ready for how many seconds, made of what.
    fn wanted(&self) -> (i32, i32, PodTemplateSpec);
    /// Its status.
    fn report(&self) -> ReplicaSetStatus;
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

impl Keeper for ReplicaSet {
    const KIND: (&'static str, &'static str) = ("apps/v1", "ReplicaSet");

    fn selector(&self) -> LabelSelector {
        self.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default()
    }
}

impl Kind for ReplicaSet {
    const NAME: &'static str = "replicaset";
    const RESOURCE: (&'static str, &'static str) = ("apps", "replicasets");
    const ABOUT: &'static str = "Keeps as many pods as a ReplicaSet wants";
    const REPORTS_TERMINATING: bool = true;

    fn wanted(&self) -> (i32, i32, PodTemplateSpec) {
        let spec = self.spec.clone().unwrap_or_default();
        let template = spec.template.unwrap_or_default();
        (spec.replicas.unwrap_or(1), spec.min_ready_seconds.unwrap_or(0), template)
    }

    fn report(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }
}

impl Keeper for ReplicationController {
    const KIND: (&'static str, &'static str) = ("v1", "ReplicationController");

    fn selector(&self) -> LabelSelector {
        let match_labels = self.spec.as_ref().and_then(|spec| spec.selector.clone());
        LabelSelector { match_labels, ..LabelSelector::default() }
    }
}

impl Kind for ReplicationController {
    const NAME: &'static str = "replicationcontroller";
    const RESOURCE: (&'static str, &'static str) = ("", "replicationcontrollers");
    const ABOUT: &'static str = "Keeps as many pods as a ReplicationController wants";
    const REPORTS_TERMINATING: bool = false;

    fn wanted(&self) -> (i32, i32, PodTemplateSpec) {
        let spec = self.spec.clone().unwrap_or_default();
        let template = spec.template.unwrap_or_default();
        (spec.replicas.unwrap_or(1), spec.min_ready_seconds.unwrap_or(0), template)
    }

    /// The conditions of both kinds have the same fields.
    fn report(&self) -> ReplicaSetStatus {
        let status = serde_json::to_value(&self.status).ok();
        status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or_default()
    }
}
