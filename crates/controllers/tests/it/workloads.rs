//! Deployments and ReplicaSets end to end, with a kubelet that runs every pod at once.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::support::{idle, on_a_cluster};
use crate::world::{World, create};

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn set(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("one"),
        },
    })
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

#[test]
fn a_set_keeps_its_pods_adopts_and_releases() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["replicaset"]).await;
        let orphan = json!({
            "metadata": {"name": "orphan", "labels": {"app": "web"}},
            "spec": template("zero")["spec"],
        });
        create::<Pod>(&world, orphan).await;
        create::<ReplicaSet>(&world, set("web", 3)).await;
        world.settle().await;
        assert_eq!(world.pods().await.len(), 3, "the orphan is one of them");
        let sets = world.api::<ReplicaSet>();
        let status = sets.get("web").await.unwrap().status.unwrap();
        assert_eq!((status.replicas, status.ready_replicas), (3, Some(3)));
        assert_eq!((status.available_replicas, status.observed_generation), (Some(3), Some(1)));
        assert_eq!(world.events("SuccessfulCreate").await.len(), 2);

        let stray = json!({"metadata": {"labels": {"app": "else"}}});
        world.patch::<Pod>("orphan", stray).await;
        world.settle().await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 4);
        let orphan = pods.iter().find(|pod| pod.name_any() == "orphan").unwrap();
        assert!(orphan.owner_references().is_empty(), "it is released and replaced");

        world.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 1}})).await;
        world.settle().await;
        assert_eq!(world.pods().await.len(), 2);
        let status = sets.get("web").await.unwrap().status.unwrap();
        assert_eq!((status.replicas, status.observed_generation), (1, Some(2)));
        world.running.stop().await;
    });
}

#[test]
fn a_replication_controller_is_the_same() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["replicationcontroller"]).await;
        let spec = json!({"replicas": 2, "template": template("one")});
        let object = json!({"metadata": {"name": "old"}, "spec": spec});
        create::<ReplicationController>(&world, object).await;
        world.settle().await;
        let status = world.api::<ReplicationController>().get("old").await.unwrap().status.unwrap();
        assert_eq!((status.replicas, status.ready_replicas), (2, Some(2)));
        world.running.stop().await;
    });
}

#[test]
fn what_cannot_be_made_is_said() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["replicaset"]).await;
        let mut broken = set("web", 5);
        broken["spec"]["template"]["spec"]["serviceAccountName"] = json!("nobody");
        broken["spec"]["template"]["spec"]["priorityClassName"] = json!("no-such-class");
        create::<ReplicaSet>(&world, broken).await;
        let sets = world.api::<ReplicaSet>();
        let failed = async || {
            let status = sets.get("web").await.unwrap().status.unwrap();
            let conditions = status.conditions.unwrap_or_default();
            conditions.iter().any(|c| c.reason.as_deref() == Some("FailedCreate"))
        };
        while !failed().await {
            tokio::task::yield_now().await;
        }
        assert!(world.pods().await.is_empty());
        sets.delete("web", &DeleteParams::default()).await.unwrap();
        idle(&world.running).await;
        world.running.stop().await;
    });
}

#[test]
fn a_deployment_from_its_creation_to_its_end() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["deployment", "replicaset", "gc"]).await;
        create::<Deployment>(&world, set("web", 3)).await;
        world.settle().await;
        assert_deployed(&world, 3, "one").await;

        world.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
        world.settle().await;
        assert_deployed(&world, 5, "one").await;

        for replicas in [3, 5] {
            world.patch::<Deployment>("web", json!({"spec": {"replicas": replicas}})).await;
            world.settle().await;
        }
        let said = world.events("ScalingReplicaSet").await;
        assert_eq!(said.iter().filter(|text| text.ends_with("from 3 to 5")).count(), 1);
        let grown = world.api::<k8s_openapi::api::core::v1::Event>();
        let grown = grown.list(&ListParams::default()).await.unwrap().items;
        let twice = grown.iter().filter_map(|event| event.series.as_ref()?.count);
        assert!(twice.max() >= Some(2), "what is said again is counted");

        let two = json!({"spec": {"template": template("two")}});
        world.patch::<Deployment>("web", two).await;
        world.settle().await;
        assert_deployed(&world, 5, "two").await;
        assert_eq!(revision(&world).await, "2");

        // What `kubectl rollout undo` does: the template of the earlier set.
        let sets = world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(sets.len(), 2);
        let old = sets.iter().find(|s| s.annotations()[REVISION] == "1").unwrap();
        let mut before = json!(old.spec.as_ref().unwrap().template);
        before["metadata"]["labels"]["pod-template-hash"] = Value::Null;
        world.patch::<Deployment>("web", json!({"spec": {"template": before}})).await;
        world.settle().await;
        assert_deployed(&world, 5, "one").await;
        assert_eq!(revision(&world).await, "3");
        let sets = world.api::<ReplicaSet>();
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);

        let deployments = world.api::<Deployment>();
        deployments.delete("web", &DeleteParams::background()).await.unwrap();
        world.settle().await;
        assert!(sets.list(&ListParams::default()).await.unwrap().items.is_empty());
        assert!(world.pods().await.is_empty());
        world.running.stop().await;
    });
}

const REVISION: &str = "deployment.kubernetes.io/revision";

async fn revision(world: &World) -> String {
    world.api::<Deployment>().get("web").await.unwrap().annotations()[REVISION].clone()
}

async fn assert_deployed(world: &World, replicas: i32, of: &str) {
    let deployment = world.api::<Deployment>().get("web").await.unwrap();
    let status = deployment.status.unwrap();
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    ];
    assert_eq!(counts, [Some(replicas); 4]);
    assert_eq!(status.observed_generation, deployment.metadata.generation);
    let conditions = status.conditions.unwrap();
    let reason = |type_: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        found.reason.clone().unwrap()
    };
    assert_eq!(reason("Available"), "MinimumReplicasAvailable");
    assert_eq!(reason("Progressing"), "NewReplicaSetAvailable");
    let pods = world.pods().await;
    assert_eq!(pods.len(), usize::try_from(replicas).unwrap());
    assert!(pods.iter().all(|pod| image(pod) == of));
}
