//! Tables of counts and ranks, and that every state converges.

use k8s_openapi::api::core::v1::PodStatus;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn make(name: &str, node: &str, phase: &str, ready: Option<&str>) -> Arc<Pod> {
    let conditions = ready
        .map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "uid": name, "labels": {"app": "a"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": conditions},
        }))
        .unwrap(),
    )
}

fn observed(replicas: i32, pods: Vec<Arc<Pod>>) -> Observed {
    let labels = [("app".to_owned(), "a".to_owned())].into();
    let meta = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
    Observed {
        meta: ObjectMeta { name: Some("s".into()), generation: Some(3), ..ObjectMeta::default() },
        kind: ("apps/v1", "ReplicaSet"),
        replicas,
        min_ready: 60,
        template: PodTemplateSpec { metadata: Some(meta), spec: None },
        status: ReplicaSetStatus::default(),
        reports_terminating: true,
        related: pods.clone(),
        pods,
        now: now(),
    }
}

#[test]
fn those_that_cost_least_go_first() {
    let old = Some("2026-01-01T00:00:00Z");
    let cheap = |pod: Arc<Pod>, cost: &str| {
        let mut pod = Arc::unwrap_or_clone(pod);
        pod.metadata.annotations = Some([(rank_cost(), cost.to_owned())].into());
        Arc::new(pod)
    };
    let mut pods = vec![
        make("h-alone", "n2", "Running", old),
        make("f-doubled", "n1", "Running", old),
        make("g-doubled-long", "n1", "Running", Some("2025-01-01T00:00:00Z")),
        cheap(make("i-dear", "n1", "Running", old), "5"),
        cheap(make("e-cheap", "n1", "Running", old), "-5"),
        make("d-not-ready", "n1", "Running", None),
        make("c-unknown", "n1", "Unknown", None),
        make("b-pending", "n1", "Pending", None),
        make("a-unassigned", "", "Pending", None),
    ];
    let related = pods.clone();
    sort(&mut pods, &related, now());
    let names: Vec<_> = pods.iter().map(|pod| &pod.metadata.uid.as_ref().unwrap()[..1]).collect();
    assert_eq!(names.concat(), "abcdefghi");
}

fn rank_cost() -> String {
    "controller.kubernetes.io/pod-deletion-cost".to_owned()
}

#[test]
fn the_status_counts_and_the_next_available_pod_wakes() {
    let mut gone = Arc::unwrap_or_clone(make("gone", "n", "Running", None));
    gone.metadata.deletion_timestamp = Some(Time(now()));
    let mut bare = Arc::unwrap_or_clone(make("bare", "n", "Running", None));
    bare.metadata.labels = None;
    let pods = vec![
        make("old", "n", "Running", Some("2026-01-01T11:00:00Z")),
        make("new", "n", "Running", Some("2026-01-01T11:59:30Z")),
        Arc::new(gone),
        Arc::new(bare),
    ];
    let plan = plan(&observed(3, pods));
    assert!(plan.create.is_none() && plan.delete.is_empty());
    let status = plan.status;
    assert_eq!((status.replicas, status.fully_labeled_replicas), (3, Some(2)));
    assert_eq!((status.ready_replicas, status.available_replicas), (Some(2), Some(1)));
    assert_eq!((status.terminating_replicas, status.observed_generation), (Some(1), Some(3)));
    assert_eq!(plan.wake, Some("2026-01-01T12:00:30Z".parse().unwrap()));
}

#[test]
fn batches_double_and_a_failure_is_said_once() {
    assert_eq!(batches(10).collect::<Vec<_>>(), [1, 2, 4, 3]);
    assert_eq!(batches(0).count(), 0);
    let mut status = ReplicaSetStatus::default();
    fail(&mut status, "FailedCreate", "one".to_owned(), now());
    fail(&mut status, "FailedCreate", "two".to_owned(), now());
    assert_eq!(failure(&status).unwrap().message.as_deref(), Some("one"));
    fail(&mut status, "FailedDelete", "three".to_owned(), now());
    assert_eq!(failure(&status).unwrap().message.as_deref(), Some("three"));
    assert_eq!(status.conditions.unwrap().len(), 1);
}

#[test]
fn a_set_that_ends_does_nothing() {
    let mut ends = observed(3, Vec::new());
    ends.meta.deletion_timestamp = Some(Time(now()));
    assert!(plan(&ends).create.is_none());
}

proptest! {
    #[test]
    fn from_any_state_it_converges_and_then_plans_nothing(
        replicas in 0..700_i32,
        states in proptest::collection::vec((0..4_usize, 0..3_usize, any::<bool>()), 0..20),
    ) {
        let phases = ["Pending", "Running", "Unknown", "Failed"];
        let nodes = ["", "n1", "n2"];
        let pods = states.iter().enumerate().map(|(i, (phase, node, ready))| {
            let ready = ready.then_some("2026-01-01T00:00:00Z");
            make(&format!("p{i}"), nodes[*node], phases[*phase], ready)
        });
        let mut world = observed(replicas, pods.collect());
        for step in 0..4 {
            let todo = plan(&world);
            prop_assert!(todo.create.is_none() || todo.delete.is_empty());
            if let Some((pod, count)) = todo.create {
                for i in 0..count {
                    let mut pod = (*pod).clone();
                    pod.metadata.uid = Some(format!("n{step}-{i}"));
                    pod.status = Some(PodStatus::default());
                    world.pods.push(Arc::new(pod));
                }
            }
            world.pods.retain(|pod| !todo.delete.iter().any(|gone| Arc::ptr_eq(gone, pod)));
            world.related.clone_from(&world.pods);
        }
        let rest = plan(&world);
        prop_assert!(rest.create.is_none() && rest.delete.is_empty());
        prop_assert_eq!(rest.status.replicas, replicas);
    }
}
