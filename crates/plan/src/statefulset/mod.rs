//! Pods with names that stay, in order: `web-0` before `web-1`, and each with its own claims.
//!
//! The rules are kube-controller-manager's, with one pod at a time in an update. One plan is one step.
//! With `OrderedReady` a step stops at the first pod that is not available; with `Parallel` it goes on.

mod birth;
mod claims;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::history::{self, Changes, Owner, find, surplus};
use crate::{Event, pod};

/// The API version and kind by which pods name their StatefulSet.
pub const KIND: (&str, &str) = ("apps/v1", "StatefulSet");
/// The label of a pod with the name of its revision.
const REVISION_LABEL: &str = "controller-revision-hash";
/// The label of a revision with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The StatefulSet.
    pub set: StatefulSet,
    /// Its own pods; one that we deleted has a deletion time.
    pub pods: Vec<Arc<Pod>>,
    /// The claims of its namespace that have names of its claims.
    pub claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// Its own revisions.
    pub revisions: Vec<ControllerRevision>,
    /// The name that the template's revision would have is another's.
    pub collides: bool,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What becomes of revisions.
    pub revisions: Changes,
    /// What to tell about it.
    pub events: Vec<Event>,
    /// Claims to make, each for a pod.
    pub claim: Vec<(PersistentVolumeClaim, String)>,
    /// Claims whose owners change, and to which.
    pub own: Vec<(Arc<PersistentVolumeClaim>, Vec<OwnerReference>)>,
    /// Pods that do not have the labels of their identity, and those labels.
    pub label: Vec<(Arc<Pod>, BTreeMap<String, String>)>,
    /// Pods to make, first ones first.
    pub create: Vec<Pod>,
    /// Pods to delete.
    pub delete: Vec<Arc<Pod>>,
    /// What to report.
    pub status: StatefulSetStatus,
    /// When a pod becomes available if nothing happens.
    pub wake: Option<Timestamp>,
}

/// Where a step stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Wait,
}

struct World<'a> {
    observed: &'a Observed,
    set: &'a StatefulSet,
    name: &'a str,
    spec: &'a StatefulSetSpec,
    start: i32,
    replicas: i32,
    min_ready: i32,
    ordered: bool,
    /// The names of the revisions, and the templates that they hold.
    current: (&'a str, PodTemplateSpec),
    update: (&'a str, PodTemplateSpec),
    /// Its pods by ordinal.
    pods: BTreeMap<i32, &'a Arc<Pod>>,
    now: Timestamp,
}

/// The set's name and the ordinal in a pod's name.
pub fn parse(pod: &str) -> Option<(&str, i32)> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    let digits = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    Some((set, ordinal.parse().ok().filter(|_| digits)?))
}

/// The name of the revision of a set's template.
pub fn revision_name(set: &StatefulSet) -> String {
    owner(set, &set.spec.clone().unwrap_or_default()).name()
}

/// Whether a set has a revision of its template.
pub fn has_revision(set: &StatefulSet, revisions: &[ControllerRevision]) -> bool {
    set.spec.as_ref().is_some_and(|spec| find(revisions, &spec.template).is_some())
}

/// What the names of a set's claims begin with.
pub fn claim_prefixes(set: &StatefulSet) -> impl Iterator<Item = String> {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let all = set.spec.iter().flat_map(|spec| spec.volume_claim_templates.iter().flatten());
    all.map(move |claim| {
        let claim = claim.metadata.name.as_deref().unwrap_or_default();
        format!("{claim}-{name}-")
    })
}

fn owner<'a>(set: &'a StatefulSet, spec: &'a StatefulSetSpec) -> Owner<'a> {
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    Owner {
        kind: KIND,
        meta: &set.metadata,
        template: &spec.template,
        collisions: collisions.filter(|count| *count > 0),
        label: HASH_LABEL,
    }
}

