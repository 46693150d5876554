//! The kubelets of all machines: a controller whose keys are nodes and pods.
//!
//! Each acts as its own node. A kubelet tells the API of its node once per boot, keeps it Ready for as
//! long as it can be heard, and takes its pods through their lives. What it writes is decided in
//! [`node`](self::node) and [`pod`](self::pod), which are pure.

mod node;
mod pod;

use std::fmt;
use std::sync::Arc;

use api::Machine;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::controller::{Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring};
use kube::Client;
use kube::api::Patch;

use super::fleet::{Fleet, Memory};

pub use pod::{annotations, runs_in};

/// The name that kubelets write under.
const MANAGER: &str = "kubelet";

/// So many keys are worked on at once: each kubelet is one of thousands.
const AT_ONCE: usize = 32;

/// What a kubelet looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Its node.
    Node(String),
    /// One of its pods.
    Pod(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(out, "node/{name}"),
            Self::Pod(key) => write!(out, "pod/{key}"),
        }
    }
}

/// See the module.
pub(super) struct Kubelets {
    fleet: Fleet,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
}

/// What a kubelet knows.
pub(super) enum Observed {
    Node(Client, Box<node::Facts>),
    Pod(Client, Box<pod::Facts>),
}

/// What it does.
pub(super) enum Plan {
    Node(Client, Box<node::Facts>, node::Plan),
    Pod(Client, Arc<Pod>, pod::Plan),
}

impl Controller for Kubelets {
    type Key = Key;
    type Settings = Fleet;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "simulated-kubelets";

    fn wire(fleet: Fleet, wiring: &mut Wiring<Key>) -> Self {
        wiring.about("Stands for the kubelets of simulated machines").concurrency(AT_ONCE);
        fleet.work_through(wiring.adder());
        let machines = wiring.read(Watch::<Machine>::all());
        let seats = fleet.clone();
        machines.on_change(move |change| seats.see_machine(&change.key.name, change.new.clone()));
        let nodes =
            wiring.watch(Watch::<Node>::all(), |node| node.metadata.name.clone().map(Key::Node));
        let seats = fleet.clone();
        nodes.on_change(move |change| seats.see_node(&change.key.name, change.new.clone()));
        let pods = wiring.watch(Watch::<Pod>::all(), |pod| {
            host(pod).map(|_| Key::Pod(ObjectKey::of(&pod.metadata)))
        });
        let seats = fleet.clone();
        pods.on_change(move |change| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            // Another pod of the same name is another pod.
            let same = |a: &Pod, b: &Pod| a.metadata.uid == b.metadata.uid;
            if let Some(old) = old.filter(|old| new.is_none_or(|new| !same(old, new)))
                && let Some(node) = host(old)
            {
                seats.see_pod(node, &change.key, old, None);
            }
            if let Some(new) = new
                && let Some(node) = host(new)
            {
                seats.see_pod(node, &change.key, new, Some(new));
            }
        });
        Self { fleet, nodes, pods }
    }

    async fn observe(&self, context: &Context, key: &Key) -> Result<Option<Observed>, Error> {
        Ok(match key {
            Key::Node(name) => self.observe_node(context, name),
            Key::Pod(key) => self.observe_pod(context, key),
        })
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Node(client, facts) => {
                Plan::Node(client.clone(), facts.clone(), node::plan(facts))
            }
            Observed::Pod(client, facts) => {
                Plan::Pod(client.clone(), Arc::clone(&facts.pod), pod::plan(facts))
            }
        }
    }

    async fn apply(&self, context: &Context, _: &Key, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Node(client, facts, plan) => {
                let context = context.acting_by(client, MANAGER);
                self.tell(&context, &facts, plan).await
            }
            Plan::Pod(client, pod, plan) => {
                run(&context.acting_by(client, MANAGER), &pod, plan).await
            }
        }
    }
}

/// The node that a pod is bound to.
fn host(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

impl Kubelets {
    fn observe_node(&self, context: &Context, name: &str) -> Option<Observed> {
        let (client, facts) = self.fleet.with(name, |seat| {
            let kubelet = seat.kubelet.as_ref().filter(|kubelet| !kubelet.mute)?;
            let facts = node::Facts {
                name: name.to_owned(),
                index: seat.index,
                running: kubelet.running.clone(),
                registered: kubelet.registered,
                inventory: seat.hardware.inventory(),
                node: None,
                now: context.now(),
            };
            Some((kubelet.client.clone(), facts))
        })??;
        let node = self.nodes.get(&ObjectKey::cluster(name));
        Some(Observed::Node(client, Box::new(node::Facts { node, ..facts })))
    }

    fn observe_pod(&self, context: &Context, key: &ObjectKey) -> Option<Observed> {
        let pod = self.pods.get(key)?;
        let (name, now) = (host(&pod)?.to_owned(), context.now());
        let others =
            self.fleet.with(&name, |seat| seat.pods.keys().cloned().collect::<Vec<_>>())?;
        let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let taken = others.iter().filter_map(|other| address(self.pods.get(other)?.as_ref()));
        let taken = taken.collect();
        let (client, boot, index, memory) = self.fleet.with(&name, |seat| {
            let kubelet = seat.kubelet.as_mut().filter(|kubelet| !kubelet.mute)?;
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let memory = kubelet.pods.entry(uid).or_insert(Memory { seen: now, ending: None });
            if pod.metadata.deletion_timestamp.is_some() {
                memory.ending.get_or_insert(now);
            }
            let memory = *memory;
            Some((kubelet.client.clone(), kubelet.running.boot.clone(), seat.index, memory))
        })??;
        let facts = pod::Facts { pod, boot, index, memory, taken, now };
        Some(Observed::Pod(client, Box::new(facts)))
    }

    async fn tell(
        &self,
        context: &Context,
        facts: &node::Facts,
        plan: node::Plan,
    ) -> Result<Wake, Error> {
        match plan {
            node::Plan::Nothing => return Ok(Wake::Never),
            node::Plan::Create(node) => drop(context.create::<Node>(&node).await?),
            node::Plan::Update { meta, described, status } => {
                if let Some(described) = described {
                    context.patch::<Node>(&meta, None, &Patch::Strategic(described)).await?;
                }
                if let Some(status) = status {
                    context.patch::<Node>(&meta, Some("status"), &Patch::Strategic(status)).await?;
                }
            }
        }
        self.fleet.registered(&facts.name, &facts.running.boot);
        Ok(Wake::Never)
    }
}

async fn run(context: &Context, pod: &Pod, plan: pod::Plan) -> Result<Wake, Error> {
    if let Some(status) = plan.status {
        let body = serde_json::json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        match context.patch::<Pod>(&pod.metadata, Some("status"), &Patch::Strategic(body)).await {
            // It is gone, or another has its name: the watch tells.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(Wake::Never),
            other => drop(other?),
        }
    }
    if plan.delete {
        let uid = pod.metadata.uid.clone();
        let how = Delete { uid, grace_seconds: Some(0), ..Delete::default() };
        match context.delete::<Pod>(&(), &pod.metadata, how).await {
            Err(error) if error.is_conflict() => {}
            other => drop(other?),
        }
    }
    Ok(Wake::earliest(plan.wake))
}
