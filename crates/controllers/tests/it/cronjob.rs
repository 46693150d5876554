//! CronJobs end to end, with the Jobs that they make.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kit::clock::rfc3339_seconds;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{idle, on_a_cluster};
use crate::world::{World, create};

impl World {
    async fn jobs(&self) -> Vec<Job> {
        idle(&self.running).await;
        self.api::<Job>().list(&ListParams::default()).await.unwrap().items
    }

    async fn ends(&self, job: &Job) {
        let now = rfc3339_seconds(self.cluster.now());
        let condition =
            |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
        let status = json!({"startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
        let patch = Patch::Merge(json!({"status": status}));
        let jobs = self.api::<Job>();
        jobs.patch_status(&job.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
}

fn every_minute(spec: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let mut cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *",
        "jobTemplate": {"spec": {"template": {"spec": pod}}}}});
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

#[test]
fn a_job_is_made_at_every_time_and_old_ones_go() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["cronjob", "gc"]).await;
        create::<CronJob>(&world, every_minute(json!({"successfulJobsHistoryLimit": 1}))).await;
        assert!(world.jobs().await.is_empty());
        world.cluster.pass(1).await;
        for n in 1..=3 {
            world.cluster.pass(60).await;
            world
                .cluster
                .until(&world.running, async || {
                    world.jobs().await.iter().any(|job| !plan::job::is_finished(job))
                })
                .await;
            let jobs = world.jobs().await;
            let running: Vec<_> = jobs.iter().filter(|job| !plan::job::is_finished(job)).collect();
            assert_eq!(running.len(), 1, "after {n} minutes");
            world.ends(running[0]).await;
            idle(&world.running).await;
        }
        world.cluster.until(&world.running, async || world.jobs().await.len() == 1).await;
        let cron = world.api::<CronJob>().get_status("tick").await.unwrap().status.unwrap();
        assert!(cron.active.is_none() && cron.last_successful_time.is_some());
        assert_eq!(world.events("SuccessfulCreate").await.len(), 3);
        assert!(world.events("UnexpectedJob").await.is_empty());

        // Its Jobs go with it.
        world
            .api::<CronJob>()
            .delete("tick", &kube::api::DeleteParams::background())
            .await
            .unwrap();
        world.cluster.until(&world.running, async || world.jobs().await.is_empty()).await;
        world.running.stop().await;
    });
}

#[test]
fn a_job_that_was_made_before_a_crash_is_found() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["cronjob"]).await;
        create::<CronJob>(&world, every_minute(json!({}))).await;
        idle(&world.running).await;
        world.cluster.pass(61).await;
        world.cluster.until(&world.running, async || world.jobs().await.len() == 1).await;
        // As if the status had never been written.
        let forget = Patch::Merge(json!({"status": {"active": null, "lastScheduleTime": null}}));
        let crons = world.api::<CronJob>();
        crons.patch_status("tick", &PatchParams::default(), &forget).await.unwrap();
        let known = async || {
            let status = crons.get_status("tick").await.unwrap().status.unwrap_or_default();
            status.active.map_or(0, |active| active.len()) == 1
        };
        world.cluster.until(&world.running, known).await;
        assert_eq!(world.jobs().await.len(), 1);
        world.running.stop().await;
    });
}
