//! Heartbeats that are a function of the time lead to what Leases renewed every ten seconds lead to,
//! and cost nothing while they go on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use controllers::Site;
use controllers::heartbeats::{Heartbeats, Listener};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kit::clock::{rfc3339_micros, rfc3339_seconds};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Cluster, idle, in_the_process, on_a_cluster};

const LEASES: &str = "kube-node-lease";
const EVERY: i64 = 10;

/// Since when a node was alive, and until when.
type Life = (Timestamp, Option<Timestamp>);

/// The lives of each node.
#[derive(Default)]
struct Pulse {
    lives: Mutex<BTreeMap<String, Vec<Life>>>,
    listeners: Mutex<Vec<Listener>>,
}

impl fmt::Debug for Pulse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pulse")
    }
}

impl Pulse {
    fn set(&self, node: &str, alive: bool, now: Timestamp) {
        let mut lives = self.lives.lock().unwrap();
        let life = lives.entry(node.to_owned()).or_default();
        match alive {
            true => life.push((now, None)),
            false => life.last_mut().unwrap().1 = Some(now),
        }
        drop(lives);
        let listeners = self.listeners.lock().unwrap().clone();
        listeners.iter().for_each(|listener| listener(node));
    }

    /// Whether a node renews its Lease at this very moment.
    fn renews(&self, node: &str, now: Timestamp) -> bool {
        self.beats(node) && self.last(node, now) == Some(now)
    }
}

impl Heartbeats for Pulse {
    fn last(&self, node: &str, now: Timestamp) -> Option<Timestamp> {
        let lives = self.lives.lock().unwrap();
        let (since, until) = *lives.get(node)?.last()?;
        // What ends at a moment does not beat at it.
        let before = |end: Timestamp| end - SignedDuration::from_nanos(1);
        let end = until.map_or(now, before).min(now);
        let whole = end.duration_since(since).as_secs() / EVERY * EVERY;
        Some(since + SignedDuration::from_secs(whole))
    }

    fn beats(&self, node: &str) -> bool {
        let lives = self.lives.lock().unwrap();
        lives.get(node).and_then(|life| life.last()).is_some_and(|(_, until)| until.is_none())
    }

    fn listen(&self, listener: Listener) {
        self.listeners.lock().unwrap().push(listener);
    }
}

/// The kubelet says that it is ready.
async fn ready(cluster: &Cluster, node: &str) {
    let now = rfc3339_seconds(cluster.now());
    let condition = json!({"type": "Ready", "status": "True", "reason": "Kubelet", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let nodes: Api<Node> = cluster.api();
    nodes.patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

async fn renew(cluster: &Cluster, node: &str) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node}, "spec": {"renewTime": rfc3339_micros(cluster.now())}});
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), LEASES);
    let kubelet = PatchParams::apply("kubelet").force();
    leases.patch(node, &kubelet, &Patch::Apply(lease)).await.unwrap();
}

/// What has been decided about all nodes.
async fn decided(cluster: &Cluster) -> Vec<(String, Value, Value)> {
    let nodes = cluster.api::<Node>().list(&Default::default()).await.unwrap();
    let of = |node: Node| {
        let conditions = node.status.and_then(|status| status.conditions);
        let taints = node.spec.and_then(|spec| spec.taints);
        (node.metadata.name.unwrap(), json!(conditions), json!(taints))
    };
    nodes.into_iter().map(of).collect()
}

/// When, which node, and whether it lives from then on.
const STORY: [(u64, &str, bool); 4] =
    [(35, "b", false), (120, "b", true), (165, "c", false), (170, "b", false)];

/// The decisions of four hundred seconds, five by five.
fn tale(leases: bool) -> Vec<Vec<(String, Value, Value)>> {
    let mut tale = Vec::new();
    // Two clusters whose clocks begin at the same time.
    in_the_process(async |cluster| {
        let pulse = Arc::new(Pulse::default());
        let heartbeats: Arc<dyn Heartbeats> = pulse.clone();
        let site = Site { heartbeats: (!leases).then_some(heartbeats), ..Site::default() };
        let running = cluster.start_at(&["nodelifecycle"], &site).await;
        for node in ["a", "b", "c", "d"] {
            cluster.create::<Node>(None, json!({"metadata": {"name": node}})).await;
            pulse.set(node, true, cluster.now());
            ready(&cluster, node).await;
        }
        for second in (0..400).step_by(5) {
            for (_, node, alive) in STORY.iter().filter(|(at, ..)| *at == second) {
                pulse.set(node, *alive, cluster.now());
                if *alive {
                    ready(&cluster, node).await;
                }
            }
            for node in ["a", "b", "c", "d"] {
                if leases && pulse.renews(node, cluster.now()) {
                    renew(&cluster, node).await;
                }
            }
            idle(&running).await;
            tale.push(decided(&cluster).await);
            cluster.pass(5).await;
        }
        running.stop().await;
    });
    tale
}

#[test]
fn the_function_decides_what_leases_decide_at_the_same_times() {
    let (leases, function) = (tale(true), tale(false));
    assert_eq!(leases.len(), function.len());
    for (at, (lease, function)) in leases.iter().zip(&function).enumerate() {
        assert_eq!(lease, function, "after {} s", at * 5);
    }
    let unknown = |at: usize| {
        let marked = |(node, conditions, _): &(String, Value, Value)| {
            conditions.to_string().contains("NodeStatusUnknown").then(|| node.clone())
        };
        function[at].iter().filter_map(marked).collect::<Vec<_>>()
    };
    // The last heartbeat was at 30, so the silence is too long at 70.
    assert_eq!((unknown(13), unknown(14)), (vec![], vec!["b".to_owned()]));
    assert_eq!(unknown(24), Vec::<String>::new(), "it is back");
    assert_eq!(unknown(79), ["b", "c"]);
}

#[test]
fn nothing_happens_while_all_live() {
    on_a_cluster(async |cluster| {
        let pulse = Arc::new(Pulse::default());
        let heartbeats: Arc<dyn Heartbeats> = pulse.clone();
        let site = Site { heartbeats: Some(heartbeats), ..Site::default() };
        let running = cluster.start_at(&["nodelifecycle"], &site).await;
        for node in ["a", "b"] {
            cluster.create::<Node>(None, json!({"metadata": {"name": node}})).await;
            pulse.set(node, true, cluster.now());
            ready(&cluster, node).await;
        }
        idle(&running).await;
        let looks = || running.metrics().reconciles("nodelifecycle", "success");
        let before = looks();
        cluster.pass(30 * 86_400).await;
        idle(&running).await;
        assert_eq!(looks(), before);
        pulse.set("a", false, cluster.now());
        cluster.pass(41).await;
        idle(&running).await;
        assert!(looks() > before);
        assert!(decided(&cluster).await[0].1.to_string().contains("NodeStatusUnknown"));
        running.stop().await;
    });
}
