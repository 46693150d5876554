//! What belongs to what, kept up with every change, so that a look at a pool costs what the pool is
//! large and not what the fleet is.
//!
//! The caches stay the only copy of the objects; here are names, counts and the little of incidents
//! and histories that every look needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{Incident, Machine, NodePool};
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::controller::{Change, ObjectKey};

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Index(Arc<Mutex<Names>>);

/// Sets of names under a name.
#[derive(Default)]
struct Sets(BTreeMap<String, BTreeSet<String>>);

#[derive(Default)]
struct Names {
    /// Machines by instance type.
    machines: Sets,
    /// Machines by the pool that they are assigned to.
    members: Sets,
    /// Pools by instance type.
    pools: Sets,
    /// Incidents by machine.
    incidents: Sets,
    /// Pods that hold their node, by node.
    holding: Sets,
    /// What each machine is and serves.
    known: BTreeMap<String, Known>,
    /// The machine below each node, as machines say it.
    below: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Known {
    kind: String,
    pool: Option<String>,
    brought_up: Option<Duration>,
}

impl Sets {
    fn of(&self, name: &str) -> impl Iterator<Item = &String> {
        self.0.get(name).into_iter().flatten()
    }

    /// Moves a member from one set to another.
    fn shift(&mut self, member: &str, from: Option<&str>, to: Option<&str>) {
        if from == to {
            return;
        }
        if let Some(from) = from
            && let Some(set) = self.0.get_mut(from)
        {
            set.remove(member);
            if set.is_empty() {
                self.0.remove(from);
            }
        }
        if let Some(to) = to {
            self.0.entry(to.to_owned()).or_default().insert(member.to_owned());
        }
    }
}

fn pool_of(machine: &Machine) -> Option<&str> {
    machine.spec.assignment.as_ref().map(|assigned| assigned.pool.as_str())
}

fn node_of(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node.as_ref().map(|node| node.name.as_str())
}

/// The node that a pod holds.
fn held(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref();
    node.filter(|_| plan::pod::holds(pod))
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn machine(&self, change: &Change<Machine>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let (name, mut names) = (change.key.name.as_str(), self.lock());
        fn kind_of(machine: Option<&Machine>) -> Option<&str> {
            machine.map(|machine| machine.spec.instance_type.as_str())
        }
        names.machines.shift(name, kind_of(old), kind_of(new));
        names.members.shift(name, old.and_then(pool_of), new.and_then(pool_of));
        let (was, is) = (old.and_then(node_of), new.and_then(node_of));
        if let Some(was) = was.filter(|was| Some(*was) != is)
            && names.below.get(was).is_some_and(|below| below == name)
        {
            names.below.remove(was);
        }
        if let Some(is) = is {
            names.below.insert(is.to_owned(), name.to_owned());
        }
        match new {
            None => drop(names.known.remove(name)),
            Some(machine) => {
                let known = Known {
                    kind: machine.spec.instance_type.clone(),
                    pool: pool_of(machine).map(str::to_owned),
                    brought_up: plan::pool::brought_up(machine),
                };
                names.known.insert(name.to_owned(), known);
            }
        }
    }

    pub(super) fn pool(&self, change: &Change<NodePool>) {
        fn kind_of(pool: Option<&NodePool>) -> Option<&str> {
            pool.map(|pool| pool.spec.instance_type.as_str())
        }
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        self.lock().pools.shift(&change.key.name, kind_of(old), kind_of(new));
    }

    pub(super) fn pod(&self, change: &Change<Pod>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let name = change.key.to_string();
        self.lock().holding.shift(&name, old.and_then(held), new.and_then(held));
    }

    pub(super) fn incident(&self, change: &Change<Incident>) {
        fn machine_of(incident: Option<&Incident>) -> Option<&str> {
            incident.map(|incident| incident.spec.machine.as_str())
        }
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        self.lock().incidents.shift(&change.key.name, machine_of(old), machine_of(new));
    }

    /// The pools that a machine matters to: those of its type, and the one it is assigned to.
    pub(super) fn pools_of(&self, kind: &str, pool: Option<&str>) -> BTreeSet<ObjectKey> {
        let names = self.lock();
        names.pools.of(kind).map(String::as_str).chain(pool).map(ObjectKey::cluster).collect()
    }

    /// The pools that a machine of this name matters to.
    pub(super) fn pools_of_machine(&self, name: &str) -> BTreeSet<ObjectKey> {
        let known = self.lock().known.get(name).cloned();
        known.map_or_else(BTreeSet::new, |known| self.pools_of(&known.kind, known.pool.as_deref()))
    }

    /// The pools that a node matters to.
    pub(super) fn pools_of_node(&self, node: &str) -> BTreeSet<ObjectKey> {
        let below = self.lock().below.get(node).cloned();
        below.map_or_else(BTreeSet::new, |machine| self.pools_of_machine(&machine))
    }

    /// The machines that a pool must look at: all of its type, and all that are assigned to it.
    pub(super) fn seats(&self, kind: &str, pool: &str) -> Vec<String> {
        let names = self.lock();
        let all: BTreeSet<&String> =
            names.machines.of(kind).chain(names.members.of(pool)).collect();
        all.into_iter().cloned().collect()
    }

    /// The machines that are assigned to a pool.
    pub(super) fn members(&self, pool: &str) -> Vec<String> {
        self.lock().members.of(pool).cloned().collect()
    }

    /// The incidents of a machine.
    pub(super) fn incidents(&self, machine: &str) -> Vec<ObjectKey> {
        self.lock().incidents.of(machine).map(ObjectKey::cluster).collect()
    }

    /// Whether work of a user holds a node.
    pub(super) fn is_held(&self, node: &str) -> bool {
        self.lock().holding.0.contains_key(node)
    }

    /// How long a machine took to come up the last time.
    pub(super) fn brought_up(&self, machine: &str) -> Option<Duration> {
        self.lock().known.get(machine)?.brought_up
    }
}

/// Whether a change of a machine matters to pools: reports of its agent and tries do not.
pub(super) fn machine_differs(old: &Machine, new: &Machine) -> bool {
    type Counts<'a> = (
        Option<&'a api::machine::Assignment>,
        (&'a str, Option<&'a str>, &'a api::machine::Place),
        Option<&'a str>,
        Option<(api::state::State, api::state::Role, Option<&'a str>, Option<&'a str>)>,
        (Option<&'a api::machine::NodeReference>, u32),
    );
    fn counts(machine: &Machine) -> Counts<'_> {
        let (spec, status) = (&machine.spec, machine.status.as_ref());
        (
            spec.assignment.as_ref(),
            (&spec.instance_type, spec.reservation.as_deref(), &spec.place),
            machine.hands_off(),
            status.map(|s| (s.state, s.role, s.pool.as_deref(), s.tenant.as_deref())),
            (
                status.and_then(|s| s.node.as_ref()),
                status.and_then(|s| s.lemon.as_ref()).map_or(0, |lemon| lemon.score),
            ),
        )
    }
    counts(old) != counts(new)
}

/// Whether a change of a node matters to pools: heartbeats do not.
pub(super) fn node_differs(old: &Node, new: &Node) -> bool {
    fn counts(node: &Node) -> (Option<&str>, bool, bool, Option<&str>, bool) {
        (
            node.metadata.uid.as_deref(),
            is_ready(node),
            is_cordoned(node),
            annotation(node, api::names::CORDONED_FOR),
            annotation(node, api::names::HANDS_OFF).is_some(),
        )
    }
    counts(old) != counts(new)
}

/// Whether a change of a pod matters to pools.
pub(super) fn pod_differs(old: &Pod, new: &Pod) -> bool {
    held(old) != held(new)
}

/// Whether a change of an incident matters to pools.
pub(super) fn incident_differs(old: &Incident, new: &Incident) -> bool {
    let stage = |incident: &Incident| incident.status.as_ref().map(|status| status.stage);
    stage(old) != stage(new)
}

pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

pub(super) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

pub(super) fn annotation<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}