/// Decides the next step.
pub fn plan(observed: &Observed) -> Plan {
    let set = &observed.set;
    let known = set.status.clone().unwrap_or_default();
    let Some(spec) = &set.spec else { return Plan { status: known, ..Plan::default() } };
    let owner = owner(set, spec);
    let Some(update) = find(&observed.revisions, &spec.template) else {
        if set.metadata.deletion_timestamp.is_some() {
            return Plan { status: known, ..Plan::default() };
        }
        if observed.collides {
            let count = known.collision_count.unwrap_or(0).saturating_add(1);
            let status = StatefulSetStatus { collision_count: Some(count), ..known };
            return Plan { status, ..Plan::default() };
        }
        let revisions = owner.changes(&observed.revisions);
        return Plan { revisions, status: known, ..Plan::default() };
    };
    let current = observed.revisions.iter().find(|revision| {
        revision.metadata.name.is_some() && revision.metadata.name == known.current_revision
    });
    let world = World::new(observed, spec, current.unwrap_or(update), update);
    let mut plan = Plan { status: world.status(known), ..Plan::default() };
    if set.metadata.deletion_timestamp.is_some() {
        // Its pods are the garbage collector's.
        return plan;
    }
    plan.revisions = owner.changes(&observed.revisions);
    plan.revisions.delete = surplus(&observed.revisions, spec.revision_history_limit, |revision| {
        let name = revision.metadata.name.as_deref().unwrap_or_default();
        let names = [world.current.0, world.update.0];
        names.contains(&name) || observed.pods.iter().any(|pod| revision_of(pod) == Some(name))
    });
    if world.keep(&mut plan) == Go::On && world.condemn(&mut plan) == Go::On {
        world.roll(&mut plan);
    }
    let from = observed.pods.iter().filter_map(|p| pod::available_from(p, world.min_ready));
    plan.wake = from.filter(|from| *from > world.now).min();
    plan
}

fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL).map(String::as_str)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl<'a> World<'a> {
    fn new(
        observed: &'a Observed,
        spec: &'a StatefulSetSpec,
        current: &'a ControllerRevision,
        update: &'a ControllerRevision,
    ) -> Self {
        let of = |revision: &'a ControllerRevision| {
            let template = history::template(revision).unwrap_or_else(|| spec.template.clone());
            (revision.metadata.name.as_deref().unwrap_or_default(), template)
        };
        let name = observed.set.metadata.name.as_deref().unwrap_or_default();
        let ordinal = |pod: &'a Arc<Pod>| {
            let (set, ordinal) = parse(pod.metadata.name.as_deref()?)?;
            (set == name).then_some((ordinal, pod))
        };
        Self {
            observed,
            set: &observed.set,
            name,
            spec,
            start: spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0),
            replicas: spec.replicas.unwrap_or(1).max(0),
            min_ready: spec.min_ready_seconds.unwrap_or(0),
            ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
            current: of(current),
            update: of(update),
            pods: observed.pods.iter().filter_map(ordinal).collect(),
            now: observed.now,
        }
    }

    fn end(&self) -> i32 {
        self.start.saturating_add(self.replicas)
    }

    fn in_range(&self, ordinal: i32) -> bool {
        (self.start..self.end()).contains(&ordinal)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod::available_from(pod, self.min_ready).is_some_and(|from| from <= self.now)
    }

    fn is_healthy(&self, pod: &Pod) -> bool {
        self.is_available(pod) && !pod::is_terminating(pod)
    }

    /// How far a step may go past something that is not as it shall be.
    fn held(&self) -> Go {
        if self.ordered { Go::Wait } else { Go::On }
    }

    /// The partition: so many of the first ones stay as they are in an update.
    fn partition(&self) -> i32 {
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        rolling.and_then(|rolling| rolling.partition).unwrap_or(0).max(0)
    }

    fn rolls(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    /// The pods that there shall be, first ones first.
    fn keep(&self, plan: &mut Plan) -> Go {
        for ordinal in self.start..self.end() {
            let go = match self.pods.get(&ordinal) {
                None => self.make(ordinal, plan),
                Some(pod) => self.keep_one(ordinal, pod, plan),
            };
            if go == Go::Wait && self.ordered {
                return Go::Wait;
            }
        }
        Go::On
    }

    fn make(&self, ordinal: i32, plan: &mut Plan) -> Go {
        if self.claim(ordinal, plan) == Go::On {
            plan.create.push(self.birth(ordinal));
        }
        Go::Wait
    }

    fn keep_one(&self, ordinal: i32, pod: &Arc<Pod>, plan: &mut Plan) -> Go {
        if pod::is_finished(pod) {
            if !pod::is_terminating(pod) {
                plan.delete.push(Arc::clone(pod));
            }
            return Go::Wait;
        }
        if pod::phase(pod) == "Pending" {
            self.claim(ordinal, plan);
        }
        let running = pod::phase(pod) == "Running" && pod::ready_since(pod).is_some();
        if self.ordered && !(running && self.is_healthy(pod)) {
            return Go::Wait;
        }
        let labels = birth::identity(self.name, ordinal);
        let known = pod.metadata.labels.as_ref();
        if known.and_then(|all| all.get(NAME_LABEL)) != labels.get(NAME_LABEL) {
            plan.label.push((Arc::clone(pod), labels));
        }
        self.own(ordinal, pod, plan);
        Go::On
    }

    /// The pods that are too many go, last ones first.
    fn condemn(&self, plan: &mut Plan) -> Go {
        let condemned = || self.pods.iter().rev().filter(|(ordinal, _)| !self.in_range(**ordinal));
        for (ordinal, pod) in condemned() {
            self.own(*ordinal, pod, plan);
        }
        // One that is not available need not wait for itself, nor for one that has ended: that will
        // never be.
        let within = (self.start..self.end()).map(|ordinal| self.pods.get(&ordinal));
        let whole = within.into_iter().all(|pod| pod.is_some_and(|pod| self.is_healthy(pod)));
        let sick = condemned().rev().find(|(_, pod)| !self.is_healthy(pod)).filter(|_| whole);
        let mut go = Go::On;
        for (ordinal, pod) in condemned() {
            if pod::is_terminating(pod) {
                if self.ordered {
                    return Go::Wait;
                }
                continue;
            }
            let excused = sick.is_some_and(|(sick, _)| sick == ordinal) || pod::is_finished(pod);
            if self.ordered && !self.is_available(pod) && !excused {
                return Go::Wait;
            }
            plan.delete.push(Arc::clone(pod));
            if self.ordered {
                return Go::Wait;
            }
            go = self.held();
        }
        go
    }

    /// One pod at a time gets the new template, last ones first.
    fn roll(&self, plan: &mut Plan) {
        if !self.rolls() {
            return;
        }
        let first = self.start.saturating_add(self.partition().min(self.replicas));
        for ordinal in (first..self.end()).rev() {
            let Some(pod) = self.pods.get(&ordinal) else { return };
            let deleted = plan.delete.iter().any(|gone| Arc::ptr_eq(gone, pod));
            let old = revision_of(pod) != Some(self.update.0);
            if old && !pod::is_terminating(pod) && !deleted {
                plan.delete.push(Arc::clone(pod));
                let current = plan.status.current_replicas.unwrap_or(0).saturating_sub(1);
                plan.status.current_replicas = Some(current).filter(|count| *count > 0);
                return;
            }
            if !self.is_healthy(pod) {
                return;
            }
        }
    }

    fn status(&self, known: StatefulSetStatus) -> StatefulSetStatus {
        let pods = || self.pods.values().map(|pod| &***pod);
        let ready = |pod: &&Pod| pod::phase(pod) == "Running" && pod::ready_since(pod).is_some();
        let of = |revision: &str| {
            let live = pods().filter(|pod| !pod::is_terminating(pod));
            count(live.filter(|pod| revision_of(pod) == Some(revision)).count())
        };
        let some = |number: i32| (number > 0).then_some(number);
        let (replicas, updated) = (count(pods().count()), of(self.update.0));
        let readies = count(pods().filter(ready).count());
        let (mut current, mut revision) = (of(self.current.0), self.current.0);
        if self.rolls() && [replicas, updated, readies] == [self.replicas; 3] {
            (current, revision) = (updated, self.update.0);
        }
        let available = pods().filter(ready).filter(|pod| self.is_available(pod)).count();
        StatefulSetStatus {
            replicas,
            ready_replicas: some(readies),
            available_replicas: Some(count(available)),
            current_replicas: some(current),
            updated_replicas: some(updated),
            current_revision: Some(revision.to_owned()),
            update_revision: Some(self.update.0.to_owned()),
            observed_generation: self.set.metadata.generation,
            collision_count: Some(known.collision_count.unwrap_or(0)),
            conditions: known.conditions,
        }
    }
}

#[cfg(test)]
mod tests;
