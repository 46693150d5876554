//! Pods of nodes that are gone go, and so do ended ones beyond the threshold.

use controllers::Site;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Cluster, idle, on_a_cluster};

async fn pod(cluster: &Cluster, namespace: &str, name: &str, node: Option<&str>) {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec["nodeName"] = node.map_or(Value::Null, Into::into);
    let object = json!({"metadata": {"name": name}, "spec": spec});
    cluster.create::<Pod>(Some(namespace), object).await;
}

async fn names(pods: &Api<Pod>) -> Vec<String> {
    pods.list(&Default::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

#[test]
fn pods_go_with_their_node_after_a_quarantine() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["podgc"]).await;
        let namespace = cluster.namespace("podgc").await;
        let mut nodes = Vec::new();
        for name in ["goes", "stays"] {
            let node = json!({"metadata": {"generateName": format!("{name}-")}});
            nodes.push(cluster.create::<Node>(None, node).await.name_any());
        }
        idle(&running).await;
        pod(&cluster, &namespace, "orphan", Some(&nodes[0])).await;
        pod(&cluster, &namespace, "lives", Some(&nodes[1])).await;
        pod(&cluster, &namespace, "waits", None).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        let all: Api<Node> = cluster.api();
        all.delete(&nodes[0], &DeleteParams::default()).await.unwrap();
        idle(&running).await;
        cluster.pass(35).await;
        idle(&running).await;
        assert_eq!(names(&pods).await, ["lives", "orphan", "waits"]);
        cluster.pass(6).await;
        let left = async || names(&pods).await == ["lives", "waits"];
        cluster.until(&running, left).await;
        all.delete(&nodes[1], &DeleteParams::default()).await.unwrap();
        running.stop().await;
    });
}

#[test]
fn ended_pods_beyond_the_threshold_go() {
    on_a_cluster(async |cluster| {
        let site = Site { ended_pods: Some(2), ..Site::default() };
        let running = cluster.start_at(&["podgc"], &site).await;
        let namespace = cluster.namespace("podgc").await;
        idle(&running).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        for name in ["a", "b", "c", "d"] {
            pod(&cluster, &namespace, name, None).await;
            cluster.pass(1).await;
        }
        for name in ["a", "b", "c"] {
            let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            pods.patch_status(name, &PatchParams::default(), &ended).await.unwrap();
        }
        idle(&running).await;
        assert_eq!(names(&pods).await, ["b", "c", "d"], "the oldest went, and no living one");
        running.stop().await;
    });
}
