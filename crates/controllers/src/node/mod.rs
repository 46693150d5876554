//! Nodes that fall ill, or are asked for something, are taken out of service, repaired and brought
//! back: `plan::node`, carried out.
//!
//! A key is a machine, with the node on it. The whole way of a node is an `Incident`, which survives
//! any restart; nothing here talks to hardware, which is asked for in the machine's object. What is
//! taken out is accounted for in the one `Ledger`; without it nothing is taken out.
//!
//! Nothing is looked at in turns. A change of a machine, node, pod or incident brings its key; what is
//! returned to the ledger brings who waits for it, and a breaker whom it holds.

mod act;
mod apply;
mod line;
mod memory;
mod observe;
mod says;
pub(crate) mod seen;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{Breaker, Incident, Ledger, Machine, NodePool};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kit::controller::{
    Adder, Cache, Change, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring,
};
use plan::catalogue::Catalogue;
use plan::rules::Rules;

pub use apply::Plan;
use memory::{Concerned, Memory, concerned};
pub use observe::Observed;

/// What a site sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Times and bounds.
    pub rules: Rules,
    /// What faults mean.
    pub catalogue: Arc<Catalogue>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rules: Rules::default(), catalogue: Catalogue::built_in() }
    }
}

/// See the module.
pub struct Nodes {
    machines: Cache<Machine>,
    nodes: Cache<Node>,
    ledgers: Cache<Ledger>,
    breakers: Cache<Breaker>,
    pools: Cache<NodePool>,
    memory: Arc<Mutex<Memory>>,
    adder: Adder<ObjectKey>,
    catalogue: Arc<Catalogue>,
    rules: Arc<Rules>,
    /// Whether it was said that there is no ledger.
    no_ledger: AtomicBool,
    /// Who writes the ledger now: one at a time, since only one can win.
    ledger_turn: tokio::sync::Mutex<()>,
}

impl Controller for Nodes {
    type Key = ObjectKey;
    type Settings = Settings;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "node";

    fn wire(settings: Settings, wiring: &mut Wiring<ObjectKey>) -> Self {
        says::declare(wiring);
        let sources = Sources {
            memory: Arc::default(),
            adder: wiring.adder(),
            machines: wiring.read(Watch::all()),
            nodes: wiring.read(Watch::all()),
        };
        // An index is brought up to date before the key is added that is looked up in it.
        sources.follow_machines();
        sources.follow_nodes();
        sources.follow_pods(&wiring.read(Watch::all()));
        sources.follow_incidents(&wiring.read(Watch::all()));
        let (ledgers, breakers) = (wiring.read(Watch::all()), wiring.read(Watch::all()));
        let pools = wiring.read(Watch::all());
        sources.follow_budgets(&ledgers, &pools, &wiring.read(Watch::all()));
        sources.follow_breakers(&breakers);
        let Sources { memory, adder, machines, nodes } = sources;
        Self {
            machines,
            nodes,
            ledgers,
            breakers,
            pools,
            memory,
            adder,
            catalogue: settings.catalogue,
            rules: Arc::new(settings.rules),
            no_ledger: AtomicBool::new(false),
            ledger_turn: tokio::sync::Mutex::default(),
        }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let observed = self.look(context, key).await;
        if !matches!(observed, Ok(Some(_))) {
            self.pass_turn(&key.name, observed.is_ok());
        }
        observed
    }

    fn plan(observed: &Observed) -> Plan {
        Plan::of(observed)
    }

    async fn apply(&self, context: &Context, key: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let (denied, freed) = (plan.denied.clone(), plan.freed);
        let done = self.carry_out(context, key, plan).await;
        self.settle(&key.name, denied, freed, done.is_ok());
        self.show(context);
        done
    }
}

impl Nodes {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    fn call(&self, machines: impl IntoIterator<Item = String>) {
        machines.into_iter().for_each(|machine| self.adder.add(ObjectKey::cluster(machine)));
    }

