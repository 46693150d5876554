//! Jobs that have ended go when they said they would.

use k8s_openapi::api::batch::v1::Job;
use kit::clock::rfc3339_seconds;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

#[test]
fn a_job_goes_when_its_time_is_up() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["ttlafterfinished", "gc"]).await;
        let namespace = cluster.namespace("ttl").await;
        let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), &namespace);
        for (name, ttl) in [("soon", Some(30)), ("runs", Some(0)), ("stays", None)] {
            let pod = json!({"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}});
            let job = json!({"metadata": {"name": name},
                "spec": {"ttlSecondsAfterFinished": ttl, "template": pod}});
            cluster.create::<Job>(Some(&namespace), job).await;
        }
        let now = rfc3339_seconds(cluster.now());
        let condition =
            |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
        let status = json!({"startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
        for name in ["soon", "stays"] {
            let patch = Patch::Merge(json!({"status": status}));
            jobs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
        cluster.pass(25).await;
        idle(&running).await;
        assert!(jobs.get_opt("soon").await.unwrap().is_some());
        cluster.pass(6).await;
        cluster.until(&running, async || jobs.get_opt("soon").await.unwrap().is_none()).await;
        cluster.pass(60).await;
        idle(&running).await;
        assert!(jobs.get_opt("runs").await.unwrap().is_some());
        assert!(jobs.get_opt("stays").await.unwrap().is_some());
        running.stop().await;
    });
}
