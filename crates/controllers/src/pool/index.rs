//! What belongs to what, kept up with every change, so that a look at a pool costs what the pool is
//! large and not what the fleet is, and finds each machine with all that counts about it in one place.
//!
//! Objects are shared with the caches and not copied; here are names, counts and the little of nodes,
//! incidents and histories that every look needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::machine::NodeReference;
use api::names::{CORDONED_FOR, HANDS_OFF};
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
    /// Machines by instance type and name.
    machines: BTreeMap<String, BTreeMap<String, Known>>,
    /// The instance type of each machine.
    kinds: BTreeMap<String, String>,
    /// Machines by the pool that they are assigned to.
    members: Sets,
    /// Pools by instance type.
    pools: Sets,
    /// Incidents by machine and name.
    incidents: BTreeMap<String, BTreeMap<String, Arc<Incident>>>,
    /// Pods that hold their node, by node.
    holding: Sets,
    /// How each node stands.
    nodes: BTreeMap<String, NodeFacts>,
    /// The machine below each node, as machines say it.
    below: BTreeMap<String, String>,
}

/// A machine with all that a pool wants to know of it.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) machine: Arc<Machine>,
    /// How long it took to come up the last time.
    pub(super) brought_up: Option<Duration>,
    /// Its node, if that is there.
    pub(super) node: Option<NodeFacts>,
    /// Whether work of a user holds its node.
    pub(super) held: bool,
    pub(super) incidents: Vec<Arc<Incident>>,
}

/// How a node stands, as far as it matters to pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeFacts {
    uid: Option<String>,
    pub(super) ready: bool,
    pub(super) cordoned: bool,
    /// The cordon is our own.
    pub(super) cordoned_by_us: bool,
    pub(super) hands_off: bool,
}

impl NodeFacts {
    fn of(node: &Node) -> Self {
        Self {
            uid: node.metadata.uid.clone(),
            ready: is_ready(node),
            cordoned: is_cordoned(node),
            cordoned_by_us: annotation(node, CORDONED_FOR).is_some(),
            hands_off: annotation(node, HANDS_OFF).is_some(),
        }
    }
}

impl Names {
    fn known(&mut self, machine: &str) -> Option<&mut Known> {
        self.machines.get_mut(self.kinds.get(machine)?)?.get_mut(machine)
    }

    fn incidents_of(&self, machine: &str) -> Vec<Arc<Incident>> {
        self.incidents.get(machine).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Looks anew at what is known of the node above a machine.
    fn see_node(&mut self, node: &str) {
        let Some(machine) = self.below.get(node).cloned() else { return };
        let (standing, held) = (self.nodes.get(node).cloned(), self.holding.0.contains_key(node));
        let Some(known) = self.known(&machine) else { return };
        let uid = reference(&known.machine).map(|reference| reference.uid.clone());
        known.node = standing.filter(|standing| standing.uid == uid);
        known.held = held;
    }
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

fn reference(machine: &Machine) -> Option<&NodeReference> {
    machine.status.as_ref()?.node.as_ref()
}

fn node_of(machine: &Machine) -> Option<&str> {
    reference(machine).map(|node| node.name.as_str())
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
        let kind = change.new.as_ref().map(|machine| machine.spec.instance_type.clone());
        if let Some(was) = names.kinds.get(name).filter(|was| Some(*was) != kind.as_ref()).cloned()
        {
            names.kinds.remove(name);
            names.machines.get_mut(&was).and_then(|of_kind| of_kind.remove(name));
        }
        let (Some(machine), Some(kind)) = (&change.new, kind) else { return };
        let incidents = names.incidents_of(name);
        let known = Known {
            machine: Arc::clone(machine),
            brought_up: plan::pool::brought_up(machine),
            node: None,
            held: false,
            incidents,
        };
        names.kinds.insert(name.to_owned(), kind.clone());
        names.machines.entry(kind).or_default().insert(name.to_owned(), known);
        if let Some(node) = node_of(machine) {
            names.see_node(node);
        }
    }

    pub(super) fn node(&self, change: &Change<Node>) {
        let (name, mut names) = (change.key.name.as_str(), self.lock());
        match change.new.as_deref() {
            None => drop(names.nodes.remove(name)),
            Some(node) => {
                let standing = NodeFacts::of(node);
                if names.nodes.get(name) == Some(&standing) {
                    return;
                }
                names.nodes.insert(name.to_owned(), standing);
            }
        }
        names.see_node(name);
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
        let (name, was, is) = (change.key.to_string(), old.and_then(held), new.and_then(held));
        if was == is {
            return;
        }
        let mut names = self.lock();
        names.holding.shift(&name, was, is);
        for node in was.into_iter().chain(is) {
            names.see_node(node);
        }
    }

    pub(super) fn incident(&self, change: &Change<Incident>) {
        // The machine of an incident never changes.
        let Some(any) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let (machine, name) = (any.spec.machine.as_str(), &change.key.name);
        let mut names = self.lock();
        let of_machine = names.incidents.entry(machine.to_owned()).or_default();
        match &change.new {
            Some(incident) => drop(of_machine.insert(name.clone(), Arc::clone(incident))),
            None => drop(of_machine.remove(name)),
        }
        if of_machine.is_empty() {
            names.incidents.remove(machine);
        }
        let all = names.incidents_of(machine);
        if let Some(known) = names.known(machine) {
            known.incidents = all;
        }
    }

    /// The pools that a machine matters to: those of its type, and the one it is assigned to.
    pub(super) fn pools_of(&self, kind: &str, pool: Option<&str>) -> BTreeSet<ObjectKey> {
        let names = self.lock();
        names.pools.of(kind).map(String::as_str).chain(pool).map(ObjectKey::cluster).collect()
    }

    /// The pools that a machine of this name matters to.
    pub(super) fn pools_of_machine(&self, name: &str) -> BTreeSet<ObjectKey> {
        let known = self.lock().known(name).map(|known| Arc::clone(&known.machine));
        known.map_or_else(BTreeSet::new, |machine| {
            self.pools_of(&machine.spec.instance_type, pool_of(&machine))
        })
    }

    /// The pools that a node matters to.
    pub(super) fn pools_of_node(&self, node: &str) -> BTreeSet<ObjectKey> {
        let below = self.lock().below.get(node).cloned();
        below.map_or_else(BTreeSet::new, |machine| self.pools_of_machine(&machine))
    }

    /// Looks at the machines that matter to a pool: all of its type by their names, then those of
    /// other types that are assigned to it.
    pub(super) fn each_seat(&self, kind: &str, pool: &str, mut look: impl FnMut(&Known)) {
        let names = self.lock();
        names.machines.get(kind).into_iter().flat_map(BTreeMap::values).for_each(&mut look);
        for member in names.members.of(pool) {
            let other = names.kinds.get(member).filter(|its| its.as_str() != kind);
            if let Some(known) = other.and_then(|its| names.machines.get(its)?.get(member)) {
                look(known);
            }
        }
    }

    /// The machines that are assigned to a pool.
    pub(super) fn members(&self, pool: &str) -> Vec<Arc<Machine>> {
        let mut names = self.lock();
        let members: Vec<String> = names.members.of(pool).cloned().collect();
        let machine = |name: &String| names.known(name).map(|known| Arc::clone(&known.machine));
        members.iter().filter_map(machine).collect()
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
    NodeFacts::of(old) != NodeFacts::of(new)
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

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

fn annotation<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}
