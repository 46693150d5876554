//! A namespace that is deleted is emptied, says what it waits for, and goes.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{Cluster, idle, on_a_cluster};

fn condition(namespace: &Namespace, type_: &str) -> (String, String) {
    let conditions = namespace.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let condition = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (condition.status.clone(), condition.message.clone().unwrap_or_default())
}

async fn fill(cluster: &Cluster, namespace: &str) {
    let created = PostParams::default();
    let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    let account = ServiceAccount { metadata: metadata("default"), ..Default::default() };
    accounts.create(&created, &account).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
    let secret = Secret { metadata: metadata("s"), ..Default::default() };
    secrets.create(&created, &secret).await.unwrap();
    let mut map = ConfigMap { metadata: metadata("held"), ..Default::default() };
    map.metadata.finalizers = Some(vec!["test.seatrial.dev/hold".to_owned()]);
    cluster.maps(namespace).create(&created, &map).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "finalizers": ["test.seatrial.dev/pod"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }));
    pods.create(&created, &pod.unwrap()).await.unwrap();
}

#[test]
fn a_namespace_is_emptied_pods_first_and_goes() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["namespace"]).await;
        let name = cluster.bare_namespace("ends").await;
        fill(&cluster, &name).await;
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
        idle(&running).await;
        // The pod is held, and everything else waits for it.
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &name);
        assert!(secrets.get_opt("s").await.unwrap().is_some());
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &name);
        pods.patch("p", &PatchParams::default(), &free).await.unwrap();
        idle(&running).await;
        assert!(secrets.get_opt("s").await.unwrap().is_none());

        let left = namespaces.get(&name).await.unwrap();
        let content = condition(&left, "NamespaceContentRemaining");
        let expect = "Some resources are remaining: configmaps. has 1 resource instances";
        assert_eq!(content, ("True".to_owned(), expect.to_owned()));
        let finalizers = condition(&left, "NamespaceFinalizersRemaining");
        let expect = "Some content in the namespace has finalizers remaining: \
                      test.seatrial.dev/hold in 1 resource instances";
        assert_eq!(finalizers, ("True".to_owned(), expect.to_owned()));
        assert_eq!(condition(&left, "NamespaceDeletionContentFailure").0, "False");

        let maps = cluster.maps(&name);
        maps.patch("held", &PatchParams::default(), &free).await.unwrap();
        cluster.until(&running, async || namespaces.get_opt(&name).await.unwrap().is_none()).await;
        running.stop().await;
    });
}

#[test]
fn a_namespace_with_nothing_in_it_goes_at_once_and_others_stay() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["namespace", "gc"]).await;
        let (goes, stays) =
            (cluster.bare_namespace("ends").await, cluster.bare_namespace("stays").await);
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.delete(&goes, &DeleteParams::default()).await.unwrap();
        cluster.until(&running, async || namespaces.get_opt(&goes).await.unwrap().is_none()).await;
        assert!(namespaces.get(&stays).await.unwrap().metadata.deletion_timestamp.is_none());
        running.stop().await;
    });
}
