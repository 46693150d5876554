//! Nodes that fall silent are marked, and drive their pods away after a while.
//!
//! A node is heard of when its Lease or the heartbeat of its status changes; what counts is when we
//! saw that, by our own steady clock, not what the node says the time is. A node that is heard of is
//! looked at once in a grace period, however often it renews; one whose heartbeats are known to go on
//! ([`Heartbeats`]) is not looked at until they stop. What evicts pods is `tainteviction`.

mod heartbeats;
mod observe;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use serde_json::json;

pub use heartbeats::{Heartbeats, Listener};
use observe::{Heard, heartbeat, matters};

/// Where kubelets keep their Leases.
const LEASES: &str = "kube-node-lease";

/// A node, or all of them: what drives pods away is weighed over zones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A node.
    Node(String),
    /// All nodes.
    Zones,
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(out, "node/{name}"),
            Self::Zones => out.write_str("zones"),
        }
    }
}

/// See the module.
pub struct NodeLifecycle {
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    heard: Arc<Mutex<Heard>>,
    heartbeats: Option<Arc<dyn Heartbeats>>,
    /// When a zone last lost a node.
    last: Mutex<BTreeMap<(String, String), Timestamp>>,
}

/// What there is to know.
pub enum Observed {
    /// About a node.
    Node(Arc<Node>, plan::nodelifecycle::Observed),
    /// About all of them.
    Zones(plan::nodelifecycle::zones::Observed),
}

/// What shall be done.
pub enum Plan {
    /// About a node.
    Node(Arc<Node>, plan::nodelifecycle::Plan),
    /// About all of them.
    Zones(plan::nodelifecycle::zones::Plan),
}

impl Controller for NodeLifecycle {
    type Key = Key;
    /// Where heartbeats come from beside Leases.
    type Settings = Option<Arc<dyn Heartbeats>>;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "nodelifecycle";

    fn wire(heartbeats: Self::Settings, wiring: &mut Wiring<Key>) -> Self {
        wiring
            .about("Marks nodes that fall silent, and taints nodes by their conditions")
            .may(&["patch"], "", &["nodes", "nodes/status", "pods/status"])
            .records_events();
        let nodes = wiring.watch(Watch::<Node>::all().when(matters), |node| {
            let name = node.metadata.name.clone().unwrap_or_default();
            [Key::Node(name), Key::Zones]
        });
        let leases = wiring.read(Watch::<Lease>::all().in_namespace(LEASES));
        let pods = wiring.read(Watch::<Pod>::all());
        let heard = Arc::<Mutex<Heard>>::default();
        let memory = Arc::clone(&heard);
        nodes.on_change(move |change| {
            let mut heard = memory.lock().unwrap_or_else(PoisonError::into_inner);
            heard.see(&change.key.name, change.old.as_deref(), change.new.as_deref(), heartbeat);
        });
        let memory = Arc::clone(&heard);
        leases.on_change(move |change| {
            let renewed = |lease: &Lease| lease.spec.as_ref()?.renew_time.clone();
            // A Lease that goes says nothing of the node.
            if let Some(new) = change.new.as_deref() {
                let mut heard = memory.lock().unwrap_or_else(PoisonError::into_inner);
                heard.see(&change.key.name, change.old.as_deref(), Some(new), renewed);
            }
        });
        if let Some(heartbeats) = &heartbeats {
            let adder = wiring.adder();
            heartbeats.listen(Arc::new(move |node| adder.add(Key::Node(node.to_owned()))));
        }
        Self { nodes, pods, heard, heartbeats, last: Mutex::default() }
    }

    async fn observe(&self, context: &Context, key: &Key) -> Result<Option<Observed>, Error> {
        match key {
            Key::Node(name) => Ok(self.observe_node(context, name)),
            Key::Zones => Ok(Some(self.observe_zones(context))),
        }
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Node(node, facts) => {
                Plan::Node(Arc::clone(node), plan::nodelifecycle::plan(facts))
            }
            Observed::Zones(facts) => Plan::Zones(plan::nodelifecycle::zones::plan(facts)),
        }
    }

    async fn apply(&self, context: &Context, _: &Key, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Node(node, plan) => self.treat(context, &node, plan).await,
            Plan::Zones(plan) => self.drive(context, plan).await,
        }
    }
}

impl NodeLifecycle {
    async fn treat(
        &self,
        context: &Context,
        node: &Node,
        plan: plan::nodelifecycle::Plan,
    ) -> Result<Wake, Error> {
        if !plan.conditions.is_empty() {
            let patch = json!({
                "metadata": {"uid": node.metadata.uid,
                    "resourceVersion": node.metadata.resource_version},
                "status": {"conditions": plan.conditions},
            });
            let patch = Patch::Strategic(patch);
            context.patch::<Node>(&node.metadata, Some("status"), &patch).await?;
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Node {name} status is now: NodeNotReady");
            let note = Note {
                mood: Mood::Normal,
                reason: "NodeNotReady".to_owned(),
                action: "Mark".to_owned(),
                text,
            };
            context.record::<Node>(&(), &node.metadata, note).await;
            // The write brings the key back, with the revision that the taints need.
            return Ok(Wake::Never);
        }
        if let Some(taints) = plan.taints {
            taint(context, node, &taints).await?;
        }
        if plan.lost {
            self.mark_pods(context, node.metadata.name.as_deref().unwrap_or_default()).await?;
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let beats = self.heartbeats.as_ref().is_some_and(|heartbeats| heartbeats.beats(name));
        // Who goes on by itself is looked at when that ends.
        Ok(Wake::earliest(plan.next.filter(|_| !beats)))
    }

    /// Pods of a node of which nothing is heard are not ready.
    async fn mark_pods(&self, context: &Context, node: &str) -> Result<(), Error> {
        let here = |pod: &Arc<Pod>| {
            let spec = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            let status = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let ready = status.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
            spec == Some(node) && ready
        };
        for pod in self.pods.list().into_iter().filter(here) {
            let condition = json!({
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": rfc3339_seconds(context.now()),
            });
            let patch = Patch::Strategic(json!({
                "metadata": {"uid": pod.metadata.uid},
                "status": {"conditions": [condition]},
            }));
            match context.patch::<Pod>(&pod.metadata, Some("status"), &patch).await {
                Err(error) if error.is_not_found() => continue,
                other => drop(other?),
            }
            let note = Note {
                mood: Mood::Warning,
                reason: "NodeNotReady".to_owned(),
                action: "Mark".to_owned(),
                text: "Node is not ready".to_owned(),
            };
            context.record::<Pod>(&(), &pod.metadata, note).await;
        }
        Ok(())
    }

    async fn drive(
        &self,
        context: &Context,
        plan: plan::nodelifecycle::zones::Plan,
    ) -> Result<Wake, Error> {
        for (name, taints) in plan.taints {
            if let Some(node) = self.nodes.get(&ObjectKey::cluster(name)) {
                taint(context, &node, &taints).await?;
            }
        }
        let now = context.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend(plan.spent.into_iter().map(|zone| (zone, now)));
        Ok(Wake::earliest(plan.next))
    }
}

/// Gives a node exactly these taints, unless it has changed since it was looked at.
async fn taint(context: &Context, node: &Node, taints: &[Taint]) -> Result<(), Error> {
    let patch = json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "spec": {"taints": taints},
    });
    context.patch::<Node>(&node.metadata, None, &Patch::Merge(patch)).await.map(drop)
}
