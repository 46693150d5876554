//! From a fault's being written into a node's status to the node's taking no new work.
//!
//! The fleet is described as it stands in production, since how it comes there is measured elsewhere;
//! the fleet's controllers take it over as they would after a restart. The fault is XID 79, written as
//! the agent of the node writes it. Signals come one after another first, each from another node;
//! then those of a blast all at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Machine;
use api::evidence::Evidence;
use api::machine::NodeReference;
use api::names;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use plan::agent::{Said, Writer};
use plan::catalogue::Catalogue;
use serde_json::{Value, json};
use sim::datacentre::{Demo, Layout, Serving};
use tokio::time::Instant;

use crate::Error;
use crate::cluster::{Cluster, boot, each, node};
use crate::seen::Seen;
use crate::usage::{cpu, peaks, percentile};

/// So many nodes fall ill one after another.
const SIGNALS: usize = 300;
/// From one to the next: four a second, where 50,000 nodes have one in two seconds.
const EVERY: Duration = Duration::from_millis(250);
/// So many fall ill at one instant.
const BLAST: usize = 750;
/// The fault: a GPU has fallen off its bus.
const ROW: &str = "xid/79";

pub(crate) async fn measure(cluster: &Cluster, nodes: usize, pids: &[u32]) -> Result<Value, Error> {
    let layout = layout(nodes)?;
    let began = Instant::now();
    let (seen, _running) = Seen::start(cluster.client.clone());
    let serves = seen.until("all nodes serve", |counts| counts.serving == nodes).await?;
    let taken_over = (serves - began).as_secs_f64();
    eprintln!("{taken_over:6.1} s until the fleet is taken over");
    let busy = cpu(pids);

    let catalogue = Catalogue::built_in();
    let agents = Agents { api: Api::all(cluster.client.clone()), catalogue };
    // Spread over racks, so that what is common to them is their symptom only.
    let stride = nodes / (SIGNALS + BLAST).min(nodes).max(1);
    let mut ill = layout.machines.iter().step_by(stride.max(1)).map(|plan| plan.name.as_str());
    let one_by_one: Vec<&str> = ill.by_ref().take(SIGNALS).collect();
    let blast: Vec<&str> = ill.take(BLAST).collect();

    let mut said = Vec::new();
    let mut tick = tokio::time::interval(EVERY);
    for name in &one_by_one {
        tick.tick().await;
        said.push((*name, Instant::now()));
        agents.say(name).await?;
    }
    let cordoned = one_by_one.len();
    seen.until("the ill are cordoned", |counts| counts.cordoned >= cordoned).await?;
    let mut took: Vec<f64> = said.iter().filter_map(|(name, at)| since(&seen, name, *at)).collect();
    took.sort_by(f64::total_cmp);
    let spent = cpu(pids) - busy;

    let began = Instant::now();
    let busy = cpu(pids);
    each(blast.iter(), |name| agents.say(name)).await?;
    let told = began.elapsed();
    let all = cordoned + blast.len();
    seen.until("the blast is cordoned", |counts| counts.cordoned >= all).await?;
    let mut after: Vec<f64> = blast.iter().filter_map(|name| since(&seen, name, began)).collect();
    after.sort_by(f64::total_cmp);
    let blast_spent = cpu(pids) - busy;
    let counts = seen.counts();
    Ok(json!({
        "nodes": nodes,
        "taken_over_seconds": taken_over,
        "signals": took.len(),
        "p50_ms": percentile(&took, 50) * 1e3,
        "p99_ms": percentile(&took, 99) * 1e3,
        "max_ms": percentile(&took, 100) * 1e3,
        "cpu_ms_a_signal": spent * 1e3 / took.len().max(1) as f64,
        "blast": after.len(),
        "blast_told_seconds": told.as_secs_f64(),
        "blast_half_seconds": percentile(&after, 50),
        "blast_seconds": percentile(&after, 100),
        "blast_cpu_seconds": blast_spent,
        "cordoned": counts.cordoned,
        "evicted": counts.evicted,
        "peak_mib": peaks(pids),
    }))
}

/// Seconds from then until the node was seen cordoned.
fn since(seen: &Seen, node: &str, then: Instant) -> Option<f64> {
    Some(seen.cordoned(node)?.duration_since(then).as_secs_f64())
}

