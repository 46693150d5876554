//! Nodes that fall silent are marked, tainted and emptied; those that live are left alone.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kit::clock::{rfc3339_micros, rfc3339_seconds};
use kit::controller::Running;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{Cluster, idle, on_a_cluster};

const LEASES: &str = "kube-node-lease";

/// A node of the test's own, ready, with a Lease; its name.
async fn join(cluster: &Cluster, running: &Running, name: &str) -> String {
    let node: Node =
        cluster.create(None, json!({"metadata": {"generateName": format!("{name}-")}})).await;
    let name = node.metadata.name.unwrap();
    say(cluster, &name, "True").await;
    let namespaces: Api<Namespace> = cluster.api();
    if namespaces.get_opt(LEASES).await.unwrap().is_none() {
        cluster.create::<Namespace>(None, json!({"metadata": {"name": LEASES}})).await;
    }
    let lease =
        json!({"metadata": {"name": name}, "spec": {"renewTime": rfc3339_micros(cluster.now())}});
    cluster.create::<Lease>(Some(LEASES), lease).await;
    idle(running).await;
    name
}

/// The node reports that it is ready, or not.
async fn say(cluster: &Cluster, node: &str, ready: &str) {
    let now = rfc3339_seconds(cluster.now());
    let condition = json!({"type": "Ready", "status": ready, "reason": "Kubelet", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let nodes: Api<Node> = cluster.api();
    nodes.patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

async fn renew(cluster: &Cluster, node: &str) {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), LEASES);
    let patch = Patch::Merge(json!({"spec": {"renewTime": rfc3339_micros(cluster.now())}}));
    leases.patch(node, &PatchParams::default(), &patch).await.unwrap();
}

/// Time passes, and these nodes renew.
async fn live(cluster: &Cluster, running: &Running, nodes: &[&String], seconds: u64) {
    for _ in 0..seconds / 10 {
        cluster.pass(10).await;
        for node in nodes {
            renew(cluster, node).await;
        }
        idle(running).await;
    }
}

async fn taints(cluster: &Cluster, node: &str) -> Vec<String> {
    let node: Node = cluster.api().get(node).await.unwrap();
    let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
    let short = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let mut all: Vec<_> =
        taints.iter().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect();
    all.sort();
    all
}

async fn pod(cluster: &Cluster, namespace: &str, name: &str, node: &str, seconds: i64) -> Pod {
    let endures = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"),
        "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    };
    let object = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}],
            "tolerations": [endures("unreachable"), endures("not-ready")]},
    });
    let pod: Pod = cluster.create(Some(namespace), object).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(ready)).await.unwrap();
    pod
}

async fn leave(cluster: &Cluster, nodes: &[&String]) {
    let all: Api<Node> = cluster.api();
    for node in nodes {
        all.delete(node, &DeleteParams::default()).await.unwrap();
    }
}

#[test]
fn a_silent_node_is_marked_and_emptied_and_freed_when_it_returns() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["nodelifecycle", "tainteviction"]).await;
        let (dies, lives) =
            (join(&cluster, &running, "dies").await, join(&cluster, &running, "lives").await);
        let namespace = cluster.namespace("nodes").await;
        idle(&running).await;
        pod(&cluster, &namespace, "short", &dies, 60).await;
        pod(&cluster, &namespace, "long", &dies, 600).await;
        pod(&cluster, &namespace, "elsewhere", &lives, 0).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        let goes = async |name: &str| {
            pods.get_opt(name)
                .await
                .unwrap()
                .is_none_or(|p| p.metadata.deletion_timestamp.is_some())
        };

        live(&cluster, &running, &[&lives], 30).await;
        assert!(taints(&cluster, &dies).await.is_empty(), "still within its grace");
        live(&cluster, &running, &[&lives], 20).await;
        let node: Node = cluster.api().get(&dies).await.unwrap();
        let conditions = node.status.unwrap().conditions.unwrap();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "Unknown");
        assert_eq!(ready.reason.as_deref(), Some("NodeStatusUnknown"));
        assert_eq!(ready.message.as_deref(), Some("Kubelet stopped posting node status."));
        let both = ["unreachable:NoExecute", "unreachable:NoSchedule"];
        assert_eq!(taints(&cluster, &dies).await, both);
        assert!(taints(&cluster, &lives).await.is_empty());
        let marked = pods.get("long").await.unwrap().status.unwrap().conditions.unwrap();
        assert!(marked.iter().any(|c| c.type_ == "Ready" && c.status == "False"));
        assert!(!goes("short").await);

        live(&cluster, &running, &[&lives], 70).await;
        assert!(goes("short").await, "it endures a minute");
        assert!(!goes("long").await && !goes("elsewhere").await);

        renew(&cluster, &dies).await;
        say(&cluster, &dies, "False").await;
        idle(&running).await;
        let other = ["not-ready:NoExecute", "not-ready:NoSchedule"];
        assert_eq!(taints(&cluster, &dies).await, other);
        say(&cluster, &dies, "True").await;
        idle(&running).await;
        assert!(taints(&cluster, &dies).await.is_empty());
        live(&cluster, &running, &[&lives, &dies], 700).await;
        assert!(!goes("long").await, "its node came back in time");
        leave(&cluster, &[&dies, &lives]).await;
        running.stop().await;
    });
}

#[test]
fn when_every_node_is_silent_nothing_is_evicted() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["nodelifecycle", "tainteviction"]).await;
        let (a, b) = (join(&cluster, &running, "a").await, join(&cluster, &running, "b").await);
        let namespace = cluster.namespace("nodes").await;
        idle(&running).await;
        // It endures the moment in which one node is known to be silent and the other not yet.
        pod(&cluster, &namespace, "p", &a, 5).await;
        live(&cluster, &running, &[], 120).await;
        for node in [&a, &b] {
            assert_eq!(taints(&cluster, node).await, ["unreachable:NoSchedule"]);
        }
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        assert!(pods.get("p").await.unwrap().metadata.deletion_timestamp.is_none());
        // The first that returns shows that the others are really gone.
        say(&cluster, &b, "True").await;
        live(&cluster, &running, &[&b], 20).await;
        assert!(taints(&cluster, &b).await.is_empty());
        assert!(taints(&cluster, &a).await.contains(&"unreachable:NoExecute".to_owned()));
        assert!(pods.get("p").await.unwrap().metadata.deletion_timestamp.is_some());
        leave(&cluster, &[&a, &b]).await;
        running.stop().await;
    });
}

/// A node that renews every ten seconds is looked at once in a grace period, not at each renewal.
#[test]
fn a_healthy_node_costs_little() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["nodelifecycle"]).await;
        let node = join(&cluster, &running, "well").await;
        let looked = || running.metrics().reconciles("nodelifecycle", "success");
        let before = looked();
        live(&cluster, &running, &[&node], 600).await;
        let cost = looked() - before;
        assert!((14..=24).contains(&cost), "{cost} looks in ten minutes of 60 renewals");
        leave(&cluster, &[&node]).await;
        running.stop().await;
    });
}
