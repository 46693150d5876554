//! Storage that is deleted goes when nobody uses it any more.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use plan::protection::{CLAIM, VOLUME};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

#[test]
fn a_claim_goes_with_the_last_pod_that_uses_it() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["pvcprotection"]).await;
        let namespace = cluster.namespace("claims").await;
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(cluster.client.clone(), &namespace);
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        for name in ["used", "free"] {
            let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}});
            cluster.create::<PersistentVolumeClaim>(Some(&namespace), claim).await;
        }
        for name in ["first", "second"] {
            let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "somewhere",
                "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]}});
            cluster.create::<Pod>(Some(&namespace), pod).await;
        }
        let kept = async |name: &str| {
            let claim = claims.get(name).await.unwrap();
            claim.metadata.finalizers.unwrap_or_default().contains(&CLAIM.to_owned())
        };
        cluster.until(&running, async || kept("used").await && kept("free").await).await;
        for name in ["used", "free"] {
            claims.delete(name, &DeleteParams::default()).await.unwrap();
        }
        let gone = async |name: &str| claims.get_opt(name).await.unwrap().is_none();
        cluster.until(&running, async || gone("free").await).await;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete("first", &now).await.unwrap();
        idle(&running).await;
        assert!(!gone("used").await);
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status("second", &PatchParams::default(), &ended).await.unwrap();
        cluster.until(&running, async || gone("used").await).await;
        running.stop().await;
    });
}

#[test]
fn a_volume_goes_when_it_is_bound_no_more() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["pvprotection"]).await;
        let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
        let name = format!("{}-volume", cluster.namespace("volumes").await);
        let volume = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}});
        cluster.create::<PersistentVolume>(None, volume).await;
        let phase = async |phase: &str| {
            let patch = Patch::Merge(json!({"status": {"phase": phase}}));
            volumes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        };
        phase("Bound").await;
        let kept = async || {
            let volume = volumes.get(&name).await.unwrap();
            volume.metadata.finalizers.unwrap_or_default().contains(&VOLUME.to_owned())
        };
        cluster.until(&running, async || kept().await).await;
        volumes.delete(&name, &DeleteParams::default()).await.unwrap();
        idle(&running).await;
        assert!(volumes.get_opt(&name).await.unwrap().is_some());
        phase("Released").await;
        cluster.until(&running, async || volumes.get_opt(&name).await.unwrap().is_none()).await;
        running.stop().await;
    });
}
