//! What the node controller keeps beside the caches: indexes and counts over the whole fleet, brought
//! up to date by each change, so that no look at a node reads all of them.
//!
//! Everything here can be made anew from the caches; nothing here is a fact that a restart may lose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::incident::{IncidentStatus, Stage};
use api::ledger::Grant;
use api::{Breaker, Incident, Ledger, Machine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::controller::{Change, ObjectKey};
use plan::budget::{Census, Counted, Scope};
use plan::node::Ready;

use super::line::{Denial, Lines};
use super::seen;

/// The incidents of a machine.
#[derive(Debug, Default)]
struct Story {
    open: BTreeMap<String, Arc<Incident>>,
    closed: BTreeMap<String, Arc<Incident>>,
    /// The closed ones, as plans read them.
    past: Arc<Vec<Incident>>,
}

/// A pod, and since when it is known to end.
type Known = (Arc<Pod>, Option<Timestamp>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory {
    census: Arc<Census>,
    counted: BTreeMap<String, Counted>,
    /// The node of each machine.
    nodes: BTreeMap<String, String>,
    /// Pods by node.
    pods: BTreeMap<String, BTreeMap<ObjectKey, Known>>,
    stories: BTreeMap<String, Story>,
    stages: BTreeMap<Stage, usize>,
    pub(super) lines: Lines,
    /// Machines with pods that a disruption budget keeps, by namespace.
    kept: BTreeMap<String, BTreeSet<String>>,
    allowances: u64,
}

fn is_open(incident: &Incident) -> bool {
    incident.status.as_ref().is_none_or(|status| status.closed.is_none())
}

fn stage(incident: &Incident) -> Stage {
    incident.status.as_ref().map(|status: &IncidentStatus| status.stage).unwrap_or_default()
}

fn name<K: kube::Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

impl Memory {
    pub(super) fn census(&self) -> Arc<Census> {
        Arc::clone(&self.census)
    }

    /// Whether a machine's node takes no work.
    pub(super) fn is_out(&self, machine: &str) -> bool {
        self.counted.get(machine).is_some_and(|counted| counted.out)
    }

    pub(super) fn node_of(&self, machine: &str) -> Option<&String> {
        self.nodes.get(machine)
    }

    /// A node came, changed or went: the machines that it is and was on.
    pub(super) fn see_node(&mut self, change: &Change<Node>) -> BTreeSet<String> {
        let was = change.old.as_deref().map(seen::machine_of);
        let is = change.new.as_deref().map(seen::machine_of);
        let node = &change.key.name;
        if let Some(was) = was.as_ref().filter(|was| Some(*was) != is.as_ref())
            && self.nodes.get(was) == Some(node)
        {
            self.nodes.remove(was);
        }
        if let Some(is) = &is {
            self.nodes.insert(is.clone(), node.clone());
        }
        was.into_iter().chain(is).collect()
    }

    /// Counts a machine's node anew; says who may now have a budget.
    pub(super) fn count(&mut self, machine: &str, both: Option<(&Machine, &Node)>) -> Vec<String> {
        let fresh = both.map(|(machine, node)| {
            let status = machine.status.as_ref();
            Counted {
                node: name(node).to_owned(),
                pool: status.and_then(|status| status.pool.clone()),
                rack: machine.spec.place.rack.clone(),
                tenant: status.and_then(|status| status.tenant.clone()),
                out: seen::is_unschedulable(node) || seen::readiness(node) != Ready::Yes,
            }
        });
        let old = self.counted.get(machine).cloned();
        if old == fresh {
            return Vec::new();
        }
        let census = Arc::make_mut(&mut self.census);
        if let Some(old) = &old {
            census.remove(old);
        }
        match &fresh {
            Some(fresh) => {
                census.add(fresh);
                self.counted.insert(machine.to_owned(), fresh.clone());
            }
            None => drop(self.counted.remove(machine)),
        }
        // One more that is out frees nothing.
        let lost =
            |(old, fresh): (&Counted, &Counted)| Counted { out: true, ..old.clone() } == *fresh;
        if old.as_ref().zip(fresh.as_ref()).is_some_and(lost) {
            return Vec::new();
        }
        let scopes: BTreeSet<Scope> = old.iter().chain(&fresh).flat_map(Counted::scopes).collect();
        self.lines.free(|scope| scopes.contains(scope))
    }

    /// The ledger changed; says which nodes were given a grant, and which machines may now have one.
    pub(super) fn see_ledger(&mut self, change: &Change<Ledger>) -> (Vec<String>, Vec<String>) {
        let grants = |ledger: &Option<Arc<Ledger>>| {
            let status = ledger.as_ref().and_then(|l| l.status.clone());
            status.unwrap_or_default().grants
        };
        let (old, new) = (grants(&change.old), grants(&change.new));
        let known: BTreeSet<_> = old.iter().map(|g| (&g.node_uid, &g.incident)).collect();
        let given = new.iter().filter(|g| !known.contains(&(&g.node_uid, &g.incident)));
        (given.map(|grant| grant.node.clone()).collect(), self.free(change, &old, &new))
    }

    /// The machines that may now have a budget.
    fn free(&mut self, change: &Change<Ledger>, old: &[Grant], new: &[Grant]) -> Vec<String> {
        let spec = |ledger: &Option<Arc<Ledger>>| ledger.as_ref().map(|l| l.spec.clone());
        if spec(&change.old) != spec(&change.new) {
            return self.lines.free(|_| true);
        }
        let held: BTreeSet<&String> = new.iter().map(|grant| &grant.node_uid).collect();
        let mut freed = BTreeSet::from([Scope::Fleet]);
        let returned: Vec<_> = old.iter().filter(|grant| !held.contains(&grant.node_uid)).collect();
        if returned.is_empty() {
            return Vec::new();
        }
        for grant in returned {
            freed.extend(grant.pool.clone().map(Scope::Pool));
            freed.extend(grant.tenant.clone().map(Scope::Tenant));
            freed.insert(Scope::Rack(grant.rack.clone()));
        }
        self.lines.free(|scope| freed.contains(scope))
    }

    /// An incident came, changed or went.
    pub(super) fn see_incident(&mut self, change: &Change<Incident>) {
        if let Some(old) = &change.old {
            *self.stages.entry(stage(old)).or_default() -= 1;
        }
        if let Some(new) = &change.new {
            *self.stages.entry(stage(new)).or_default() += 1;
        }
        let Some(latest) = change.latest() else { return };
        let story = self.stories.entry(latest.spec.machine.clone()).or_default();
        let incident = &change.key.name;
        story.open.remove(incident);
        let mut rewrite = story.closed.remove(incident).is_some();
        if let Some(new) = &change.new {
            if is_open(new) {
                story.open.insert(incident.clone(), Arc::clone(new));
            } else {
                rewrite = true;
                story.closed.insert(incident.clone(), Arc::clone(new));
            }
        }
        if rewrite {
            story.past = Arc::new(story.closed.values().map(|one| without_tale(one)).collect());
        }
        if story.open.is_empty() && story.closed.is_empty() {
            self.stories.remove(&latest.spec.machine);
        }
    }

    /// The open incident of a machine, the oldest if there are several, and those that are over.
    pub(super) fn story(&self, machine: &str) -> (Option<Arc<Incident>>, Arc<Vec<Incident>>) {
        let Some(story) = self.stories.get(machine) else { return Default::default() };
        let open = story.open.values().min_by_key(|incident| incident.spec.opened);
        (open.cloned(), Arc::clone(&story.past))
    }

    /// Every machine with an open incident.
    pub(super) fn open(&self) -> Vec<String> {
        let open = self.stories.iter().filter(|(_, story)| !story.open.is_empty());
        open.map(|(machine, _)| machine.clone()).collect()
    }

    /// How many incidents are in a stage.
    pub(super) fn in_stage(&self, stage: Stage) -> usize {
        self.stages.get(&stage).copied().unwrap_or_default()
    }

    /// A pod came, changed or went: the nodes that it is and was on.
    pub(super) fn see_pod(&mut self, change: &Change<Pod>) -> BTreeSet<String> {
        let was = change.old.as_deref().and_then(seen::node_of).map(str::to_owned);
        let is = change.new.as_deref().and_then(seen::node_of).map(str::to_owned);
        let mut ending = None;
        if let Some(node) = &was
            && let Some(pods) = self.pods.get_mut(node)
        {
            let uid = |pod: &Pod| pod.metadata.uid.clone();
            let known = pods.remove(&change.key);
            // Another pod of that name begins anew.
            let same = known.filter(|(pod, _)| change.new.as_deref().map(uid) == Some(uid(pod)));
            ending = same.and_then(|(_, ending)| ending);
            if pods.is_empty() {
                self.pods.remove(node);
            }
        }
        if let (Some(node), Some(new)) = (&is, &change.new) {
            let pods = self.pods.entry(node.clone()).or_default();
            pods.insert(change.key.clone(), (Arc::clone(new), ending));
        }
        was.into_iter().chain(is).collect()
    }

    /// The pods of a node; one that is found to be ending has been so since now.
    pub(super) fn pods(&mut self, node: &str, now: Timestamp) -> Vec<plan::node::PodSeen> {
        let Some(pods) = self.pods.get_mut(node) else { return Vec::new() };
        let read = |(pod, ending): &mut Known| {
            if pod.metadata.deletion_timestamp.is_some() && ending.is_none() {
                *ending = Some(now);
            }
            seen::pod(pod, *ending)
        };
        pods.values_mut().map(read).collect()
    }

    /// Changes with every disruption budget that allows more.
    pub(super) fn allowances(&self) -> u64 {
        self.allowances
    }

    /// A disruption budget of the namespace keeps a pod of this machine.
    pub(super) fn keep(&mut self, namespace: &str, machine: &str) {
        self.kept.entry(namespace.to_owned()).or_default().insert(machine.to_owned());
    }

    /// A disruption budget of the namespace allows more: whose pods it may have kept.
    pub(super) fn allow(&mut self, namespace: &str) -> BTreeSet<String> {
        self.allowances += 1;
        self.kept.remove(namespace).unwrap_or_default()
    }

    /// The line in which a key stands that was denied by a budget.
    pub(super) fn denial(
        &self,
        machine: &str,
        (kind, denied): &(api::ledger::Kind, plan::budget::Denied),
    ) -> Denial {
        let disrupts = *kind == api::ledger::Kind::Disruption;
        let out = disrupts && self.is_out(machine);
        Denial { scope: denied.scope.clone(), kind: *kind, out }
    }
}

/// An incident without its story, which no plan reads once it is over.
fn without_tale(incident: &Incident) -> Incident {
    let mut incident = incident.clone();
    if let Some(status) = &mut incident.status {
        status.timeline = Vec::new();
    }
    incident
}

/// Whose repairs a change of a breaker concerns.
pub(super) enum Concerned {
    /// Nobody's.
    Nobody,
    /// Those of these nodes.
    Nodes(Vec<String>),
    /// All.
    Everybody,
}

/// Who is to be looked at after a breaker changed: everybody when it opened or was acknowledged, and
/// else who newly belongs to its wave.
pub(super) fn concerned(change: &Change<Breaker>) -> Concerned {
    let is_open = |breaker: &Option<Arc<Breaker>>| breaker.as_ref().is_some_and(|b| b.is_open());
    if is_open(&change.old) != is_open(&change.new) {
        return Concerned::Everybody;
    }
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return Concerned::Nobody };
    let nodes = |breaker: &Breaker| {
        breaker.status.as_ref().map(|status| status.nodes.clone()).unwrap_or_default()
    };
    let known: BTreeSet<String> = nodes(old).into_iter().collect();
    let joined = nodes(new).into_iter().filter(|node| !known.contains(node)).collect();
    if is_open(&change.new) { Concerned::Nodes(joined) } else { Concerned::Nobody }
}
