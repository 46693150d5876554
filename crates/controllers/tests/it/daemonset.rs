//! DaemonSets end to end, with nodes of the test's own, the scheduler, and a kubelet that runs every
//! pod at once.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Cluster, on_a_cluster};
use crate::world::{World, create};

async fn node(cluster: &Cluster, namespace: &str, name: &str) {
    let name = format!("{namespace}-{name}");
    let meta = json!({"name": name, "labels": {"of": namespace}});
    cluster.create::<Node>(None, json!({"metadata": meta})).await;
    let room = json!({"pods": "110", "cpu": "8", "memory": "8Gi"});
    let status = json!({"allocatable": room, "capacity": room,
        "conditions": [{"type": "Ready", "status": "True"}]});
    let patch = Patch::Merge(json!({"status": status}));
    let nodes = cluster.api::<Node>();
    nodes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    let ready = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(&name, &PatchParams::default(), &ready).await.unwrap();
}

fn set(namespace: &str, image: &str) -> Value {
    json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "nodeSelector": {"of": namespace},
                    "containers": [{"name": "c", "image": image}],
                },
            },
        },
    })
}

impl World {
    /// The nodes that pods run on.
    async fn placed(&self) -> Vec<String> {
        let pods = self.pods().await;
        let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        let mut nodes: Vec<_> = pods.iter().map(|pod| node(pod).unwrap_or_default()).collect();
        nodes.sort();
        let prefix = format!("{}-", self.namespace);
        nodes.iter().map(|node| node.replace(&prefix, "")).collect()
    }

    /// The kubelet of a pod that is to be deleted lets it go at once.
    async fn roll(&self) {
        for _ in 0..30 {
            self.settle().await;
            let pods = self.api::<Pod>();
            let mut gone = false;
            for pod in self.pods().await {
                if pod.metadata.deletion_timestamp.is_some() {
                    let now = DeleteParams::default().grace_period(0);
                    pods.delete(&pod.name_any(), &now).await.unwrap();
                    gone = true;
                }
            }
            if !gone {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

#[test]
fn a_daemon_set_follows_its_nodes_and_its_template() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["daemonset", "scheduler"]).await;
        let of = world.namespace.clone();
        for name in ["a", "b"] {
            node(&world.cluster, &of, name).await;
        }
        create::<DaemonSet>(&world, set(&of, "one")).await;
        world.roll().await;
        assert_eq!(world.placed().await, ["a", "b"]);
        node(&world.cluster, &of, "c").await;
        world.roll().await;
        assert_eq!(world.placed().await, ["a", "b", "c"]);
        let sets = world.api::<DaemonSet>();
        let status = sets.get("agent").await.unwrap().status.unwrap();
        assert_eq!((status.desired_number_scheduled, status.number_ready), (3, 3));
        assert_eq!((status.number_available, status.number_unavailable), (Some(3), None));
        assert_eq!(status.observed_generation, Some(1));

        let two = set(&of, "two")["spec"]["template"].clone();
        world.patch::<DaemonSet>("agent", json!({"spec": {"template": two}})).await;
        world.roll().await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3);
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        assert!(pods.iter().all(|pod| image(pod) == "two"));
        let status = sets.get("agent").await.unwrap().status.unwrap();
        assert_eq!((status.updated_number_scheduled, status.number_available), (Some(3), Some(3)));

        // What `kubectl rollout undo` does: the earlier revision, as a patch.
        let revisions = world.api::<ControllerRevision>();
        let all = revisions.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(all.len(), 2);
        let first = all.iter().find(|revision| revision.revision == 1).unwrap();
        let undo = Patch::Strategic(first.data.as_ref().unwrap().0.clone());
        sets.patch("agent", &PatchParams::default(), &undo).await.unwrap();
        world.roll().await;
        assert!(world.pods().await.iter().all(|pod| image(pod) == "one"));
        let all = revisions.list(&ListParams::default()).await.unwrap().items;
        let mut numbers: Vec<_> = all.iter().map(|revision| revision.revision).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3]);

        let c = format!("{of}-c");
        let drop = Patch::Merge(json!({"metadata": {"labels": {"of": null}}}));
        let nodes = world.cluster.api::<Node>();
        nodes.patch(&c, &PatchParams::default(), &drop).await.unwrap();
        world.roll().await;
        assert_eq!(world.placed().await, ["a", "b"]);

        let pods = world.api::<Pod>();
        let broken = world.pods().await.remove(0);
        world.say(&broken, json!({"phase": "Failed"})).await;
        world.roll().await;
        assert_eq!(world.placed().await, ["a", "b"]);
        assert!(pods.get_opt(&broken.name_any()).await.unwrap().is_none());
        assert_eq!(world.events("FailedDaemonPod").await.len(), 1);
        for name in ["a", "b", "c"] {
            nodes.delete(&format!("{of}-{name}"), &DeleteParams::default()).await.unwrap();
        }
        world.running.stop().await;
    });
}
