//! Pods get nodes, and say why if they have none, until there is room.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Cluster, idle, on_a_cluster};

/// A node that only this test's pods want, since all tests may share a cluster.
async fn node(cluster: &Cluster, test: &str, name: &str) -> String {
    let name = format!("{test}-{name}");
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "8"});
    let object = json!({
        "metadata": {"name": name, "labels": {"test": test}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    });
    let object: Node = serde_json::from_value(object).unwrap();
    nodes.create(&PostParams::default(), &object).await.unwrap();
    // A new node is not ready, and a server may taint it for that.
    let clean = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(&name, &PatchParams::default(), &clean).await.unwrap();
    let status = Patch::Merge(json!({"status": {"allocatable": allocatable}}));
    nodes.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
    name
}

fn pod(test: &str, name: &str, gpus: &str) -> Pod {
    let amount: Value = json!({"nvidia.com/gpu": gpus});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"test": test},
            "containers": [{
                "name": "c", "image": "i",
                "resources": {"requests": amount, "limits": amount},
            }],
        },
    }))
    .unwrap()
}

fn place(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().unwrap().node_name.as_deref()
}

#[test]
fn pods_get_nodes_and_wait_for_room() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["scheduler"]).await;
        let test = cluster.namespace("sched").await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &test);
        for (name, gpus) in [("one", "8"), ("two", "8")] {
            pods.create(&PostParams::default(), &pod(&test, name, gpus)).await.unwrap();
        }
        idle(&running).await;
        assert_eq!(place(&pods.get("one").await.unwrap()), None);

        let first = node(&cluster, &test, "a").await;
        idle(&running).await;
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        let (bound, waits): (Vec<_>, Vec<_>) = all.iter().partition(|pod| place(pod).is_some());
        assert_eq!((bound.len(), waits.len()), (1, 1));
        assert_eq!(place(bound[0]), Some(&*first));
        let status = |pod: &Pod| {
            let conditions = pod.status.clone().unwrap().conditions.unwrap();
            conditions.into_iter().find(|known| known.type_ == "PodScheduled").unwrap()
        };
        assert_eq!(status(bound[0]).status, "True");
        let why = status(waits[0]);
        assert_eq!((&*why.status, why.reason.as_deref()), ("False", Some("Unschedulable")));
        let text = why.message.unwrap();
        assert!(text.contains("nodes are available: "), "{text}");
        assert!(text.contains("1 Insufficient nvidia.com/gpu"), "{text}");
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), &test);
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let said = |reason: &str| events.iter().any(|e| e.reason.as_deref() == Some(reason));
        assert!(said("Scheduled") && said("FailedScheduling"));

        let second = node(&cluster, &test, "b").await;
        idle(&running).await;
        let name = waits[0].metadata.name.as_deref().unwrap();
        assert_eq!(place(&pods.get(name).await.unwrap()), Some(&*second));
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        for name in [&first, &second] {
            nodes.delete(name, &DeleteParams::default()).await.unwrap();
        }
        running.stop().await;
    });
}
