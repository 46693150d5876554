//! Rows of what ends a Job and how pods are made, and a small world in which nothing is counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A Job in the first minute of its life.
fn job(spec: Value) -> Job {
    let mut full = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        full[field] = value.clone();
    }
    let meta = json!({"name": "j", "namespace": "n", "uid": "job"});
    serde_json::from_value(json!({"metadata": meta, "spec": full})).unwrap()
}

fn make(name: &str, phase: &str, index: Option<i32>) -> Arc<Pod> {
    let index = index.map(|index| json!({world::INDEX: index.to_string()}));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "uid": name, "annotations": index, "finalizers": [FINALIZER],
                "namespace": "n", "creationTimestamp": "2026-01-01T11:00:00Z",
            },
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": phase},
        }))
        .unwrap(),
    )
}

fn with(pod: &Arc<Pod>, more: Value) -> Arc<Pod> {
    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }
    let mut value = serde_json::to_value(&**pod).unwrap();
    merge(&mut value, &more);
    Arc::new(serde_json::from_value(value).unwrap())
}

fn failed_at(name: &str, index: Option<i32>, at: &str, code: i32) -> Arc<Pod> {
    let ended = json!({"terminated": {"exitCode": code, "finishedAt": at}});
    let status = json!([{"name": "c", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": ended}]);
    with(&make(name, "Failed", index), json!({"status": {"containerStatuses": status}}))
}

fn decide(job: &Job, pods: &[Arc<Pod>]) -> Plan {
    plan(&Observed { job: job.clone(), pods: pods.to_vec(), now: now() })
}

/// Type, reason and message of the last condition that a plan reports.
fn said(plan: &Plan) -> (String, String, String) {
    let conditions = plan.status.clone().unwrap().conditions.unwrap();
    let last = conditions.last().unwrap().clone();
    (last.type_, last.reason.unwrap(), last.message.unwrap())
}

#[test]
fn pods_of_an_indexed_job_are_told_their_index() {
    let indexed = job(json!({"completionMode": "Indexed", "completions": 5, "parallelism": 2}));
    let plan = decide(&indexed, &[make("a", "Succeeded", Some(0)), make("b", "Running", Some(2))]);
    assert_eq!(plan.create.len(), 1);
    let pod = &plan.create[0];
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("j-1-"));
    assert_eq!(pod.metadata.labels.as_ref().unwrap()[world::INDEX], "1");
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()[world::INDEX], "1");
    assert!(is_tracked(&pod.metadata));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("j-1"));
    let variable = &spec.containers[0].env.as_ref().unwrap()[0];
    assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    let status = plan.status.unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0"));
    assert_eq!((status.active, status.succeeded), (Some(2), Some(1)));
    assert_eq!(plan.release.len(), 1);
}

#[test]
fn what_ended_is_written_down_then_released_then_counted() {
    let mut job = job(json!({"completions": 2}));
    let pod = make("a", "Succeeded", None);
    let first = decide(&job, std::slice::from_ref(&pod));
    assert_eq!(first.create.len(), 1);
    assert_eq!(first.release.len(), 1);
    let status = first.status.unwrap();
    assert_eq!(status.succeeded, None);
    let uncounted = status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!(uncounted.succeeded, Some(vec!["a".to_owned()]));
    job.status = Some(status);
    let free = with(&pod, json!({"metadata": {"finalizers": []}}));
    let running = make("b", "Running", None);
    let second = decide(&job, &[free.clone(), running.clone()]);
    let status = second.status.unwrap();
    assert_eq!(status.succeeded, Some(1));
    assert_eq!(status.uncounted_terminated_pods, Some(Default::default()));
    job.status = Some(status);
    assert!(decide(&job, &[free, running]).status.is_none(), "nothing is left to say");
}

