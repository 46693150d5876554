//! Pools: which machines serve whom, and why there are not as many as wanted.
//!
//! One look at a pool costs what the pool's type has machines. Looks that follow one another are put
//! together: the larger a pool, the longer it rests between two, so that the changes of a whole fleet
//! that comes up cost a bounded share of the time and not the square of its size.

mod apply;
mod index;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::node_pool::NodePoolStatus;
use api::{Incident, InstanceType, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{
    Alert, Cache, Context, Controller, Error, Measure, ObjectKey, Wake, Watch, Wiring,
};
use kube::core::PartialObjectMeta;
use plan::Rules;
use plan::pool::{Act, Observed as Pure, Outage, Seat};

use self::index::{Index, Known, NodeFacts};

/// How long a pool rests after a look, for each machine of its type: of 10,000, a second.
const REST: Duration = Duration::from_micros(100);

/// So many machines cost so little that no pool need rest.
const FEW: usize = 256;

/// See the module.
pub struct Pools {
    pools: Cache<NodePool>,
    kinds: Cache<InstanceType>,
    index: Index,
    /// Until when a pool rests.
    rests: Mutex<BTreeMap<String, Timestamp>>,
    missing: Measure,
    spares: Measure,
    rules: Rules,
}

/// A pool and what there is to know about it.
pub enum Observed {
    /// It was looked at a moment ago.
    Resting(Timestamp),
    /// It is gone, and these machines are still assigned to it.
    Gone(Timestamp, String, Vec<Arc<Machine>>),
    /// It is there.
    There(Box<Seen>),
}

/// A pool that is there, with its seats.
pub struct Seen {
    now: Timestamp,
    pool: Arc<NodePool>,
    kinds: Vec<InstanceType>,
    seats: Vec<Held>,
    mean_out: f64,
    bring_up: Duration,
}

/// A machine, and how it stands.
struct Held {
    machine: Arc<Machine>,
    in_service: bool,
    sick: bool,
    kept: bool,
    idle: bool,
}

/// What shall be done about a pool.
pub struct Plan {
    /// None if the pool is gone.
    pool: Option<Arc<NodePool>>,
    made: Timestamp,
    todo: plan::Plan<Act, NodePoolStatus>,
}

impl Controller for Pools {
    type Key = ObjectKey;
    type Settings = Rules;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "pool";

    fn wire(rules: Rules, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Gives machines to pools, and replaces the sick before they leave")
            .may(&["get"], api::GROUP, &["nodepools"])
            .may(&["patch"], api::GROUP, &["nodepools/status"])
            .may(&["get", "patch"], api::GROUP, &["machines"])
            .records_events();
        for alert in ALERTS {
            wiring.alert(alert);
        }
        let missing =
            wiring.measure("pool_missing_nodes", "Nodes that a pool lacks at its target", "pool");
        let spares = wiring.measure(
            "pool_missing_spares",
            "Spares that a pool lacks to keep its promise",
            "pool",
        );
        let index = Index::default();
        // The index hears of a change before the queue does.
        let names = index.clone();
        wiring.read(Watch::<NodePool>::all()).on_change(move |change| names.pool(change));
        let names = index.clone();
        wiring.read(Watch::<Machine>::all()).on_change(move |change| names.machine(change));
        let names = index.clone();
        wiring.read(Watch::<Node>::all()).on_change(move |change| names.node(change));
        let names = index.clone();
        wiring.read(Watch::<Incident>::all()).on_change(move |change| names.incident(change));
        let names = index.clone();
        wiring.read(Watch::<Pod>::all()).on_change(move |change| names.pod(change));

        let pools = wiring.own(Watch::<NodePool>::all().when_generation());
        let names = index.clone();
        let machines = Watch::<Machine>::all().when(index::machine_differs);
        wiring.watch(machines, move |machine: &Machine| {
            let assigned = machine.spec.assignment.as_ref().map(|assigned| assigned.pool.as_str());
            names.pools_of(&machine.spec.instance_type, assigned)
        });
        let names = index.clone();
        wiring.watch(Watch::<Node>::all().when(index::node_differs), move |node| {
            names.pools_of_node(node.metadata.name.as_deref().unwrap_or_default())
        });
        let names = index.clone();
        let incidents = Watch::<Incident>::all().when(index::incident_differs);
        wiring.watch(incidents, move |incident: &Incident| {
            names.pools_of_machine(&incident.spec.machine)
        });
        let names = index.clone();
        wiring.watch(Watch::<Pod>::all().when(index::pod_differs), move |pod: &Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            names.pools_of_node(node.unwrap_or_default())
        });
        // A new type may be the one that a pool asks for in vain.
        let all = pools.clone();
        let kinds = wiring.watch(Watch::<InstanceType>::all().when_generation(), move |_| {
            all.list().iter().map(|pool| ObjectKey::of(&pool.metadata)).collect::<Vec<_>>()
        });
        let rests = Mutex::default();
        Self { pools, kinds, index, rests, missing, spares, rules }
    }

    async fn observe(&self, cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let name = key.name.as_str();
        let Some(pool) = self.pools.get(key) else { return self.gone(cx, name).await };
        let now = cx.now();
        if let Some(until) = self.rests().get(name).copied().filter(|until| *until > now) {
            return Ok(Some(Observed::Resting(until)));
        }
        let mut outages: Vec<Outage> = Vec::new();
        let mut took: Vec<Duration> = Vec::new();
        let mut seats = Vec::new();
        self.index.each_seat(&pool.spec.instance_type, name, |known| {
            took.extend(known.brought_up);
            seats.push(seat(known, &mut outages));
        });
        self.rest(name, now, seats.len());
        let kinds: Vec<InstanceType> =
            self.kinds.list().iter().map(|kind| InstanceType::clone(kind)).collect();
        let kind = kinds
            .iter()
            .find(|kind| kind.metadata.name.as_deref() == Some(pool.spec.instance_type.as_str()));
        let acceptance = kind.map(|kind| kind.spec.acceptance).unwrap_or_default();
        let mean_out = plan::pool::mean_out(seats.len(), &outages, now);
        let bring_up = plan::pool::bring_up(acceptance, &mut took);
        Ok(Some(Observed::There(Box::new(Seen { now, pool, kinds, seats, mean_out, bring_up }))))
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Resting(until) => {
                let todo = plan::Plan { wake: Some(*until), ..plan::Plan::default() };
                Plan { pool: None, made: *until, todo }
            }
            Observed::Gone(now, name, members) => {
                let machines: Vec<&Machine> = members.iter().map(|machine| &**machine).collect();
                Plan { pool: None, made: *now, todo: plan::pool::disband(name, &machines) }
            }
            Observed::There(seen) => {
                let seats: Vec<Seat<'_>> = seen.seats.iter().map(Held::seat).collect();
                let todo = plan::pool::plan(&Pure {
                    now: seen.now,
                    pool: &seen.pool,
                    kinds: &seen.kinds,
                    seats: &seats,
                    mean_out: seen.mean_out,
                    bring_up: seen.bring_up,
                });
                Plan { pool: Some(Arc::clone(&seen.pool)), made: seen.now, todo }
            }
        }
    }

    async fn apply(&self, cx: &Context, key: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        self.carry_out(cx, key, plan).await
    }
}