    /// A key was looked at: who waits for the same budget goes on if this one does not wait for it.
    fn settle(&self, machine: &str, denied: Option<apply::Denial>, freed: u64, done: bool) {
        if !done {
            return self.pass_turn(machine, false);
        }
        let mut memory = self.memory();
        let waits = denied.map(|(denied, since)| (memory.denial(machine, &denied), since));
        // What was freed while it was looked at called only those who stood in line by then.
        let again = waits.is_some() && memory.lines.freed() != freed;
        let next = memory.lines.settle(machine, waits);
        drop(memory);
        self.call(next.into_iter().chain(again.then(|| machine.to_owned())));
    }

    /// A key could not be looked at, or is gone: the next in its line goes on.
    fn pass_turn(&self, machine: &str, gone: bool) {
        let mut memory = self.memory();
        let next =
            if gone { memory.lines.settle(machine, None) } else { memory.lines.after(machine) };
        drop(memory);
        self.call(next);
    }

    /// The figures of the fleet.
    fn show(&self, context: &Context) {
        let memory = self.memory();
        for stage in api::incident::Stage::ALL {
            context.count("incidents", says::stage(stage), memory.in_stage(stage));
        }
        context.count("nodes", "WaitingForBudget", memory.lines.len());
        drop(memory);
        let ledger = self.ledgers.get(&ObjectKey::cluster(api::names::LEDGER));
        let held = ledger.and_then(|ledger| Some(ledger.status.as_ref()?.grants.len()));
        context.count("grants", "Held", held.unwrap_or_default());
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the watches bring up to date.
struct Sources {
    memory: Arc<Mutex<Memory>>,
    adder: Adder<ObjectKey>,
    machines: Cache<Machine>,
    nodes: Cache<Node>,
}

/// Whether a change counts: an object that is new or gone always does.
fn matters<K>(change: &Change<K>, changed: impl Fn(&K, &K) -> bool) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => changed(old, new),
        _ => true,
    }
}

impl Sources {
    fn add(&self) -> impl Fn(Vec<String>) + Clone + Send + Sync + use<> {
        let adder = self.adder.clone();
        move |machines| {
            machines.into_iter().for_each(|machine| adder.add(ObjectKey::cluster(machine)));
        }
    }

    /// Counts a machine's node anew, from the caches.
    fn count(&self) -> impl Fn(&mut Memory, &str) -> Vec<String> + Clone + Send + Sync + use<> {
        let (machines, nodes) = (self.machines.clone(), self.nodes.clone());
        move |memory, machine| {
            let node =
                memory.node_of(machine).and_then(|n| nodes.get(&ObjectKey::cluster(n.clone())));
            let both = machines.get(&ObjectKey::cluster(machine)).zip(node);
            memory.count(machine, both.as_ref().map(|(machine, node)| (&**machine, &**node)))
        }
    }

    fn follow_machines(&self) {
        let (memory, add, count) = (Arc::clone(&self.memory), self.add(), self.count());
        self.machines.on_change(move |change| {
            if matters(change, machine_matters) {
                let mut called = count(&mut lock(&memory), &change.key.name);
                called.push(change.key.name.clone());
                add(called);
            }
        });
    }

    fn follow_nodes(&self) {
        let (memory, add, count) = (Arc::clone(&self.memory), self.add(), self.count());
        self.nodes.on_change(move |change| {
            if matters(change, seen::node_matters) {
                let mut memory = lock(&memory);
                let machines = memory.see_node(change);
                let freed = machines.iter().flat_map(|machine| count(&mut memory, machine));
                let mut called: Vec<String> = freed.collect();
                drop(memory);
                called.extend(machines);
                add(called);
            }
        });
    }