#[test]
fn failures_delay_the_next_pod_longer_and_longer() {
    let job = job(json!({}));
    let pod = |name: &str, at: &str| failed_at(name, None, at, 1);
    let one = decide(&job, &[pod("a", "2026-01-01T11:59:55Z")]);
    assert!(one.create.is_empty());
    assert_eq!(one.wake, Some("2026-01-01T12:00:05Z".parse().unwrap()));
    let two = decide(&job, &[pod("a", "2026-01-01T11:59:50Z"), pod("b", "2026-01-01T11:59:55Z")]);
    assert_eq!(two.wake, Some("2026-01-01T12:00:15Z".parse().unwrap()));
    assert_eq!(decide(&job, &[pod("a", "2026-01-01T11:59:50Z")]).create.len(), 1);
    let long = backoff::until(60, now());
    assert_eq!(long, "2026-01-01T12:10:00Z".parse().unwrap());
}

#[test]
fn what_ends_a_job_is_said_with_its_reason() {
    let old = "2026-01-01T00:00:00Z";
    let rule = |action: &str| {
        json!({"rules": [{"action": action,
            "onExitCodes": {"operator": "In", "values": [42]}}]})
    };
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        job(spec)
    };
    let per_index = |more: Value| {
        let mut spec = json!({"backoffLimitPerIndex": 0, "backoffLimit": i32::MAX});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        indexed(spec)
    };
    let bad = |index| failed_at("bad", index, old, 42);
    let mut late = job(json!({"activeDeadlineSeconds": 60}));
    let start = Some(Time("2026-01-01T11:59:00Z".parse().unwrap()));
    late.status = Some(JobStatus { start_time: start, ..JobStatus::default() });
    let done = |index| make("done", "Succeeded", Some(index));
    let policy = |rule: Value| indexed(json!({"successPolicy": {"rules": [rule]}}));
    let container = "Container c for pod n/bad failed with exit code 42 matching FailJob rule at \
                     index 0";
    let limit = "Job has reached the specified backoff limit";
    let rows: Vec<(Job, Arc<Pod>, &str, &str, &str)> = vec![
        (
            job(json!({"backoffLimit": 0})),
            bad(None),
            "FailureTarget",
            "BackoffLimitExceeded",
            limit,
        ),
        (
            job(json!({"podFailurePolicy": rule("FailJob")})),
            bad(None),
            "FailureTarget",
            "PodFailurePolicy",
            container,
        ),
        (
            late,
            make("a", "Running", None),
            "FailureTarget",
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        ),
        (
            per_index(json!({"maxFailedIndexes": 0})),
            bad(Some(1)),
            "FailureTarget",
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ),
        (
            policy(json!({"succeededIndexes": "1-2", "succeededCount": 1})),
            done(2),
            "SuccessCriteriaMet",
            "SuccessPolicy",
            "Matched rules at index 0",
        ),
        (
            job(json!({})),
            make("a", "Succeeded", None),
            "SuccessCriteriaMet",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        ),
    ];
    for (job, pod, type_, reason, message) in rows {
        let plan = decide(&job, &[pod]);
        assert_eq!(said(&plan), (type_.to_owned(), reason.to_owned(), message.to_owned()));
        assert!(plan.create.is_empty());
    }
    let lets_go_on: Vec<(Job, Arc<Pod>)> = vec![
        (job(json!({"backoffLimit": 0, "podFailurePolicy": rule("Ignore")})), bad(None)),
        (policy(json!({"succeededIndexes": "0-1"})), done(1)),
        (per_index(json!({})), bad(Some(1))),
    ];
    for (job, pod) in lets_go_on {
        let plan = decide(&job, &[pod]);
        assert!(!plan.create.is_empty());
        assert_eq!(plan.status.unwrap().conditions, None);
    }
}