/// The agents of all nodes.
struct Agents {
    api: Api<Node>,
    catalogue: Arc<Catalogue>,
}

impl Agents {
    /// The agent of a node says what it has seen.
    async fn say(&self, node: &str) -> Result<(), Error> {
        let condition = self.condition(node).ok_or("the catalogue has no such row")?;
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let manager = Some(names::manager::AGENT.to_owned());
        let params = PatchParams { field_manager: manager, ..PatchParams::default() };
        self.api.patch_status(node, &params, &patch).await?;
        Ok(())
    }

    fn condition(&self, node: &str) -> Option<NodeCondition> {
        let (row, now) = (self.catalogue.row(ROW)?, Clock::system().now());
        let boot = boot(node);
        let evidence = Evidence {
            text: "GPU at 0000:4e:00 has fallen off the bus (XID 79)".to_owned(),
            boot: Some(boot.clone()),
            part: Some("0000:4e:00".to_owned()),
            count: None,
        };
        let said = Said {
            row: Some(row.id.as_str().to_owned()),
            kind: row.condition,
            reason: row.reason.clone(),
            evidence,
            since: now,
        };
        let (ours, catalogue) = (BTreeSet::new(), &self.catalogue);
        let writer = Writer { boot: &boot, tells: |_| true, ours: &ours, catalogue, now };
        writer.changes(&[said], &[]).pop()
    }
}

fn layout(nodes: usize) -> Result<Layout, Error> {
    Ok(Layout::demo(&Demo {
        gpu_nodes: u32::try_from(nodes)?,
        cpu_nodes: 0,
        racks: u32::try_from(nodes.div_ceil(8))?,
        spares: 0,
        seed: 1,
    })?)
}

/// Puts the fleet into the cluster as it stands in production.
pub(crate) async fn describe(cluster: &Cluster, nodes: usize) -> Result<(), Error> {
    let (layout, began) = (&layout(nodes)?, Instant::now());
    let definitions = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    for definition in api::definitions() {
        let made = cluster.ensure(&definitions, &definition).await?;
        let name = made.metadata.name.unwrap_or_default();
        await_condition(definitions.clone(), &name, is_crd_established()).await?;
    }
    let objects = layout.objects("http://127.0.0.1:9");
    cluster.ensure_all::<Namespace>(&[objects.namespace]).await?;
    let secrets = Api::namespaced(cluster.client.clone(), names::NAMESPACE);
    cluster.ensure(&secrets, &objects.credential).await?;
    cluster.ensure_all(&objects.instance_types).await?;
    cluster.ensure_all(&objects.racks).await?;
    cluster.ensure_all(&objects.switches).await?;
    cluster.ensure_all(&[objects.ledger]).await?;
    cluster.ensure_all(&objects.pools).await?;
    let nodes: Vec<Node> = layout
        .machines
        .iter()
        .map(|plan| {
            let labels = json!({"kubernetes.io/hostname": plan.name, names::MACHINE: plan.name});
            node(&plan.name, &labels)
        })
        .collect::<Result<_, _>>()?;
    let nodes = cluster.ensure_all(&nodes).await?;
    let pool = objects.pools.first().ok_or("the layout has no pool")?;
    let machines = Api::<Machine>::all(cluster.client.clone());
    let all = layout.machines.iter().zip(objects.machines).zip(nodes);
    each(all, |((plan, machine), node)| {
        let machines = &machines;
        async move {
            let uid = node.metadata.uid.clone().unwrap_or_default();
            let stands = Serving {
                boot: &boot(&plan.name),
                kernel: None,
                node: Some(NodeReference { name: plan.name.clone(), uid }),
                pool: Some(pool),
                since: Clock::system().now(),
            };
            let (machine, status) = layout.serving(plan, machine, &stands);
            cluster.ensure(machines, &machine).await?;
            let patch = Patch::Merge(json!({"status": status}));
            machines.patch_status(&plan.name, &PatchParams::default(), &patch).await?;
            Ok(())
        }
    })
    .await?;
    eprintln!("{:6.1} s until the fleet is described", began.elapsed().as_secs_f64());
    Ok(())
}