impl Held {
    fn seat(&self) -> Seat<'_> {
        Seat {
            machine: &self.machine,
            in_service: self.in_service,
            sick: self.sick,
            kept: self.kept,
            idle: self.idle,
        }
    }
}

impl Pools {
    fn rests(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the pool rests, if looks at it cost much.
    fn rest(&self, pool: &str, now: Timestamp, machines: usize) {
        if let Some(rest) = rest(machines) {
            let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
            self.rests().insert(pool.to_owned(), until);
        }
    }

    /// A pool that the cache does not have. One that cannot be read is not gone, so the API is asked
    /// before anything is taken from it.
    async fn gone(&self, cx: &Context, name: &str) -> Result<Option<Observed>, Error> {
        let meta = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        self.rests().remove(name);
        let members = self.index.members(name);
        if !members.is_empty() && cx.get::<PartialObjectMeta<NodePool>>(&(), &meta).await?.is_some()
        {
            return Ok(None);
        }
        self.missing.forget(name);
        self.spares.forget(name);
        let gone = Observed::Gone(cx.now(), name.to_owned(), members);
        Ok(Some(gone))
    }
}

/// How a machine stands; its outages are added to the others.
fn seat(known: &Known, outages: &mut Vec<Outage>) -> Held {
    let Known { machine, node, held, incidents, .. } = known;
    let is = |what: fn(&NodeFacts) -> bool| node.as_ref().is_some_and(what);
    let (ready, cordoned) = (is(|node| node.ready), is(|node| node.cordoned));
    let mut sick = false;
    for incident in incidents {
        sick |= plan::pool::takes_out(incident, cordoned);
        outages.extend(plan::pool::outage(incident, machine));
    }
    let hands_off = is(|node| node.hands_off) || machine.hands_off().is_some();
    sick |= hands_off && node.is_some() && !ready;
    Held {
        in_service: ready && !cordoned && !sick,
        sick,
        kept: hands_off || (cordoned && !is(|node| node.cordoned_by_us)),
        idle: !held,
        machine: Arc::clone(machine),
    }
}

/// How long a pool rests after a look at so many machines; not at all if they are few.
fn rest(machines: usize) -> Option<Duration> {
    let count = u32::try_from(machines).unwrap_or(u32::MAX);
    (machines > FEW).then(|| REST.saturating_mul(count))
}

const ALERTS: [Alert; 2] = [
    Alert {
        name: "SeatrialPoolBelowTarget",
        expr: "max by (pool) (seatrial_pool_missing_nodes) > 0",
        lasts: "30m",
        severity: "warning",
        summary: "a pool has had fewer nodes than it wants for 30 minutes; its status says why: \
                  kubectl get nodepools",
        example: &[("seatrial_pool_missing_nodes{pool=\"h100\"}", "0x5 3x60")],
        fires_at: "40m",
        labels: &[("pool", "h100")],
    },
    Alert {
        name: "SeatrialPoolShortOfSpares",
        expr: "max by (pool) (seatrial_pool_missing_spares) > 0",
        lasts: "6h",
        severity: "warning",
        summary: "a pool has had too few spares to keep its promise for 6 hours; add machines of its \
                  type, or bring those in Triage, Debug and RMA back: kubectl get machines",
        example: &[("seatrial_pool_missing_spares{pool=\"h100\"}", "2x480")],
        fires_at: "7h",
        labels: &[("pool", "h100")],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_pools_rest_and_no_longer_than_a_swap_can_wait() {
        assert_eq!(rest(36), None);
        assert_eq!(rest(400), Some(Duration::from_millis(40)));
        assert_eq!(rest(10_000), Some(Duration::from_secs(1)));
    }
}