#[test]
fn an_index_has_its_own_limit_and_its_own_delay() {
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
        "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    let mut job = job(spec);
    let first = failed_at("a", Some(0), "2026-01-01T11:59:55Z", 1);
    let plan = decide(&job, &[first.clone(), make("b", "Running", Some(1))]);
    assert!(plan.create.is_empty() && plan.release.is_empty(), "it holds the count");
    assert_eq!(plan.wake, Some("2026-01-01T12:00:05Z".parse().unwrap()));
    let later = "2026-01-01T12:00:05Z".parse().unwrap();
    let pods = vec![first, make("b", "Running", Some(1))];
    let plan = super::plan(&Observed { job: job.clone(), pods, now: later });
    let annotations = plan.create[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations[world::FAILURES], "1");
    let count = json!({"metadata": {"annotations": {world::FAILURES: "1"}}});
    let second = with(&failed_at("c", Some(0), "2026-01-01T11:00:00Z", 1), count);
    let plan = decide(&job, &[second.clone(), make("b", "Running", Some(1))]);
    let status = plan.status.unwrap();
    assert_eq!(status.failed_indexes.as_deref(), Some("0"));
    assert!(plan.create.is_empty());
    job.status = Some(status);
    let plan = decide(&job, &[second, make("b", "Succeeded", Some(1))]);
    assert_eq!(said(&plan).1, "FailedIndexes");
}

#[test]
fn a_suspended_job_has_no_pods_and_starts_anew() {
    let mut job = job(json!({"suspend": true, "parallelism": 2, "completions": 2}));
    let fresh = decide(&job, &[]);
    assert_eq!(said(&fresh).1, "JobSuspended");
    assert_eq!(fresh.status.clone().unwrap().start_time, None);
    let plan = decide(&job, &[make("a", "Running", None), make("b", "Pending", None)]);
    assert_eq!((plan.delete.len(), plan.uncounted, plan.release.len()), (2, true, 0));
    let status = plan.status.unwrap();
    assert_eq!((status.active, status.terminating, status.failed), (None, Some(2), None));
    job.status = fresh.status;
    job.spec.as_mut().unwrap().suspend = Some(false);
    let plan = decide(&job, &[]);
    assert_eq!(plan.create.len(), 2);
    assert_eq!(plan.events[0].reason, "Resumed");
    assert_eq!(plan.status.unwrap().start_time, Some(Time(now())));
}

#[test]
fn those_too_many_go_doubled_indexes_first() {
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
    let pods = [
        make("a", "Running", Some(0)),
        make("b", "Pending", Some(0)),
        make("c", "Running", Some(1)),
        make("d", "Running", Some(7)),
    ];
    let plan = decide(&job(spec), &pods);
    let names: Vec<_> = plan.delete.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["d", "b"]);
}

#[test]
fn what_terminates_is_replaced_when_the_policy_says() {
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T11:00:00Z"}});
    let pod = with(&make("a", "Running", None), gone);
    let eager = decide(&job(json!({})), std::slice::from_ref(&pod));
    assert_eq!((eager.create.len(), eager.release.len()), (1, 1));
    let patient = decide(&job(json!({"podReplacementPolicy": "Failed"})), &[pod]);
    assert!(patient.create.is_empty() && patient.release.is_empty());
    assert_eq!(patient.status.unwrap().terminating, Some(1));
}

#[test]
fn another_manager_is_left_alone_and_the_finished_only_released() {
    let theirs = job(json!({"managedBy": "example.com/queue"}));
    let pod = make("a", "Succeeded", None);
    let plan = decide(&theirs, std::slice::from_ref(&pod));
    assert!(plan.status.is_none() && plan.create.is_empty() && plan.release.is_empty());
    let mut done = job(json!({}));
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    done.status = Some(serde_json::from_value(complete).unwrap());
    let plan = decide(&done, &[pod]);
    assert!(plan.status.is_none() && plan.release.len() == 1);
}

/// How a pod of the small world ends.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    Fails,
    IsDeleted,
}

struct Small {
    job: Job,
    pods: BTreeMap<String, Arc<Pod>>,
    made: usize,
    now: Timestamp,
}

