//! Nodes that fall silent are marked, and drive their pods away after a while.
//!
//! A node is heard of when its Lease or the heartbeat of its status changes; what counts is when we
//! saw that, by our own steady clock, not what the node says the time is. A node that is heard of is
//! looked at once in a grace period, however often it renews; one whose heartbeats are known to go on
//! ([`Heartbeats`]) is not looked at until they stop. What evicts pods is `tainteviction`.

mod observe;
mod zones;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use serde_json::json;

use crate::bynode::ByNode;
use crate::heartbeats::{Heard, Heartbeats, renewed};
use observe::{heartbeat, matters};
use zones::Zones;

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
    by_node: ByNode,
    heard: Arc<Mutex<Heard>>,
    heartbeats: Option<Arc<dyn Heartbeats>>,
    zones: Arc<Mutex<Zones>>,
}

/// What there is to know.
pub enum Observed {
    /// About a node.
    Node(Arc<Node>, plan::nodelifecycle::Observed),
    /// About all of them.
    Zones(plan::nodelifecycle::zones::Observed),
    /// About nobody before this time.
    Resting(Timestamp),
}

/// What shall be done.
pub enum Plan {
    /// About a node.
    Node(Arc<Node>, plan::nodelifecycle::Plan),
    /// About all of them.
    Zones(plan::nodelifecycle::zones::Plan),
    /// Nothing before this time.
    Rest(Timestamp),
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
            [Key::Node(node.metadata.name.clone().unwrap_or_default())]
        });
        let zones = Arc::<Mutex<Zones>>::default();
        let (memory, adder) = (Arc::clone(&zones), wiring.adder());
        nodes.on_change(move |change| {
            let mut zones = memory.lock().unwrap_or_else(PoisonError::into_inner);
            if zones.see(&change.key.name, change.new.as_deref()) {
                adder.add(Key::Zones);
            }
        });
        let leases = wiring.read(Watch::<Lease>::all().in_namespace(LEASES));
        let pods = wiring.read(Watch::<Pod>::all());
        let by_node = ByNode::of(&pods);
        let heard = Arc::<Mutex<Heard>>::default();
        let memory = Arc::clone(&heard);
        nodes.on_change(move |change| {
            let mut heard = memory.lock().unwrap_or_else(PoisonError::into_inner);
            heard.see(&change.key.name, change.old.as_deref(), change.new.as_deref(), heartbeat);
        });
        let memory = Arc::clone(&heard);
        leases.on_change(move |change| {
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
        Self { nodes, pods, by_node, heard, heartbeats, zones }
    }

    async fn observe(&self, context: &Context, key: &Key) -> Result<Option<Observed>, Error> {
        match key {
            Key::Node(name) => Ok(self.observe_node(context, name)),
            Key::Zones => Ok(Some(self.zones().look(context.now()))),
        }
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Node(node, facts) => {
                Plan::Node(Arc::clone(node), plan::nodelifecycle::plan(facts))
            }
            Observed::Zones(facts) => Plan::Zones(plan::nodelifecycle::zones::plan(facts)),
            Observed::Resting(until) => Plan::Rest(*until),
        }
    }

    async fn apply(&self, context: &Context, _: &Key, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Node(node, plan) => self.treat(context, &node, plan).await,
            Plan::Zones(plan) => self.drive(context, plan).await,
            Plan::Rest(until) => Ok(Wake::At(until)),
        }
    }
}

impl NodeLifecycle {
    fn zones(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let ready = |pod: &Arc<Pod>| {
            let status = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            status.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        let here = self.by_node.on(node);
        for pod in here.iter().filter_map(|key| self.pods.get(key)).filter(ready) {
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
        self.zones().spent(plan.spent, context.now());
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
