//! Jobs end to end: the test is the kubelet, and says how every pod ends.

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kit::clock::rfc3339_seconds;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{idle, on_a_cluster};
use crate::world::{World, create};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const KEPT: &str = "batch.kubernetes.io/job-tracking";

fn job(name: &str, spec: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": pod}}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

impl World {
    async fn status(&self, job: &str) -> JobStatus {
        self.api::<Job>().get_status(job).await.unwrap().status.unwrap_or_default()
    }

    /// Pods that run, in the order of their names.
    async fn live(&self) -> Vec<Pod> {
        idle(&self.running).await;
        let mut pods = self.pods().await;
        pods.retain(plan::pod::is_active);
        pods
    }

    /// A pod ends now.
    async fn end(&self, pod: &Pod, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let now = rfc3339_seconds(self.cluster.now());
        let ended = json!({"terminated": {"exitCode": code, "finishedAt": now}});
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false,
            "restartCount": 0, "state": ended});
        self.say(pod, json!({"phase": phase, "containerStatuses": [container]})).await;
    }

    async fn nothing_is_kept(&self) {
        let pods = self.pods().await;
        let kept = pods.iter().filter(|pod| pod.finalizers().iter().any(|f| f == KEPT));
        assert_eq!(kept.count(), 0);
    }
}

/// The conditions that are true, with their reasons.
fn said(status: &JobStatus) -> Vec<String> {
    let all = status.conditions.iter().flatten().filter(|c| c.status == "True");
    all.map(|c| format!("{} {}", c.type_, c.reason.as_deref().unwrap_or_default())).collect()
}

#[test]
fn every_index_is_done_once() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job"]).await;
        let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2});
        create::<Job>(&world, job("train", spec)).await;
        let pods = world.live().await;
        let index = |pod: &Pod| pod.labels()[INDEX].clone();
        assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), ["0", "1"]);
        let spec = pods[1].spec.as_ref().unwrap();
        assert_eq!(spec.hostname.as_deref(), Some("train-1"));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
        assert!(pods.iter().all(|pod| pod.name_any().starts_with("train-")));
        let status = world.status("train").await;
        assert_eq!((status.active, status.ready, status.succeeded), (Some(2), Some(0), None));
        assert!(status.start_time.is_some());

        for pod in &pods {
            let since = pod.creation_timestamp();
            let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
            world.say(pod, json!({"phase": "Running", "conditions": ready})).await;
        }
        idle(&world.running).await;
        assert_eq!(world.status("train").await.ready, Some(2));
        world.end(&pods[1], 0).await;
        let pods = world.live().await;
        assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), ["0", "2"]);
        let status = world.status("train").await;
        assert_eq!(status.completed_indexes.as_deref(), Some("1"));
        for pod in &pods {
            world.end(pod, 0).await;
        }
        assert!(world.live().await.is_empty());
        let status = world.status("train").await;
        assert_eq!(
            said(&status),
            ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
        );
        assert_eq!((status.active, status.succeeded, status.failed), (None, Some(3), None));
        assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
        assert!(status.completion_time.is_some());
        assert_eq!(world.events("SuccessfulCreate").await.len(), 3);
        assert_eq!(world.events("Completed").await, ["Job completed"]);
        world.nothing_is_kept().await;
        world.running.stop().await;
    });
}

#[test]
fn failures_are_retried_later_and_not_for_ever() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job"]).await;
        create::<Job>(&world, job("bad", json!({"backoffLimit": 1}))).await;
        let first = world.live().await.remove(0);
        world.end(&first, 1).await;
        assert!(world.live().await.is_empty(), "it waits");
        world.cluster.pass(12).await;
        world.cluster.until(&world.running, async || !world.live().await.is_empty()).await;
        assert_eq!(world.status("bad").await.failed, Some(1));
        let second = world.live().await.remove(0);
        assert_ne!(second.uid(), first.uid());
        world.end(&second, 1).await;
        assert!(world.live().await.is_empty());
        let status = world.status("bad").await;
        assert_eq!(
            said(&status),
            ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
        );
        assert_eq!((status.failed, status.completion_time), (Some(2), None));
        let text = ["Job has reached the specified backoff limit"];
        assert_eq!(world.events("BackoffLimitExceeded").await, text);
        world.nothing_is_kept().await;
        world.running.stop().await;
    });
}

