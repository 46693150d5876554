//! What there is to know about a node: from caches, and of its conditions' and cordon's writers from
//! the API, where they count.

use std::sync::Arc;

use api::incident::Stage;
use api::ledger::{LedgerSpec, Limit};
use api::{Breaker, Incident, Ledger, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::controller::{Context, Error, ObjectKey};
use plan::budget::Census;
use plan::catalogue::{Catalogue, Condition};
use plan::node::{NodeSeen, PodSeen};
use plan::rules::Rules;

use super::{Nodes, seen};

/// Everything that a decision about a node rests on, kept for as long as it takes.
pub struct Observed {
    pub(super) now: Timestamp,
    pub(super) node: Option<NodeSeen>,
    pub(super) machine: Arc<Machine>,
    pub(super) incident: Option<Arc<Incident>>,
    past: Arc<Vec<Incident>>,
    pods: Vec<PodSeen>,
    ledger: Arc<Ledger>,
    census: Arc<Census>,
    pool: Option<Arc<NodePool>>,
    breakers: Vec<Breaker>,
    catalogue: Arc<Catalogue>,
    rules: Arc<Rules>,
    /// What had been freed of budgets before anything was read.
    pub(super) freed: u64,
}

impl Observed {
    /// The same, as plans read it.
    pub(super) fn view(&self) -> plan::node::Observed<'_> {
        plan::node::Observed {
            now: self.now,
            node: self.node.as_ref(),
            machine: &self.machine,
            incident: self.incident.as_deref(),
            past: &self.past,
            pods: &self.pods,
            ledger: &self.ledger,
            census: &self.census,
            pool: self.pool.as_deref(),
            breakers: &self.breakers,
            catalogue: &self.catalogue,
            rules: &self.rules,
        }
    }
}

/// A ledger that grants nothing: what stands in for one that is not there.
fn closed_ledger() -> Ledger {
    let nothing = Limit { nodes: Some(0), percent: None };
    Ledger::new(api::names::LEDGER, LedgerSpec { fleet: nothing, ..LedgerSpec::default() })
}

impl Nodes {
    pub(super) async fn look(
        &self,
        context: &Context,
        key: &ObjectKey,
    ) -> Result<Option<Observed>, Error> {
        let (freed, (incident, past)) = {
            let memory = self.memory();
            (memory.lines.freed(), memory.story(&key.name))
        };
        let ledger = self.ledger(context);
        let (machine, node) = match self.machines.get(key) {
            Some(machine) => {
                let node = self.node(context, &machine, incident.as_deref()).await?;
                (machine, node)
            }
            // Of a machine that is gone the incident is closed and the grant given back.
            None if incident.is_some() => {
                (Arc::new(Machine::new(&key.name, Default::default())), None)
            }
            None => return Ok(None),
        };
        let now = context.now();
        let (pods, census) = {
            let mut memory = self.memory();
            let pods = node.as_ref().map(|node| memory.pods(&node.name, now)).unwrap_or_default();
            let stage =
                incident.as_ref().map(|i| i.status.as_ref().map_or(Stage::Open, |s| s.stage));
            // Who does not ask for a budget does not count.
            let census = if stage == Some(Stage::Open) { memory.census() } else { Arc::default() };
            (pods, census)
        };
        let pool = machine.status.as_ref().and_then(|status| status.pool.clone());
        let breakers = if incident.is_some() { self.breakers.list() } else { Vec::new() };
        Ok(Some(Observed {
            now,
            node,
            pool: pool.and_then(|pool| self.pools.get(&ObjectKey::cluster(pool))),
            machine,
            incident,
            past,
            pods,
            ledger,
            census,
            breakers: breakers.iter().filter(|b| b.is_open()).map(|b| Breaker::clone(b)).collect(),
            catalogue: Arc::clone(&self.catalogue),
            rules: Arc::clone(&self.rules),
            freed,
        }))
    }

    /// The limit that a pool sets itself.
    pub(super) fn pool_limit(&self, pool: &str) -> Option<u32> {
        self.pools.get(&ObjectKey::cluster(pool))?.spec.max_unavailable
    }

    /// The ledger; where there is none, nothing is granted, and that is said once.
    fn ledger(&self, context: &Context) -> Arc<Ledger> {
        let found = self.ledgers.get(&ObjectKey::cluster(api::names::LEDGER));
        let missing = found.is_none();
        if self.no_ledger.swap(missing, std::sync::atomic::Ordering::Relaxed) != missing {
            context.count("ledger", "Missing", usize::from(missing));
            if missing {
                tracing::warn!(
                    "there is no ledger {:?}: no node is taken out of service and none repaired",
                    api::names::LEDGER
                );
            }
        }
        found.unwrap_or_else(|| Arc::new(closed_ledger()))
    }

    async fn node(
        &self,
        context: &Context,
        machine: &Machine,
        incident: Option<&Incident>,
    ) -> Result<Option<NodeSeen>, Error> {
        let name = self.memory().node_of(machine.name()).cloned();
        let cached = name.and_then(|name| self.nodes.get(&ObjectKey::cluster(name)));
        let Some(cached) = cached else { return Ok(None) };
        let seen = seen::node(&cached, machine, context.manager());
        if !writers_count(&seen, incident.is_some()) {
            return Ok(Some(seen));
        }
        let fresh: Option<Node> = context.get(&(), &cached.metadata).await?;
        Ok(fresh.map(|fresh| seen::node(&fresh, machine, context.manager())))
    }
}

/// Whether a decision rests on who wrote something: whether our cordon is still ours, and who reports
/// or asks for what an incident may be opened for.
fn writers_count(node: &NodeSeen, has_incident: bool) -> bool {
    let opens = |kind: &str| {
        let phase = api::condition::Node::read(kind);
        let asks = phase.is_some_and(|condition| {
            use api::condition::Node::{ImmediatePhase, PendingPhase};
            matches!(condition, PendingPhase | ImmediatePhase)
        });
        asks || Condition::ALL.iter().any(|known| known.as_str() == kind)
    };
    let reported = node.conditions.iter().any(|c| c.holds && opens(&c.kind));
    (node.unschedulable && node.cordoned_for.is_some()) || (reported && !has_incident)
}
