//! The monitor that compares nodes with their peers: it says of a node that it is slow but alive.
//!
//! What a job's ranks measure beside one another comes from the hardware; whether a value stands out
//! is [`plan::detect::peers`]'s to say. The condition is the monitor's, under its own name, and is
//! taken back when the node is like its peers again, or has booted since.

use std::sync::Arc;

use api::evidence::Evidence;
use api::names::manager;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::Patch;
use plan::agent::{Said, Writer, compares, read};
use plan::catalogue::{Catalogue, Condition, Metric, Part};
use plan::detect::peers;
use serde_json::json;

use super::fleet::{Compared, Comparison, Fleet};

/// So many peers are compared at the most.
const MAX_PEERS: u32 = 10_000;

/// See the module.
pub(super) struct Monitor {
    fleet: Fleet,
    catalogue: Option<Arc<Catalogue>>,
    nodes: Cache<Node>,
}

/// What the monitor needs.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) fleet: Fleet,
    pub(super) catalogue: Option<Arc<Catalogue>>,
}

/// A node and its last comparisons.
pub(super) struct Observed {
    node: Arc<Node>,
    compared: Compared,
    catalogue: Arc<Catalogue>,
    now: Timestamp,
}

/// The conditions to write.
pub(super) struct Plan {
    node: Arc<Node>,
    changes: Vec<NodeCondition>,
}

impl Controller for Monitor {
    type Key = String;
    type Settings = Settings;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "simulated-monitor";

    fn wire(settings: Settings, wiring: &mut Wiring<String>) -> Self {
        wiring.about("Stands for the monitor that compares simulated nodes");
        let Settings { fleet, catalogue } = settings;
        fleet.compare_through(wiring.adder());
        let appears = |old: &Node, new: &Node| boot(old) != boot(new);
        let nodes =
            wiring.watch(Watch::<Node>::all().when(appears), |node| node.metadata.name.clone());
        Self { fleet, catalogue, nodes }
    }

    async fn observe(&self, context: &Context, key: &String) -> Result<Option<Observed>, Error> {
        let node = self.nodes.get(&ObjectKey::cluster(key.clone()));
        let compared = self.fleet.with(key, |seat| seat.peers.clone());
        let (Some(node), Some(compared)) = (node, compared) else { return Ok(None) };
        // Without a catalogue it is only asked what it declares.
        let Some(catalogue) = self.catalogue.clone() else { return Ok(None) };
        Ok(Some(Observed { node, compared, catalogue, now: context.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        let Observed { node, compared, catalogue, now } = observed;
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
        let conditions = conditions.unwrap_or_default();
        let boot = boot(node).unwrap_or_default();
        // What was not compared during this boot is not taken back either.
        let measured = compared.boot == boot;
        let wanted =
            if measured { slow(compared, catalogue, &read(conditions)) } else { Vec::new() };
        let ours = Condition::ALL.iter().copied().filter(|_| measured).collect();
        let writer = Writer { boot, tells: compares, ours: &ours, catalogue, now: *now };
        Plan { node: Arc::clone(node), changes: writer.changes(&wanted, conditions) }
    }

    async fn apply(&self, context: &Context, _: &String, plan: Plan) -> Result<Wake, Error> {
        let Plan { node, changes } = plan;
        if !changes.is_empty() {
            let context = context.acting_by(context.client().clone(), manager::MONITOR);
            let body = json!({
                "metadata": {"uid": node.metadata.uid},
                "status": {"conditions": changes},
            });
            let patch = Patch::Strategic(body);
            context.patch::<Node>(&node.metadata, Some("status"), &patch).await?;
        }
        Ok(Wake::Never)
    }
}

fn boot(node: &Node) -> Option<&str> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    Some(&info.boot_id)
}

/// What shall be said of a node after its comparisons. What is said already began when that says.
fn slow(compared: &Compared, catalogue: &Catalogue, shown: &[Said]) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for (metric, found) in &compared.by {
        let Some((row, text)) = verdict(*metric, found, catalogue) else { continue };
        let Some(row) = catalogue.row(&row) else { continue };
        let boot = Some(compared.boot.clone());
        let said = |since| Said {
            row: Some(row.id.as_str().to_owned()),
            kind: row.condition,
            reason: row.reason.clone(),
            evidence: Evidence { text, boot: boot.clone(), part: None, count: None },
            since,
        };
        let known = shown.iter().find(|known| {
            known.row.as_deref() == Some(row.id.as_str()) && known.evidence.boot == boot
        });
        // One condition of each type: the first metric that stands out.
        if all.iter().all(|said| said.kind != row.condition) {
            all.push(said(known.map_or(found.at, |known| known.since)));
        }
    }
    all
}

/// The row and the sentence, if the value stands out.
fn verdict(metric: Metric, found: &Comparison, catalogue: &Catalogue) -> Option<(String, String)> {
    let others = found.peers.clamp(1, MAX_PEERS) - 1;
    let mut values: Vec<(Part, f64)> = (0..others).map(|_| (Part::node(), found.typical)).collect();
    values.push((Part::node(), found.value));
    let ours = values.len() - 1;
    let outliers = peers(catalogue, metric, found.at, &values);
    let (_, finding) = outliers.into_iter().find(|(index, _)| *index == ours)?;
    Some((finding.row.as_str().to_owned(), finding.evidence))
}
