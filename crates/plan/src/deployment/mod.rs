//! How a Deployment moves from one template of pods to the next.
//!
//! Each template has a ReplicaSet of its own, found by its template and never by its name. One plan
//! is one step; what it changes brings the next. The rules, the reasons and the sentences are
//! kube-controller-manager's; the hash in the names of sets is our own, since nobody computes it.
//! `spec.rollbackTo` of old versions is not looked at: kubectl undoes by patching the template.

mod progress;
mod revision;
mod scale;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::progress::Birth;
pub use self::template::{hash, same_template};
use crate::share::share;

/// The API version and kind by which sets name their Deployment.
pub const KIND: (&str, &str) = ("apps/v1", "Deployment");
/// The label that tells the sets of a Deployment apart.
pub const HASH_LABEL: &str = "pod-template-hash";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Deployment.
    pub deployment: Deployment,
    /// Its own ReplicaSets.
    pub sets: Vec<ReplicaSet>,
    /// UIDs of the sets that have pods which have not finished.
    pub running: BTreeSet<String>,
    /// The name that the set of the current template would have is another's.
    pub collides: bool,
    /// The time.
    pub now: Timestamp,
}

/// What changes of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The set as it was observed.
    pub set: ReplicaSet,
    /// Its number of pods from now on.
    pub replicas: i32,
    /// `minReadySeconds` from now on.
    pub min_ready: Option<i32>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
}

/// What shall be done, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The set of the current template, to be made.
    pub create: Option<Box<ReplicaSet>>,
    /// Sets to be changed.
    pub change: Vec<Change>,
    /// Sets that history no longer needs.
    pub delete: Vec<ReplicaSet>,
    /// The Deployment's revision, if it is to be written.
    pub revision: Option<String>,
    /// What to report.
    pub status: DeploymentStatus,
    /// When the deadline for progress passes.
    pub wake: Option<Timestamp>,
}

/// A Deployment and its sets, sorted, with what changes of them.
struct World<'a> {
    deployment: &'a Deployment,
    name: &'a str,
    replicas: i32,
    surge: i32,
    unavailable: i32,
    rolling: bool,
    /// The set of the current template; its index in `sets`.
    new: Option<usize>,
    sets: Vec<&'a ReplicaSet>,
    /// The sizes that the sets shall have.
    sizes: Vec<i32>,
    now: Timestamp,
}

/// Decides the next step.
pub fn plan(observed: &Observed) -> Plan {
    let mut world = World::new(observed);
    let mut plan = Plan::default();
    let spec = observed.deployment.spec.as_ref();
    let ends = observed.deployment.metadata.deletion_timestamp.is_some();
    let paused = spec.and_then(|spec| spec.paused) == Some(true);
    let scaling = world.is_scaled();
    let mut birth = Birth::None;
    if ends {
        // Its sets are the garbage collector's.
    } else if paused || scaling {
        world.scale_proportionally();
    } else if observed.collides {
        let count = observed.deployment.status.as_ref().and_then(|s| s.collision_count);
        plan.status = world.status(&Birth::None);
        plan.status.collision_count = Some(count.unwrap_or(0).saturating_add(1));
        return plan;
    } else {
        let ready = world.rolling || world.stop_old(&observed.running);
        if ready && world.new.is_none() {
            let set = world.birth();
            birth = Birth::Made(set.metadata.name.clone().unwrap_or_default());
            plan.create = Some(Box::new(set));
        } else if ready && !world.grow_new() && world.rolling {
            world.shrink_old();
        }
    }
    plan.status = world.status(&birth);
    if !ends {
        plan.revision = world.deployment_revision(plan.create.as_deref());
        plan.change = world.changes(scaling || paused);
        if (paused || world.is_complete(&plan.status)) && plan.create.is_none() {
            plan.delete = world.history();
        }
        plan.wake = world.deadline(&plan.status);
    }
    plan
}

/// The name of the set of the current template.
pub fn set_name(deployment: &Deployment) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    format!("{name}-{}", hash_of(deployment))
}

fn hash_of(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    hash(&template, deployment.status.as_ref().and_then(|status| status.collision_count))
}

/// The index of the set of a Deployment's current template: the oldest, if there are several.
pub fn current(deployment: &Deployment, sets: &[&ReplicaSet]) -> Option<usize> {
    let wanted = &deployment.spec.as_ref()?.template;
    let template = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.template.clone());
    let matches = |set: &ReplicaSet| same_template(&template(set).unwrap_or_default(), wanted);
    (0..sets.len()).filter(|&i| matches(sets[i])).min_by_key(|&i| age(sets[i]))
}

fn age(set: &ReplicaSet) -> (Option<Timestamp>, Option<&str>) {
    let meta = &set.metadata;
    (meta.creation_timestamp.as_ref().map(|time| time.0), meta.name.as_deref())
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

impl<'a> World<'a> {
    fn new(observed: &'a Observed) -> Self {
        let deployment = &observed.deployment;
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let strategy = spec.and_then(|spec| spec.strategy.as_ref());
        let rolling = strategy.and_then(|s| s.type_.as_deref()) != Some("Recreate");
        let update = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let (mut surge, mut unavailable) = (0, 0);
        if rolling {
            surge = share(update.and_then(|update| update.max_surge.as_ref()), replicas, true);
            let most = update.and_then(|update| update.max_unavailable.as_ref());
            unavailable = share(most, replicas, false);
            if surge == 0 && unavailable == 0 {
                // Else nothing could ever move.
                unavailable = 1;
            }
            unavailable = unavailable.min(replicas);
        }
        let mut sets: Vec<_> = observed.sets.iter().collect();
        sets.sort_by(|a, b| age(a).cmp(&age(b)));
        Self {
            deployment,
            name: deployment.metadata.name.as_deref().unwrap_or_default(),
            replicas,
            surge,
            unavailable,
            rolling,
            new: current(deployment, &sets),
            sizes: sets.iter().map(|set| size(set)).collect(),
            sets,
            now: observed.now,
        }
    }

    /// Indices of the sets of earlier templates, oldest first.
    fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |i| Some(*i) != new)
    }

    /// The set of the current template, as it is made.
    fn birth(&self) -> ReplicaSet {
        let spec = self.deployment.spec.clone().unwrap_or_default();
        let hash = hash_of(self.deployment);
        let mut template = spec.template;
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector;
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", self.name)),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(self.annotations_of_new(None)),
                owner_references: Some(vec![crate::replicaset::reference(
                    KIND,
                    &self.deployment.metadata,
                )]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(self.new_size(0)),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }

    /// What changes of the sets, annotations included.
    fn changes(&self, scaled: bool) -> Vec<Change> {
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        let mut changes = Vec::new();
        for (i, set) in self.sets.iter().enumerate() {
            let is_new = Some(i) == self.new;
            let mut annotations = BTreeMap::new();
            if is_new {
                annotations.extend(self.annotations_of_new(Some(set)));
            }
            let resized = self.sizes[i] != size(set);
            if resized || is_new || (scaled && self.sizes[i] > 0) {
                annotations.extend(self.annotations_of_size());
            }
            let known = set.metadata.annotations.as_ref();
            annotations.retain(|key, value| known.and_then(|all| all.get(key)) != Some(value));
            let own = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
            let waits = is_new && own.unwrap_or(0) != min_ready.unwrap_or(0);
            if resized || waits || !annotations.is_empty() {
                changes.push(Change {
                    set: (*set).clone(),
                    replicas: self.sizes[i],
                    min_ready: if is_new { Some(min_ready.unwrap_or(0)) } else { own },
                    annotations,
                });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
