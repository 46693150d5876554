//! A Service's slices follow its pods and its labels.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

#[test]
fn slices_follow_the_pods_of_a_service() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["endpointslice"]).await;
        let namespace = cluster.namespace("slices").await;
        let client = || cluster.client.clone();
        let services: Api<Service> = Api::namespaced(client(), &namespace);
        let service = serde_json::from_value(json!({
            "metadata": {"name": "web", "labels": {"team": "a"}},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }));
        services.create(&PostParams::default(), &service.unwrap()).await.unwrap();
        let all: Api<EndpointSlice> = Api::namespaced(client(), &namespace);
        let only = async || {
            idle(&running).await;
            let mut slices = all.list(&ListParams::default()).await.unwrap().items;
            assert_eq!(slices.len(), 1);
            slices.remove(0)
        };
        assert!(only().await.endpoints.is_empty());

        let pods: Api<Pod> = Api::namespaced(client(), &namespace);
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }));
        pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
        let status = Patch::Merge(json!({"status": {
            "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }}));
        pods.patch_status("p", &PatchParams::default(), &status).await.unwrap();
        let slice = only().await;
        assert_eq!(slice.ports.unwrap()[0].port, Some(8080));
        assert_eq!(slice.endpoints[0].addresses, ["10.1.0.1"]);
        assert_eq!(slice.endpoints[0].conditions.as_ref().unwrap().ready, Some(true));

        let labels = Patch::Merge(json!({"metadata": {"labels": {"team": null}}}));
        services.patch("web", &PatchParams::default(), &labels).await.unwrap();
        let labels = only().await.metadata.labels.unwrap();
        assert!(!labels.contains_key("team"));
        assert_eq!(labels["kubernetes.io/service-name"], "web");

        pods.delete("p", &DeleteParams::default()).await.unwrap();
        assert!(only().await.endpoints.is_empty());
        running.stop().await;
    });
}
