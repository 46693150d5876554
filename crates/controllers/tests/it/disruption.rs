//! Budgets say how many pods may go, and the server's eviction obeys them.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Cluster, idle, on_a_cluster};

async fn pod(cluster: &Cluster, namespace: &str, name: &str, owner: Option<&ReplicaSet>) {
    let owners: Vec<Value> = owner
        .iter()
        .map(|set| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
                "name": set.metadata.name, "uid": set.metadata.uid})
        })
        .collect();
    let object = json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create::<Pod>(Some(namespace), object).await;
    let ready = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(ready)).await.unwrap();
}

async fn budget(cluster: &Cluster, namespace: &str, name: &str, bound: Value) {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}});
    spec.as_object_mut().unwrap().extend(bound.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": name}, "spec": spec});
    cluster.create::<PodDisruptionBudget>(Some(namespace), object).await;
}

async fn status(cluster: &Cluster, namespace: &str, name: &str) -> PodDisruptionBudgetStatus {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client.clone(), namespace);
    budgets.get(name).await.unwrap().status.unwrap()
}

fn counts(status: &PodDisruptionBudgetStatus) -> (i32, i32, i32, i32) {
    let desired = status.desired_healthy;
    (status.current_healthy, desired, status.expected_pods, status.disruptions_allowed)
}

#[test]
fn an_eviction_spends_what_the_budget_allows() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["disruption"]).await;
        let namespace = cluster.namespace("pdb").await;
        idle(&running).await;
        for name in ["a", "b", "c"] {
            pod(&cluster, &namespace, name, None).await;
        }
        budget(&cluster, &namespace, "web", json!({"minAvailable": 2})).await;
        idle(&running).await;
        let first = status(&cluster, &namespace, "web").await;
        assert_eq!(counts(&first), (3, 2, 3, 1));
        assert_eq!(first.observed_generation, Some(1));
        let condition = &first.conditions.unwrap()[0];
        assert_eq!(
            (&*condition.type_, &*condition.reason),
            ("DisruptionAllowed", "SufficientPods")
        );

        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        pods.evict("a", &EvictParams::default()).await.unwrap();
        let refused = pods.evict("b", &EvictParams::default()).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
        idle(&running).await;
        let spent = status(&cluster, &namespace, "web").await;
        assert_eq!(counts(&spent).3, 0);
        assert_eq!(spent.conditions.unwrap()[0].reason, "InsufficientPods");
        pods.delete("a", &DeleteParams::default().grace_period(0)).await.ok();
        pod(&cluster, &namespace, "d", None).await;
        idle(&running).await;
        let again = status(&cluster, &namespace, "web").await;
        assert_eq!(counts(&again), (3, 2, 3, 1));
        assert_eq!(again.disrupted_pods, None);
        running.stop().await;
    });
}

#[test]
fn percentages_are_of_what_the_controller_wants() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["disruption"]).await;
        let namespace = cluster.namespace("pdb").await;
        idle(&running).await;
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let set: ReplicaSet = cluster.create(Some(&namespace), set).await;
        for name in ["a", "b", "c"] {
            pod(&cluster, &namespace, name, Some(&set)).await;
        }
        budget(&cluster, &namespace, "most", json!({"maxUnavailable": "50%"})).await;
        idle(&running).await;
        assert_eq!(counts(&status(&cluster, &namespace, "most").await), (3, 2, 4, 1));

        let sets: Api<ReplicaSet> = Api::namespaced(cluster.client.clone(), &namespace);
        let scale = Patch::Merge(json!({"spec": {"replicas": 8}}));
        sets.patch("web", &PatchParams::default(), &scale).await.unwrap();
        idle(&running).await;
        assert_eq!(counts(&status(&cluster, &namespace, "most").await), (3, 4, 8, 0));
        running.stop().await;
    });
}

#[test]
fn an_eviction_that_came_to_nothing_is_forgotten_after_two_minutes() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["disruption"]).await;
        let namespace = cluster.namespace("pdb").await;
        idle(&running).await;
        pod(&cluster, &namespace, "a", None).await;
        pod(&cluster, &namespace, "b", None).await;
        budget(&cluster, &namespace, "web", json!({"minAvailable": 1})).await;
        idle(&running).await;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client.clone(), &namespace);
        let now = kit::clock::rfc3339_seconds(cluster.now());
        let charged = Patch::Merge(json!({"status": {"disruptedPods": {"a": now}}}));
        budgets.patch_status("web", &PatchParams::default(), &charged).await.unwrap();
        idle(&running).await;
        assert_eq!(counts(&status(&cluster, &namespace, "web").await), (1, 1, 2, 0));
        cluster.pass(121).await;
        idle(&running).await;
        let after = status(&cluster, &namespace, "web").await;
        assert_eq!((counts(&after), after.disrupted_pods), ((2, 1, 2, 1), None));
        running.stop().await;
    });
}
