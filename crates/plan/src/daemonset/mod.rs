//! One pod of a DaemonSet on every node that may have one, and how they are replaced when the template
//! changes.
//!
//! The rules, the reasons and the sentences are kube-controller-manager's. One plan is one step: first
//! the revision of the template, then pods that lack or are too many, and only when there are none
//! the next step of an update.

mod birth;
mod roll;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

pub use self::birth::node_of;
use crate::history::{Changes, Owner, find, surplus};
use crate::replicaset::BURST;
use crate::scheduler::{is_selected, tolerates};
use crate::{Event, pod};

/// The API version and kind by which pods name their DaemonSet.
pub const KIND: (&str, &str) = ("apps/v1", "DaemonSet");
/// The label of pods and revisions with the hash of their template.
pub const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";
const LONGEST_DELAY: SignedDuration = SignedDuration::from_mins(15);

/// How often pods failed on a node, and when the last one was deleted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How often in a row.
    pub count: u32,
    /// When the last time.
    pub last: Timestamp,
}

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The DaemonSet.
    pub set: DaemonSet,
    /// Every node.
    pub nodes: Vec<Arc<Node>>,
    /// Its own pods; one that we deleted has a deletion time.
    pub pods: Vec<Arc<Pod>>,
    /// Its own revisions.
    pub revisions: Vec<ControllerRevision>,
    /// The name that the template's revision would have is another's.
    pub collides: bool,
    /// Failures by node.
    pub failures: BTreeMap<String, Failures>,
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
    /// Pods to make.
    pub create: Vec<Pod>,
    /// Pods to delete.
    pub delete: Vec<Arc<Pod>>,
    /// The nodes on which pods are deleted because they failed.
    pub failed: Vec<String>,
    /// What to report.
    pub status: DaemonSetStatus,
    /// When time alone changes something.
    pub wake: Option<Timestamp>,
}

/// A DaemonSet, its nodes and pods.
struct World<'a> {
    observed: &'a Observed,
    spec: DaemonSetSpec,
    /// What its pods are made of, with what they all tolerate.
    template: PodSpec,
    hash: String,
    /// The DaemonSet's generation of the template, as older clients count it.
    generation: Option<String>,
    min_ready: i32,
    /// The nodes that there are, those that shall have a pod, and those that may keep one.
    nodes: BTreeSet<&'a str>,
    runs: BTreeSet<&'a str>,
    keeps: BTreeSet<&'a str>,
    /// The pods by node, those that run there first, the oldest first.
    pods: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
    now: Timestamp,
}

/// The name of the revision of a DaemonSet's template.
pub fn revision_name(set: &DaemonSet) -> String {
    let spec = set.spec.clone().unwrap_or_default();
    owner(set, &spec).name()
}

/// Whether a DaemonSet has a revision of its template.
pub fn has_revision(set: &DaemonSet, revisions: &[ControllerRevision]) -> bool {
    set.spec.as_ref().is_some_and(|spec| find(revisions, &spec.template).is_some())
}

fn owner<'a>(set: &'a DaemonSet, spec: &'a DaemonSetSpec) -> Owner<'a> {
    Owner {
        kind: KIND,
        meta: &set.metadata,
        template: &spec.template,
        collisions: set.status.as_ref().and_then(|status| status.collision_count),
        label: HASH_LABEL,
    }
}

