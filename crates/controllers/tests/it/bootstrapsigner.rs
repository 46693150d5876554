//! Machines that join can trust `cluster-info`: every living token signs it.

use controllers::Site;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

#[test]
fn cluster_info_is_signed_by_every_living_token() {
    on_a_cluster(async |cluster| {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-public");
        let site = Site {
            authority: Some(cluster.authority()),
            address: Some("https://api.example:6443".to_owned()),
            ..Site::default()
        };
        let running = cluster.start_at(&["bootstrapsigner"], &site).await;
        let data = async || maps.get("cluster-info").await.unwrap().data.unwrap_or_default();
        assert!(data().await["kubeconfig"].contains("https://api.example:6443"));
        let end = cluster.now() + jiff::SignedDuration::from_secs(30);
        let token = json!({
            "metadata": {"name": "bootstrap-token-signer"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": "signer", "token-secret": "0123456789abcdef",
                "usage-bootstrap-signing": "true",
                "expiration": kit::clock::rfc3339_seconds(end)},
        });
        cluster.create::<Secret>(Some("kube-system"), token).await;
        idle(&running).await;
        let first = data().await["jws-kubeconfig-signer"].clone();
        assert!(first.contains(".."));

        let edit = Patch::Merge(json!({"data": {"kubeconfig": "another"}}));
        maps.patch("cluster-info", &PatchParams::default(), &edit).await.unwrap();
        idle(&running).await;
        assert_ne!(data().await["jws-kubeconfig-signer"], first, "an edit is signed anew");

        cluster.pass(31).await;
        let unsigned = async || !data().await.contains_key("jws-kubeconfig-signer");
        cluster.until(&running, unsigned).await;
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
        secrets.delete("bootstrap-token-signer", &DeleteParams::default()).await.unwrap();
        maps.delete("cluster-info", &DeleteParams::default()).await.unwrap();
        running.stop().await;
    });
}
