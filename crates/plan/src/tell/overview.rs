//! The whole fleet on one screen, and what in it waits for a person.

use super::{Why, ago, count, open_ended, some, wave};
use api::incident::Stage;
use api::state::State;
use api::{Breaker, Incident, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeMap;

/// A fleet as its objects show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// How many machines are in each state, in the order of a machine's life.
    pub states: BTreeMap<State, usize>,
    /// How many nodes there are, how many of them are Ready, and how many are cordoned.
    pub nodes: [usize; 3],
    /// Pools by name: how many nodes serve, how many shall, and why not as many.
    pub pools: Vec<(String, u32, u32, String)>,
    /// How many spares there are, and how many are wanted.
    pub spares: [u32; 2],
    /// Open incidents, the oldest first: node, cause, stage, and since when.
    pub incidents: Vec<(String, String, Stage, Timestamp)>,
    /// Open breakers, each as its story.
    pub waves: Vec<String>,
    /// Machines that wait for people, and where.
    pub waiting: Vec<(String, State)>,
}

/// Counts and names what there is.
pub fn overview(
    now: Timestamp,
    machines: &[Machine],
    nodes: &[Node],
    pools: &[NodePool],
    incidents: &[Incident],
    breakers: &[Breaker],
) -> Overview {
    let mut all = Overview::default();
    for machine in machines {
        let state = machine.state();
        *all.states.entry(state).or_default() += 1;
        if state.waits_for_people() {
            all.waiting.push((machine.name().to_owned(), state));
        }
    }
    let ready = |node: &&Node| {
        let status = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        status.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    let cordoned =
        |node: &&Node| node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    all.nodes =
        [nodes.len(), nodes.iter().filter(ready).count(), nodes.iter().filter(cordoned).count()];
    for pool in pools {
        let status = pool.status.clone().unwrap_or_default();
        let name = pool.metadata.name.clone().unwrap_or_default();
        all.pools.push((name, status.current, status.target, status.why));
        all.spares[0] += status.spares;
        all.spares[1] += status.spares_wanted;
    }
    for incident in incidents {
        let stage = incident.status.as_ref().map(|status| status.stage).unwrap_or_default();
        if stage != Stage::Closed {
            let spec = &incident.spec;
            all.incidents.push((spec.node.clone(), spec.cause.clone(), stage, spec.opened));
        }
    }
    all.incidents.sort_by_key(|(node, _, _, opened)| (*opened, node.clone()));
    let open = breakers.iter().filter(|breaker| breaker.is_open());
    all.waves = open.map(|breaker| wave(now, breaker, incidents)).collect();
    all.waiting.sort();
    all
}

impl Overview {
    /// How many things wait for a person: open breakers, and machines that no controller may move.
    pub fn calls(&self) -> usize {
        self.waves.len() + self.waiting.len()
    }

    /// It in words.
    pub fn told(&self, now: Timestamp) -> Why {
        let machines: usize = self.states.values().sum();
        let serve = self.states.get(&State::Production).copied().unwrap_or_default();
        let mut why = Why::new(match (machines, self.calls()) {
            (0, _) => "There is no machine yet.".to_owned(),
            (_, 0) => format!("{serve} of {} in production.", count(machines, "machine")),
            (_, calls) => format!(
                "{serve} of {} in production; {} for a person.",
                count(machines, "machine"),
                match calls {
                    1 => "1 thing waits".to_owned(),
                    more => format!("{more} things wait"),
                }
            ),
        });
        let states: Vec<String> =
            self.states.iter().map(|(state, number)| format!("{number} {state}")).collect();
        why.line("machines", states.join(", "));
        let [nodes, ready, cordoned] = self.nodes;
        let mut remarks = vec![format!("{ready} of {nodes} Ready")];
        if cordoned > 0 {
            remarks.push(format!("{cordoned} cordoned"));
        }
        why.line("nodes", remarks.join(", "));
        let pool = |(name, serves, target, why): &(String, u32, u32, String)| match why.as_str() {
            "" => format!("{name} {serves} of {target}"),
            why => format!("{name} {serves} of {target} ({})", open_ended(why)),
        };
        why.remarks("pools", self.pools.iter().map(pool).collect());
        let [spares, wanted] = self.spares;
        why.line("spares", format!("{spares} of {wanted}"));
        let incident = |(node, cause, stage, opened): &(String, String, Stage, Timestamp)| {
            format!("{node} {cause} ({stage:?}, {})", ago(now, *opened))
        };
        let incidents: Vec<String> = self.incidents.iter().map(incident).collect();
        let open = match incidents.len() {
            0 => "none open".to_owned(),
            number => {
                let names: Vec<&str> = incidents.iter().map(String::as_str).collect();
                format!("{number} open: {}", some(&names))
            }
        };
        why.line("incidents", open);
        match self.waves.as_slice() {
            [] => why.line("breakers", "none open"),
            waves => waves.iter().for_each(|wave| why.line("breaker", wave.as_str())),
        }
        let waiting: Vec<String> =
            self.waiting.iter().map(|(name, state)| format!("{name} ({state})")).collect();
        let names: Vec<&str> = waiting.iter().map(String::as_str).collect();
        if !names.is_empty() {
            why.line("waiting", format!("{}: seatrial machine describe NAME", some(&names)));
        }
        why
    }
}
