//! Carries out the lifecycle of machines: the only way to a BMC and to a boot.
//!
//! The decisions are [`plan::machine`]'s, and a plan is carried out as [`plan::deed`] prescribes: the
//! status first and only over the one that was looked at; then each deed, if its fence still holds
//! against what the API and the BMC say at that moment and its Event is written; then the events.
//! A deed that fails is not repeated: the machine is looked at anew.
//!
//! What BMCs said is kept in memory only; after a start they are asked again before anything is done.

mod apply;
mod memory;
mod observe;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::{MACHINE, NAMESPACE};
use api::{GROUP, InstanceType, Machine, NodePool, Rack};
use k8s_openapi::api::core::v1::Node;
use kit::controller::{
    Adder, Alert, Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring,
};
use kube::ResourceExt;
use metal::redfish::Bmcs;
use plan::Rules;

use memory::Memory;
pub use observe::Observed;

/// How many machines are worked on at once. A BMC that does not answer holds one place for up to
/// 20 s, once a minute: this many places serve 750 silent BMCs, ten racks' worth and more, without
/// making the others wait.
const CONCURRENCY: usize = 256;

/// What a site sets.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How BMCs are reached; without it the controller rests.
    pub bmcs: Option<Bmcs>,
    /// Times and bounds.
    pub rules: Rules,
}

/// See the module.
pub struct Machines {
    bmcs: Option<Bmcs>,
    rules: Arc<Rules>,
    machines: Cache<Machine>,
    kinds: Cache<InstanceType>,
    pools: Cache<NodePool>,
    racks: Cache<Rack>,
    memory: Arc<Mutex<Memory>>,
    again: Adder<ObjectKey>,
}

impl Controller for Machines {
    type Key = ObjectKey;
    type Settings = Settings;
    type Observed = Observed;
    type Plan = apply::Plan;
    const NAME: &'static str = "machine";

    fn wire(settings: Settings, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Takes each machine through its life: power, boot, tests, repair, release")
            .concurrency(CONCURRENCY)
            .may(&["get", "patch"], GROUP, &["machines"])
            .may(&["patch"], GROUP, &["machines/status"])
            .may(&["get"], GROUP, &["incidents"])
            .may(&["get", "delete"], "", &["nodes"])
            // The credentials of BMCs, and no other secret of the cluster.
            .may_in(NAMESPACE, &["get"], "", &["secrets"])
            .records_events()
            .alert(UNTOLD);
        let memory = Arc::<Mutex<Memory>>::default();
        let again = wiring.adder();

        // What is remembered comes first: a key that a change brings is looked at with it.
        let (seen, adder) = (Arc::clone(&memory), again.clone());
        wiring.read(Watch::<Machine>::all()).on_change(move |change| {
            let freed = lock(&seen).see_machine(change);
            freed.into_iter().for_each(|name| adder.add(ObjectKey::cluster(name)));
        });
        let machines = wiring.own(Watch::<Machine>::all());

        let seen = Arc::clone(&memory);
        wiring.read(Watch::<Node>::all()).on_change(move |change| lock(&seen).see_node(change));
        wiring.watch(Watch::<Node>::all().when(joins_anew), |node: &Node| {
            node.labels().get(MACHINE).map(ObjectKey::cluster)
        });

        let of = Arc::clone(&memory);
        let kinds = wiring.watch(Watch::<InstanceType>::all().when_generation(), move |kind| {
            keys(lock(&of).of_kind(&kind.name_any()))
        });
        let of = Arc::clone(&memory);
        let pools = wiring.watch(Watch::<NodePool>::all().when_generation(), move |pool| {
            keys(lock(&of).of_pool(&pool.name_any()))
        });
        let of = Arc::clone(&memory);
        let racks = wiring.watch(Watch::<Rack>::all().when_generation(), move |rack| {
            keys(lock(&of).of_rack(&rack.name_any()))
        });
        let Settings { bmcs, rules } = settings;
        Self { bmcs, rules: Arc::new(rules), machines, kinds, pools, racks, memory, again }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        Ok(self.look(context.now(), key))
    }

    fn plan(observed: &Observed) -> apply::Plan {
        apply::Plan::of(observed)
    }

    async fn apply(
        &self,
        context: &Context,
        key: &ObjectKey,
        plan: apply::Plan,
    ) -> Result<Wake, Error> {
        self.carry_out(context, key, plan).await
    }
}

impl Machines {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keys(names: Vec<String>) -> impl Iterator<Item = ObjectKey> {
    names.into_iter().map(ObjectKey::cluster)
}

/// A node has another machine below it, or is another node: heartbeats do not count.
fn joins_anew(old: &Node, new: &Node) -> bool {
    let said = |node: &Node| (node.uid(), node.labels().get(MACHINE).cloned());
    said(old) != said(new)
}

/// The product's promise, watched from outside: what is done to hardware stands in an Event.
const UNTOLD: Alert = Alert {
    name: "SeatrialEffectUntold",
    expr: "seatrial_controller_effects_total{controller=\"machine\"} > \
           seatrial_controller_effects_told_total{controller=\"machine\"}",
    lasts: "0m",
    severity: "critical",
    summary: "a BMC was told something of which no Event was written; stop the controller and \
              report it",
    example: &[
        ("seatrial_controller_effects_total{controller=\"machine\"}", "0 1 2 3 4 4 4"),
        ("seatrial_controller_effects_told_total{controller=\"machine\"}", "0 1 2 3 3 3 3"),
    ],
    fires_at: "5m",
    labels: &[],
};
