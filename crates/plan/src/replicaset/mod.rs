//! How many pods a ReplicaSet or ReplicationController makes or deletes, and what it reports.
//!
//! The rules are kube-controller-manager's, but that nothing is expected or resynced: what was
//! observed holds all that we did before. At most [`BURST`] pods are made or deleted at a time.

mod rank;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use crate::pod;

pub use self::rank::sort;

/// Most pods that are made or deleted in one go, as upstream's burst.
pub const BURST: usize = 500;

/// The condition of a set that could not make or delete pods.
const FAILURE: &str = "ReplicaFailure";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The set's metadata.
    pub meta: ObjectMeta,
    /// The kind and version by which its pods name it.
    pub kind: (&'static str, &'static str),
    /// How many pods it shall have.
    pub replicas: i32,
    /// For how many seconds a pod must be ready to be available.
    pub min_ready: i32,
    /// What its pods are made of.
    pub template: PodTemplateSpec,
    /// Its status.
    pub status: ReplicaSetStatus,
    /// Terminating pods are reported: ReplicaSets do, ReplicationControllers cannot.
    pub reports_terminating: bool,
    /// Its own pods that have not finished; one that we deleted has a deletion time.
    pub pods: Vec<Arc<Pod>>,
    /// Active pods of all sets under the same owner, to tell which nodes have several.
    pub related: Vec<Arc<Pod>>,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The pod to make, and how often.
    pub create: Option<(Box<Pod>, usize)>,
    /// The pods to delete, first ones first.
    pub delete: Vec<Arc<Pod>>,
    /// What to report if that succeeds.
    pub status: ReplicaSetStatus,
    /// When a pod becomes available if nothing happens.
    pub wake: Option<Timestamp>,
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let active: Vec<_> = observed.pods.iter().filter(|p| pod::is_active(p)).cloned().collect();
    let wanted = usize::try_from(observed.replicas).unwrap_or(0);
    let mut plan = Plan { status: status(observed, &active), ..Plan::default() };
    plan.wake = active
        .iter()
        .filter_map(|pod| pod::available_from(pod, observed.min_ready))
        .filter(|from| *from > observed.now)
        .min();
    if observed.meta.deletion_timestamp.is_some() {
        return plan;
    }
    if active.len() < wanted {
        let pod = Box::new(from_template(observed));
        plan.create = Some((pod, (wanted - active.len()).min(BURST)));
    } else if active.len() > wanted {
        let surplus = (active.len() - wanted).min(BURST);
        let mut ranked = active;
        sort(&mut ranked, &observed.related, observed.now);
        ranked.truncate(surplus);
        plan.delete = ranked;
    }
    plan
}

/// The sizes of the batches in which pods are made: they double while all goes well.
pub fn batches(mut count: usize) -> impl Iterator<Item = usize> {
    let mut size = 1;
    std::iter::from_fn(move || {
        let batch = size.min(count);
        count -= batch;
        size = size.saturating_mul(2);
        (batch > 0).then_some(batch)
    })
}

/// Says in a status that pods could not be made (`FailedCreate`) or deleted (`FailedDelete`).
pub fn fail(status: &mut ReplicaSetStatus, reason: &str, message: String, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|known| known.type_ != FAILURE || known.reason.as_deref() == Some(reason));
    if conditions.iter().any(|known| known.type_ == FAILURE) {
        return;
    }
    conditions.push(ReplicaSetCondition {
        type_: FAILURE.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
    });
}

/// The condition as it stands, for a failure that is the same as before.
pub fn failure(status: &ReplicaSetStatus) -> Option<&ReplicaSetCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == FAILURE)
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

fn status(observed: &Observed, active: &[Arc<Pod>]) -> ReplicaSetStatus {
    let wanted = observed.template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
    let labeled = |pod: &&Arc<Pod>| {
        wanted.into_iter().flatten().all(|(key, value)| {
            pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
        })
    };
    let from = |pod: &&Arc<Pod>| pod::available_from(pod, observed.min_ready);
    let some = |pods: usize| (pods > 0).then(|| count(pods));
    let terminating = observed.pods.iter().filter(|pod| pod::is_terminating(pod)).count();
    let others = observed.status.conditions.iter().flatten().filter(|c| c.type_ != FAILURE);
    let others: Vec<_> = others.cloned().collect();
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: some(active.iter().filter(labeled).count()),
        ready_replicas: some(active.iter().filter(|p| pod::ready_since(p).is_some()).count()),
        available_replicas: some(
            active.iter().filter(|p| from(p).is_some_and(|from| from <= observed.now)).count(),
        ),
        terminating_replicas: observed.reports_terminating.then(|| count(terminating)),
        observed_generation: observed.meta.generation,
        conditions: (!others.is_empty()).then_some(others),
    }
}

/// The reference by which an object of this kind controls another.
pub fn reference((api_version, kind): (&str, &str), owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn from_template(observed: &Observed) -> Pod {
    let meta = observed.template.metadata.clone().unwrap_or_default();
    let prefix = format!("{}-", observed.meta.name.as_deref().unwrap_or_default());
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(prefix),
            namespace: observed.meta.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![reference(observed.kind, &observed.meta)]),
            ..ObjectMeta::default()
        },
        spec: observed.template.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests;