/// Decides the next step.
pub fn plan(observed: &Observed) -> Plan {
    let set = &observed.set;
    let known = set.status.clone().unwrap_or_default();
    if set.metadata.deletion_timestamp.is_some() {
        // Its pods are the garbage collector's.
        return Plan { status: known, ..Plan::default() };
    }
    let spec = set.spec.clone().unwrap_or_default();
    let owner = owner(set, &spec);
    let Some(current) = find(&observed.revisions, &spec.template) else {
        if observed.collides {
            let count = known.collision_count.unwrap_or(0).saturating_add(1);
            let status = DaemonSetStatus { collision_count: Some(count), ..known };
            return Plan { status, ..Plan::default() };
        }
        let revisions = owner.changes(&observed.revisions);
        return Plan { revisions, status: known, ..Plan::default() };
    };
    let hash = label(current.metadata.labels.as_ref(), HASH_LABEL).unwrap_or_default();
    let world = World::new(observed, &spec, hash);
    let mut plan = Plan { revisions: owner.changes(&observed.revisions), ..Plan::default() };
    let live: BTreeSet<_> = observed
        .pods
        .iter()
        .filter_map(|pod| label(pod.metadata.labels.as_ref(), HASH_LABEL))
        .collect();
    plan.revisions.delete = surplus(&observed.revisions, spec.revision_history_limit, |revision| {
        let hash = label(revision.metadata.labels.as_ref(), HASH_LABEL);
        revision == current || hash.is_some_and(|hash| live.contains(hash))
    });
    world.manage(&mut plan);
    if plan.create.is_empty() && plan.delete.is_empty() {
        world.roll(&mut plan);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan.status = world.status(known);
    plan.wake = plan.wake.into_iter().chain(world.next_available()).min();
    plan
}

fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn name(pod: &Pod) -> (&str, &str) {
    let meta = &pod.metadata;
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl<'a> World<'a> {
    fn new(observed: &'a Observed, spec: &DaemonSetSpec, hash: &str) -> Self {
        let template = birth::tolerant(spec.template.spec.clone().unwrap_or_default());
        let (mut runs, mut keeps) = (BTreeSet::new(), BTreeSet::new());
        for node in &observed.nodes {
            let Some(name) = node.metadata.name.as_deref() else { continue };
            let bound = template.node_name.as_deref().filter(|bound| !bound.is_empty());
            if bound.is_some_and(|bound| bound != name) || !is_selected(&template, node) {
                continue;
            }
            let taints = || node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            let bears = |effect: &str| {
                let mut all = taints().filter(|taint| taint.effect == effect);
                all.all(|taint| tolerates(&template, taint))
            };
            if bears("NoExecute") {
                keeps.insert(name);
                if bears("NoSchedule") {
                    runs.insert(name);
                }
            }
        }
        let mut pods: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in &observed.pods {
            // What has ended and is deleted is as good as gone.
            if pod::is_finished(pod) && pod::is_terminating(pod) {
                continue;
            }
            if let Some(node) = node_of(pod) {
                pods.entry(node).or_default().push(pod);
            }
        }
        for pods in pods.values_mut() {
            pods.sort_by_key(|pod| {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
                let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (node.unwrap_or_default().is_empty(), created, pod.metadata.name.clone())
            });
        }
        let annotations = observed.set.metadata.annotations.as_ref();
        Self {
            observed,
            template,
            hash: hash.to_owned(),
            generation: annotations.and_then(|all| all.get(GENERATION)).cloned(),
            min_ready: spec.min_ready_seconds.unwrap_or(0),
            spec: spec.clone(),
            nodes: observed.nodes.iter().filter_map(|n| n.metadata.name.as_deref()).collect(),
            runs,
            keeps,
            pods,
            now: observed.now,
        }
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        let of = |key: &str| label(pod.metadata.labels.as_ref(), key);
        let by_generation = self.generation.as_deref();
        of(HASH_LABEL) == Some(&self.hash)
            || (by_generation.is_some() && of(GENERATION_LABEL) == by_generation)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod::available_from(pod, self.min_ready).is_some_and(|from| from <= self.now)
    }

    /// Pods that lack, and those that are too many.
    fn manage(&self, plan: &mut Plan) {
        let surges = self.limits().0 > 0;
        for node in &self.runs {
            if !self.pods.contains_key(node) {
                plan.create.push(self.birth(node));
            }
        }
        for (node, pods) in &self.pods {
            let live = pods.iter().copied().filter(|pod| !pod::is_terminating(pod));
            if !self.keeps.contains(node) {
                // On a node that is gone, pods that ran there are not ours to delete.
                let waits =
                    |pod: &Pod| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
                let known = self.nodes.contains(node);
                plan.delete.extend(live.filter(|pod| known || waits(pod)).cloned());
                continue;
            }
            let mut running = Vec::new();
            for pod in live {
                match pod::phase(pod) {
                    "Failed" => self.failed(node, pod, plan),
                    "Succeeded" => {
                        let (namespace, name) = name(pod);
                        let text = format!(
                            "Found succeeded daemon pod {namespace}/{name} on node {node}, will \
                             try to delete it"
                        );
                        plan.events.push(Event::normal("SucceededDaemonPod", text));
                        plan.delete.push(Arc::clone(pod));
                    }
                    _ => running.push(pod),
                }
            }
            if !surges {
                plan.delete.extend(running.into_iter().skip(1).cloned());
            } else if running.is_empty() {
                if self.runs.contains(node) {
                    plan.create.push(self.birth(node));
                }
            } else {
                self.replace(&running, plan);
            }
        }
    }

    /// A pod that failed is deleted, the later the more often that happened on its node.
    fn failed(&self, node: &str, pod: &Arc<Pod>, plan: &mut Plan) {
        if let Some(failures) = self.observed.failures.get(node) {
            let factor = 2_i32.saturating_pow(failures.count.saturating_sub(1).min(16));
            let delay = SignedDuration::from_secs(i64::from(factor)).min(LONGEST_DELAY);
            let until = failures.last.checked_add(delay).unwrap_or(Timestamp::MAX);
            if until > self.now {
                plan.wake = plan.wake.into_iter().chain([until]).min();
                return;
            }
        }
        let (namespace, name) = name(pod);
        let text = format!(
            "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
        );
        plan.events.push(Event::warning("FailedDaemonPod", text));
        plan.failed.push(node.to_owned());
        plan.delete.push(Arc::clone(pod));
    }

    /// Where a node may have two pods for a while: at most one of each template, and the old one goes
    /// when the new one is available or it is not ready itself.
    fn replace(&self, running: &[&Arc<Pod>], plan: &mut Plan) {
        let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
            running.iter().copied().partition(|pod| self.is_updated(pod));
        let more = new.iter().skip(1).chain(old.iter().skip(1));
        plan.delete.extend(more.map(|pod| Arc::clone(pod)));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (pod::ready_since(old).is_none() || self.is_available(new))
        {
            plan.delete.push(Arc::clone(old));
        }
    }

    fn status(&self, known: DaemonSetStatus) -> DaemonSetStatus {
        let first = |node: &&&str| self.pods.get(**node).and_then(|pods| pods.first());
        let pods: Vec<_> = self.runs.iter().filter_map(|node| first(&node)).collect();
        let some = |number: usize| (number > 0).then(|| count(number));
        let misplaced = self.observed.nodes.iter().filter(|node| {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            !self.runs.contains(name) && self.pods.contains_key(name)
        });
        let available = pods.iter().filter(|pod| self.is_available(pod)).count();
        DaemonSetStatus {
            desired_number_scheduled: count(self.runs.len()),
            current_number_scheduled: count(pods.len()),
            number_misscheduled: count(misplaced.count()),
            number_ready: count(pods.iter().filter(|p| pod::ready_since(p).is_some()).count()),
            updated_number_scheduled: some(pods.iter().filter(|p| self.is_updated(p)).count()),
            number_available: some(available),
            number_unavailable: some(self.runs.len() - available),
            observed_generation: self.observed.set.metadata.generation,
            collision_count: known.collision_count,
            conditions: known.conditions,
        }
    }

    fn next_available(&self) -> Option<Timestamp> {
        let pods = self.observed.pods.iter().filter(|pod| pod::is_active(pod));
        let from = pods.filter_map(|pod| pod::available_from(pod, self.min_ready));
        from.filter(|from| *from > self.now).min()
    }
}

#[cfg(test)]
mod tests;
