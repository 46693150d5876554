//! StatefulSets end to end, with a kubelet that runs every pod at once.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::on_a_cluster;
use crate::world::{World, create};

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn set(replicas: i32, policy: &str) -> Value {
    let size = json!({"requests": {"storage": "1Gi"}});
    json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("one"),
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": policy, "whenDeleted": policy},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": size},
            }],
        },
    })
}

impl World {
    async fn named(&self) -> Vec<(String, String)> {
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        self.pods().await.iter().map(|pod| (pod.name_any(), image(pod))).collect()
    }

    async fn claims(&self) -> Vec<String> {
        let claims = self.api::<PersistentVolumeClaim>();
        let claims = claims.list(&ListParams::default()).await.unwrap().items;
        // A real server protects claims until a controller that is not here lets them go.
        let live = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        live.map(ResourceExt::name_any).collect()
    }
}

fn pods(names: &[&str], image: &str) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), image.to_owned())).collect()
}

#[test]
fn a_stateful_set_scales_rolls_and_undoes() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["statefulset"]).await;
        create::<StatefulSet>(&world, set(3, "Retain")).await;
        world.settle().await;
        assert_eq!(world.named().await, pods(&["db-0", "db-1", "db-2"], "one"));
        assert_eq!(world.claims().await, ["data-db-0", "data-db-1", "data-db-2"]);
        let events = world.events("SuccessfulCreate").await;
        assert!(events.contains(&"Create Pod db-0 in StatefulSet db successful".to_owned()));
        assert!(
            events
                .contains(&"Create Claim data-db-1 Pod db-1 in StatefulSet db success".to_owned())
        );
        let sets = world.api::<StatefulSet>();
        let status = sets.get("db").await.unwrap().status.unwrap();
        assert_eq!((status.replicas, status.ready_replicas), (3, Some(3)));
        assert_eq!((status.available_replicas, status.current_replicas), (Some(3), Some(3)));

        world.patch::<StatefulSet>("db", json!({"spec": {"template": template("two")}})).await;
        world.settle().await;
        assert_eq!(world.named().await, pods(&["db-0", "db-1", "db-2"], "two"));
        let status = sets.get("db").await.unwrap().status.unwrap();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!(status.updated_replicas, Some(3));

        let revisions = world.api::<ControllerRevision>();
        let all = revisions.list(&ListParams::default()).await.unwrap().items;
        let first = all.iter().find(|revision| revision.revision == 1).unwrap();
        let undo = Patch::Strategic(first.data.as_ref().unwrap().0.clone());
        sets.patch("db", &PatchParams::default(), &undo).await.unwrap();
        world.settle().await;
        assert_eq!(world.named().await, pods(&["db-0", "db-1", "db-2"], "one"));
        assert_eq!(revisions.list(&ListParams::default()).await.unwrap().items.len(), 2);

        world.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
        world.settle().await;
        assert_eq!(world.named().await, pods(&["db-0"], "one"));
        assert_eq!(world.claims().await.len(), 3, "claims are kept");
        world.running.stop().await;
    });
}

#[test]
fn claims_go_with_their_pods_where_the_policy_says() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["statefulset", "gc"]).await;
        create::<StatefulSet>(&world, set(2, "Delete")).await;
        world.settle().await;
        assert_eq!(world.claims().await.len(), 2);
        world.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
        world.settle().await;
        world.cluster.until(&world.running, async || world.claims().await.len() == 1).await;
        assert_eq!(world.claims().await, ["data-db-0"]);
        let sets = world.api::<StatefulSet>();
        sets.delete("db", &DeleteParams::background()).await.unwrap();
        world.cluster.until(&world.running, async || world.claims().await.is_empty()).await;
        world.cluster.until(&world.running, async || world.pods().await.is_empty()).await;
        world.running.stop().await;
    });
}