impl Small {
    fn plan(&self) -> Plan {
        let pods = self.pods.values().cloned().collect();
        plan(&Observed { job: self.job.clone(), pods, now: self.now })
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut Pod)) {
        let uid = pod.metadata.uid.clone().unwrap();
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        change(Arc::make_mut(pod));
        if pod.metadata.deletion_timestamp.is_some() && !is_tracked(&pod.metadata) {
            self.pods.remove(&uid);
        }
    }

    /// Carries a plan out; a crash after so many writes leaves the rest undone.
    fn apply(&mut self, plan: Plan, mut writes: usize) {
        let mut crashed = move || {
            writes = writes.saturating_sub(1);
            writes == 0
        };
        let free = |pod: &mut Pod| pod.metadata.finalizers = None;
        for pod in &plan.delete {
            if crashed() {
                return;
            }
            if plan.uncounted {
                self.change(pod, free);
            }
            let now = self.now;
            self.change(pod, |pod| pod.metadata.deletion_timestamp = Some(Time(now)));
        }
        for mut pod in plan.create {
            if crashed() {
                return;
            }
            self.made += 1;
            let uid = format!("p{:03}", self.made);
            pod.metadata.uid = Some(uid.clone());
            pod.metadata.creation_timestamp = Some(Time(self.now));
            self.pods.insert(uid, Arc::new(pod));
        }
        if crashed() {
            return;
        }
        if let Some(status) = plan.status {
            self.job.status = Some(status);
        }
        for pod in &plan.release {
            if crashed() {
                return;
            }
            self.change(pod, free);
        }
    }
}

proptest! {
    #[test]
    fn every_pod_is_counted_once_whatever_crashes(
        completions in 1..6_i32,
        parallelism in 1..4_i32,
        indexed: bool,
        limit in 0..8_i32,
        fates in proptest::collection::vec((0..3_u8, 0..9_usize), 1..40),
    ) {
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        let job = job(json!({"completions": completions, "parallelism": parallelism,
            "completionMode": mode, "backoffLimit": limit}));
        let mut world = Small { job, pods: BTreeMap::new(), made: 0, now: now() };
        let (mut good, mut bad) = (0, 0);
        let rest = std::iter::repeat_n((0, usize::MAX), 60);
        for (fate, writes) in fates.into_iter().chain(rest) {
            let plan = world.plan();
            let before = world.job.status.clone().unwrap_or_default();
            world.apply(plan, writes);
            let status = world.job.status.clone().unwrap_or_default();
            prop_assert!(status.failed >= before.failed && status.succeeded >= before.succeeded);
            let live = world.pods.values().filter(|pod| pod::is_active(pod)).count();
            prop_assert!(live <= parallelism as usize, "{live} pods run");
            if is_finished(&world.job) {
                break;
            }
            let fate = [Fate::Succeeds, Fate::Fails, Fate::IsDeleted][usize::from(fate)];
            let first = world.pods.values().find(|pod| pod::is_active(pod)).cloned();
            let ending = super::condition(&status, "FailureTarget").is_some();
            if let Some(pod) = first.filter(|_| !ending) {
                let now = world.now;
                world.change(&pod, |pod| {
                    let phase = match fate {
                        Fate::Succeeds => "Succeeded",
                        Fate::Fails => "Failed",
                        Fate::IsDeleted => "Running",
                    };
                    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
                    if matches!(fate, Fate::IsDeleted) {
                        pod.metadata.deletion_timestamp = Some(Time(now));
                    }
                });
                match fate {
                    Fate::Succeeds => good += 1,
                    Fate::Fails | Fate::IsDeleted => bad += 1,
                }
            }
            world.now = world.now.checked_add(jiff::SignedDuration::from_mins(11)).unwrap();
        }
        prop_assert!(is_finished(&world.job), "{:?}", world.job.status);
        let status = world.job.status.clone().unwrap();
        prop_assert_eq!(status.active, None);
        if super::condition(&status, "Complete").is_some() {
            prop_assert_eq!((status.succeeded, status.failed.unwrap_or(0)), (Some(completions), bad));
            prop_assert_eq!(good, completions);
        } else {
            prop_assert_eq!(status.succeeded.unwrap_or(0), good);
            // Those that ran at the end were stopped and count as failed.
            prop_assert!(status.failed.unwrap_or(0) >= bad && bad > limit);
        }
        if indexed && good == completions {
            let all = Indexes::from_iter(0..completions).to_string();
            prop_assert_eq!(status.completed_indexes, Some(all));
        }
        world.apply(world.plan(), usize::MAX);
        prop_assert!(world.pods.values().all(|pod| !is_tracked(&pod.metadata)));
    }
}
