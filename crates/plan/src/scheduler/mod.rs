//! Which node a pod gets: a simple scheduler for ordinary pods.
//!
//! Pods are looked at by priority, then by age, each after those before it have their nodes. A node
//! must let the pod in (cordon, taints, selector and required affinity, ports, resources of every
//! kind); of those the one is taken that has the fewest pods of the same owner and the most room.
//!
//! Nothing is preempted, and preferences for nodes are not weighed. A pod that asks for what is not
//! known here (affinity between pods, hard topology spread, claims on volumes or devices) is left
//! where it is and told so, rather than put where it must not be.

mod filter;
mod quantity;
mod request;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

pub(crate) use self::filter::{is_selected, tolerates};
use self::request::{Amounts, Port};
use crate::{claim, pod};

/// The name by which pods ask for this scheduler.
pub const NAME: &str = "default-scheduler";

/// All that the decision rests on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Every node.
    pub nodes: Vec<Arc<Node>>,
    /// Every pod; one that we just bound has its node.
    pub pods: Vec<Arc<Pod>>,
}

/// What becomes of a pod that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its node, or why there is none.
    pub node: Result<String, String>,
}

/// A node, and what is taken of it.
struct Room<'a> {
    node: &'a Node,
    name: &'a str,
    allocatable: Amounts,
    taken: Amounts,
    ports: BTreeSet<Port>,
    pods: i128,
    owners: BTreeMap<String, i128>,
}

/// Decides for every pod that waits.
pub fn plan(observed: &Observed) -> Vec<Verdict> {
    let mut rooms: Vec<Room<'_>> = observed.nodes.iter().map(|node| Room::new(node)).collect();
    let at: BTreeMap<&str, usize> = rooms.iter().enumerate().map(|(i, r)| (r.name, i)).collect();
    for pod in observed.pods.iter().filter(|pod| !pod::is_finished(pod)) {
        if let Some(room) = node_of(pod).and_then(|name| at.get(name)) {
            rooms[*room].take(pod);
        }
    }
    let mut waiting: Vec<_> = observed.pods.iter().filter(|pod| waits(pod)).collect();
    waiting.sort_by_key(|pod| {
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (Reverse(spec(pod).and_then(|spec| spec.priority).unwrap_or(0)), created, &meta.uid)
    });
    let verdict = |pod: &Arc<Pod>| Verdict { pod: Arc::clone(pod), node: place(pod, &mut rooms) };
    waiting.into_iter().map(verdict).collect()
}

/// It waits for a node, from us, and nothing holds it back.
pub fn waits(pod: &Pod) -> bool {
    let gated = |spec: &PodSpec| !spec.scheduling_gates.as_deref().unwrap_or_default().is_empty();
    pod::is_active(pod)
        && node_of(pod).is_none()
        && spec(pod).is_some_and(|spec| {
            spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME && !gated(spec)
        })
}

/// The node that it is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    spec(pod)?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

fn place(pod: &Pod, rooms: &mut [Room<'_>]) -> Result<String, String> {
    if rooms.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let all = rooms.len();
    let refuse = |reasons: BTreeMap<String, usize>| {
        let mut texts: Vec<_> =
            reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        Err(format!("0/{all} nodes are available: {}.", texts.join(", ")))
    };
    if let Some(unknown) = unknown(pod) {
        let reason = format!("node(s) not tried, since this scheduler does not know {unknown}");
        return refuse([(reason, all)].into());
    }
    let wants = request::of(pod);
    let ports: Vec<_> = request::ports(pod).into_iter().collect();
    let mut refused = BTreeMap::new();
    let mut best: Option<(i128, usize)> = None;
    for (i, room) in rooms.iter().enumerate() {
        let reasons = filter::reasons(pod, &wants, &ports, room);
        if reasons.is_empty() {
            let score = room.score(pod, &wants);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, i));
            }
        }
        for reason in reasons {
            *refused.entry(reason).or_default() += 1;
        }
    }
    let Some((_, best)) = best else { return refuse(refused) };
    rooms[best].take(pod);
    Ok(rooms[best].name.to_owned())
}

/// What a pod insists on and we cannot judge.
fn unknown(pod: &Pod) -> Option<&'static str> {
    let spec = spec(pod)?;
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let near =
        near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let far = far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref());
    if near.or(far).is_some_and(|terms| !terms.is_empty()) {
        return Some("affinity between pods");
    }
    let hard = spec.topology_spread_constraints.iter().flatten();
    if hard.into_iter().any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule") {
        return Some("topology spread constraints");
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Some("resource claims");
    }
    let mut volumes = spec.volumes.iter().flatten();
    let claims = volumes.any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some());
    claims.then_some("persistent volume claims")
}

impl<'a> Room<'a> {
    fn new(node: &'a Node) -> Self {
        let status = node.status.as_ref();
        Self {
            node,
            name: node.metadata.name.as_deref().unwrap_or_default(),
            allocatable: request::amounts(status.and_then(|status| status.allocatable.as_ref())),
            taken: Amounts::new(),
            ports: BTreeSet::new(),
            pods: 0,
            owners: BTreeMap::new(),
        }
    }

    fn take(&mut self, pod: &Pod) {
        request::add(&mut self.taken, &request::of(pod));
        self.ports.extend(request::ports(pod));
        self.pods += 1;
        if let Some(owner) = claim::controller(&pod.metadata) {
            *self.owners.entry(owner.uid.clone()).or_default() += 1;
        }
    }

    fn allocatable(&self, resource: &str) -> i128 {
        self.allocatable.get(resource).copied().unwrap_or(0)
    }

    fn taken(&self, resource: &str) -> i128 {
        self.taken.get(resource).copied().unwrap_or(0)
    }

    /// Fewer pods of the same owner count before more room; room is the mean of free CPU and memory.
    fn score(&self, pod: &Pod, wants: &Amounts) -> i128 {
        let owner = claim::controller(&pod.metadata);
        let peers = owner.and_then(|owner| self.owners.get(&owner.uid)).copied().unwrap_or(0);
        let free = |name: &str| {
            let all = self.allocatable(name);
            let taken = self.taken(name).saturating_add(wants.get(name).copied().unwrap_or(0));
            all.saturating_sub(taken).max(0).saturating_mul(100).checked_div(all).unwrap_or(0)
        };
        (free("cpu") + free("memory")) / 2 - peers * 1000
    }
}

#[cfg(test)]
mod tests;