#[test]
fn a_disruption_is_no_failure_where_the_policy_says() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job"]).await;
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        ]);
        let spec = json!({"backoffLimit": 0, "parallelism": 2, "completions": 2,
            "podFailurePolicy": {"rules": rules}});
        create::<Job>(&world, job("train", spec)).await;
        let pods = world.live().await;
        let target = json!([{"type": "DisruptionTarget", "status": "True"}]);
        world.say(&pods[0], json!({"phase": "Failed", "conditions": target})).await;
        idle(&world.running).await;
        let status = world.status("train").await;
        assert_eq!((status.failed, said(&status)), (None, Vec::new()));
        world.cluster.pass(12).await;
        world.cluster.until(&world.running, async || world.live().await.len() == 2).await;
        let pods = world.live().await;
        world.end(&pods[1], 42).await;
        assert!(world.live().await.is_empty(), "the other one is stopped");
        let status = world.status("train").await;
        assert_eq!(said(&status), ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]);
        world.nothing_is_kept().await;
        world.running.stop().await;
    });
}

#[test]
fn a_job_is_suspended_resumed_and_ended_by_its_deadline() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job"]).await;
        let spec = json!({"suspend": true, "parallelism": 2, "completions": 2,
            "activeDeadlineSeconds": 5});
        create::<Job>(&world, job("later", spec)).await;
        assert!(world.live().await.is_empty());
        let status = world.status("later").await;
        assert_eq!(
            (said(&status), status.start_time),
            (vec!["Suspended JobSuspended".into()], None)
        );
        let suspend = async |value: bool| {
            world.patch::<Job>("later", json!({"spec": {"suspend": value}})).await;
        };
        suspend(false).await;
        assert_eq!(world.live().await.len(), 2);
        let status = world.status("later").await;
        assert_eq!((said(&status).len(), status.active), (0, Some(2)));
        suspend(true).await;
        assert!(world.live().await.is_empty());
        let status = world.status("later").await;
        assert_eq!((status.active, status.failed), (None, None));
        world.cluster.pass(6).await;
        idle(&world.running).await;
        suspend(false).await;
        assert_eq!(world.live().await.len(), 2, "its time begins anew");
        world.cluster.pass(6).await;
        world.cluster.until(&world.running, async || world.live().await.is_empty()).await;
        let status = world.status("later").await;
        assert_eq!(said(&status).last().unwrap(), "Failed DeadlineExceeded");
        assert_eq!(world.events("Resumed").await.first().unwrap(), "Job resumed");
        world.running.stop().await;
    });
}

#[test]
fn pods_of_a_job_that_is_gone_are_let_go() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job", "gc"]).await;
        let jobs = world.api::<Job>();
        create::<Job>(&world, job("gone", json!({"parallelism": 3}))).await;
        assert_eq!(world.live().await.len(), 3);
        jobs.delete("gone", &DeleteParams::background()).await.unwrap();
        world.cluster.until(&world.running, async || world.pods().await.is_empty()).await;

        create::<Job>(&world, job("left", json!({}))).await;
        assert_eq!(world.live().await.len(), 1);
        jobs.delete("left", &DeleteParams::orphan()).await.unwrap();
        let gone = async || jobs.get_opt("left").await.unwrap().is_none();
        world.cluster.until(&world.running, gone).await;
        idle(&world.running).await;
        assert_eq!(world.pods().await.len(), 1);
        world.nothing_is_kept().await;

        create::<Job>(&world, job("stays", json!({}))).await;
        idle(&world.running).await;
        jobs.delete("stays", &DeleteParams::foreground()).await.unwrap();
        let gone = async || jobs.get_opt("stays").await.unwrap().is_none();
        world.cluster.until(&world.running, gone).await;
        assert_eq!(world.pods().await.len(), 1, "only the orphan is left");
        world.running.stop().await;
    });
}

#[test]
fn what_is_asked_for_again_is_not_made_twice() {
    on_a_cluster(async |cluster| {
        let world = World::new(cluster, &["job"]).await;
        create::<Job>(&world, job("many", json!({"parallelism": 40, "completions": 40}))).await;
        assert_eq!(world.live().await.len(), 40);
        let smaller = Patch::Merge(json!({"spec": {"parallelism": 7}}));
        let jobs = world.api::<Job>();
        jobs.patch("many", &PatchParams::default(), &smaller).await.unwrap();
        assert_eq!(world.live().await.len(), 7);
        let status = world.status("many").await;
        assert_eq!((status.active, status.failed), (Some(7), None));
        for pod in world.live().await {
            world.end(&pod, 0).await;
        }
        assert_eq!(world.live().await.len(), 7);
        assert_eq!(world.status("many").await.succeeded, Some(7));
        world.running.stop().await;
    });
}
