//! Nodes that all lose their server and all find it again at one instant.
//!
//! A node is what a server feels of it: connections of its own, a Lease that is renewed every ten
//! seconds, its status, which it reads as often and corrects where it is not what the node knows, a watch
//! of its pods, and one pod that endures five minutes of silence. When it finds the server again it does
//! what a kubelet does: reads its node, says that it is ready, renews its Lease, lists and watches its
//! pods; what is refused or fails is tried again after a second, then after two, up to seven.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kit::clock::{Clock, rfc3339_micros};
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Error;
use crate::cluster::{Cluster, each, healthy, node};
use crate::seen::Seen;
use crate::usage::{cpu, peaks};

/// How often a kubelet renews its Lease.
const RENEW: Duration = Duration::from_secs(10);
/// The longest wait after a failure; a kubelet's.
const BACKOFF: Duration = Duration::from_secs(7);
const LEASES: &str = "kube-node-lease";
const PODS: &str = "herd";

/// Requests of all nodes; a watch counts until it is begun.
#[derive(Default)]
struct Gauge {
    under_way: AtomicUsize,
    peak: AtomicUsize,
    sent: AtomicUsize,
    /// Told to come again.
    refused: AtomicUsize,
    failed: AtomicUsize,
}

impl Gauge {
    /// Tries until it is done.
    async fn persist<T, F>(&self, act: impl Fn() -> F) -> T
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut backoff = Duration::from_secs(1);
        loop {
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.peak.fetch_max(under_way, Ordering::Relaxed);
            self.sent.fetch_add(1, Ordering::Relaxed);
            let done = act().await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            match done {
                Ok(done) => return done,
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    if self.failed.fetch_add(1, Ordering::Relaxed) < 3 {
                        eprintln!("a node's request failed: {error}");
                    }
                }
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF);
        }
    }
}

pub(crate) async fn measure(cluster: &Cluster, count: usize, pids: &[u32]) -> Result<Value, Error> {
    let names: Vec<String> = (0..count).map(|n| format!("n{n:05}")).collect();
    let (seen, _running) = Seen::start(cluster.client.clone());
    let gauge = Arc::<Gauge>::default();
    let began = Instant::now();
    prepare(cluster).await?;
    let herd = tokio::sync::Mutex::new(JoinSet::new());
    each(names.iter(), |name| {
        let (herd, gauge) = (&herd, &gauge);
        async move {
            join(cluster, name).await?;
            herd.lock().await.spawn(live(cluster.node(name)?, name.clone(), Arc::clone(gauge)));
            Ok(())
        }
    })
    .await?;
    let mut herd = herd.into_inner();
    seen.until("all nodes are ready", |counts| counts.ready == count).await?;
    eprintln!("{:6.1} s until the nodes have joined", began.elapsed().as_secs_f64());
    let calm = peaks(pids);

    herd.shutdown().await;
    let cut = Instant::now();
    let unknown = seen.until("nothing is heard of any node", |c| c.unknown == count).await?;

    gauge.under_way.store(0, Ordering::Relaxed);
    gauge.peak.store(0, Ordering::Relaxed);
    let before = cpu(pids);
    let (sent, refused) =
        (gauge.sent.load(Ordering::Relaxed), gauge.refused.load(Ordering::Relaxed));
    let clients = names.iter().map(|name| cluster.node(name)).collect::<Result<Vec<_>, _>>()?;
    let back = Instant::now();
    for (name, client) in names.iter().zip(clients) {
        herd.spawn(live(client, name.clone(), Arc::clone(&gauge)));
    }
    let ready = seen.until("all nodes are ready again", |c| c.ready == count).await?;
    let free = seen.until("no node is tainted", |c| c.tainted == 0).await?;
    let spent = cpu(pids) - before;
    // Whoever was to be driven away is by now: a controller acts on a taint within a moment.
    tokio::time::sleep(RENEW).await;
    let counts = seen.counts();
    let value = json!({
        "nodes": count,
        "marked_seconds": (unknown - cut).as_secs_f64(),
        "ready_seconds": (ready - back).as_secs_f64(),
        "free_seconds": (free - back).as_secs_f64(),
        "evicted": counts.evicted,
        "still_ready": counts.ready,
        "requests": gauge.sent.load(Ordering::Relaxed) - sent,
        "refused": gauge.refused.load(Ordering::Relaxed) - refused,
        "failed": gauge.failed.load(Ordering::Relaxed),
        "peak_under_way": gauge.peak.load(Ordering::Relaxed),
        "cpu_seconds": spent,
        "calm_mib": calm,
        "peak_mib": peaks(pids),
    });
    herd.shutdown().await;
    Ok(value)
}

async fn prepare(cluster: &Cluster) -> Result<(), Error> {
    for name in [PODS, LEASES] {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        cluster.ensure_all(&[namespace]).await?;
    }
    // Where no controller makes it.
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    cluster.ensure(&Api::namespaced(cluster.client.clone(), PODS), &account).await?;
    Ok(())
}

/// A node, its Lease, and a pod that runs on it.
async fn join(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let labels = json!({"kubernetes.io/hostname": name});
    cluster.ensure::<Node>(&Api::all(cluster.client.clone()), &node(name, &labels)?).await?;
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
    }))?;
    cluster.ensure(&Api::namespaced(cluster.client.clone(), LEASES), &lease).await?;
    let endures = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300})
    };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": name,
            "automountServiceAccountToken": false,
            "containers": [{"name": "work", "image": "registry.example.com/work:1"}],
            "tolerations": [endures("not-ready"), endures("unreachable")],
        },
    }))?;
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), PODS);
    cluster.ensure(&pods, &pod).await?;
    let runs = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(runs)).await?;
    Ok(())
}

fn now() -> String {
    rfc3339_micros(Clock::system().now())
}

/// A node that has found its server, until it is cut off.
async fn live(client: Client, name: String, gauge: Arc<Gauge>) {
    let nodes = Api::<Node>::all(client.clone());
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES);
    let pods = Api::<Pod>::all(client);
    let params = PatchParams::default();
    // A kubelet looks into the server's cache, and writes only what is not there.
    let tell = async || {
        let seen = gauge.persist(|| nodes.get(&name)).await;
        let status = seen.status.and_then(|status| status.conditions).unwrap_or_default();
        if !status.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
            let status = Patch::Strategic(json!({"status": {"conditions": healthy()}}));
            gauge.persist(|| nodes.patch_status(&name, &params, &status)).await;
        }
    };
    tell().await;
    let renew = async || {
        let patch = Patch::Merge(json!({"spec": {"renewTime": now()}}));
        gauge.persist(|| leases.patch(&name, &params, &patch)).await;
    };
    renew().await;
    let own = format!("spec.nodeName={name}");
    let watch = async {
        loop {
            let list = ListParams::default().fields(&own).match_any();
            let seen = gauge.persist(|| pods.list(&list)).await;
            let from = seen.metadata.resource_version.unwrap_or_default();
            let params = WatchParams::default().fields(&own).timeout(290);
            let events = gauge.persist(|| pods.watch(&params, &from)).await;
            events.for_each(|_| std::future::ready(())).await;
        }
    };
    let beat = async {
        let mut tick = tokio::time::interval_at(Instant::now() + RENEW, RENEW);
        loop {
            tick.tick().await;
            renew().await;
        }
    };
    let look = async {
        let mut tick = tokio::time::interval_at(Instant::now() + RENEW, RENEW);
        loop {
            tick.tick().await;
            tell().await;
        }
    };
    tokio::join!(watch, beat, look);
}