    fn follow_pods(&self, pods: &Cache<Pod>) {
        let (memory, add, nodes) = (Arc::clone(&self.memory), self.add(), self.nodes.clone());
        pods.on_change(move |change| {
            let here = lock(&memory).see_pod(change);
            if matters(change, seen::pod_matters) {
                let below = |node: String| match nodes.get(&ObjectKey::cluster(node.clone())) {
                    Some(node) => seen::machine_of(&node),
                    None => node,
                };
                add(here.into_iter().map(below).collect());
            }
        });
    }

    fn follow_incidents(&self, incidents: &Cache<Incident>) {
        let (memory, add) = (Arc::clone(&self.memory), self.add());
        incidents.on_change(move |change| {
            lock(&memory).see_incident(change);
            add(change
                .latest()
                .map(|incident| incident.spec.machine.clone())
                .into_iter()
                .collect());
        });
    }

    fn follow_budgets(
        &self,
        ledgers: &Cache<Ledger>,
        pools: &Cache<NodePool>,
        disruptions: &Cache<PodDisruptionBudget>,
    ) {
        let (memory, add, nodes) = (Arc::clone(&self.memory), self.add(), self.nodes.clone());
        ledgers.on_change(move |change| {
            let (given, freed) = lock(&memory).see_ledger(change);
            add(freed);
            // Whoever asked may never have been answered, and found the grant there when it asked anew.
            let given = given.into_iter().filter_map(|n| nodes.get(&ObjectKey::cluster(n)));
            add(given.map(|node| seen::machine_of(&node)).collect());
        });
        let (memory, add, machines) = (Arc::clone(&self.memory), self.add(), self.machines.clone());
        pools.on_change(move |change| {
            let wants = |pool: &NodePool| (pool.spec.labels.clone(), pool.spec.taints.clone());
            if matters(change, |old, new| wants(old) != wants(new)) {
                let serves = |machine: &&Arc<Machine>| {
                    let pool = machine.status.as_ref().and_then(|status| status.pool.as_ref());
                    pool == Some(&change.key.name)
                };
                let all = machines.list();
                add(all.iter().filter(serves).map(|m| m.name().to_owned()).collect());
            }
            if matters(change, |old, new| old.spec.max_unavailable != new.spec.max_unavailable) {
                let pool = plan::budget::Scope::Pool(change.key.name.clone());
                let freed = lock(&memory).lines.free(|scope| *scope == pool);
                add(freed);
            }
        });
        let (memory, add) = (Arc::clone(&self.memory), self.add());
        disruptions.on_change(move |change| {
            let allowed =
                |of: &PodDisruptionBudget| of.status.as_ref().map(|s| s.disruptions_allowed);
            if matters(change, |old, new| allowed(old) < allowed(new)) {
                let kept = lock(&memory).allow(&change.key.namespace);
                add(kept.into_iter().collect());
            }
        });
    }

    fn follow_breakers(&self, breakers: &Cache<Breaker>) {
        let (memory, add, nodes) = (Arc::clone(&self.memory), self.add(), self.nodes.clone());
        breakers.on_change(move |change| match concerned(change) {
            Concerned::Nobody => {}
            Concerned::Everybody => {
                let open = lock(&memory).open();
                add(open);
            }
            Concerned::Nodes(names) => {
                let nodes = names.into_iter().filter_map(|n| nodes.get(&ObjectKey::cluster(n)));
                add(nodes.map(|node| seen::machine_of(&node)).collect());
            }
        });
    }
}

/// Whether a change of a machine matters to its node.
fn machine_matters(old: &Machine, new: &Machine) -> bool {
    fn said(machine: &Machine) -> impl PartialEq + '_ {
        let status = machine.status.as_ref().map(|s| {
            let image = s.agent.as_ref().map(|agent| &agent.image);
            let begun = s.operation.is_some();
            let lives = (s.state, s.role, s.since, begun);
            (lives, (&s.node, &s.pool, &s.tenant), &s.answer, &s.tests, image)
        });
        (&machine.metadata.uid, &machine.spec, machine.hands_off(), status)
    }
    said(old) != said(new)
}
