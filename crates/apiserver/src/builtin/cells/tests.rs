//! What every kind must have, and the summary of a pod, state by state.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::facts;
use super::{FAMILIES, column, finished};
use crate::projection::Projection;

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

/// A cell, made of nothing but the fields that its recipe names.
fn cell(kind: &str, name: &str, object: &Value) -> Value {
    let (recipe, _) = column(kind, name).unwrap();
    let mut wanted = Projection::nothing();
    recipe.wants(&mut wanted);
    recipe.cell(&wanted.read(object.to_string().as_bytes()).unwrap(), now())
}

#[test]
fn every_column_of_upstreams_has_a_recipe_and_words() {
    let mut known = Vec::new();
    for (group_version, resources) in &facts::facts().unwrap().resources {
        for resource in resources.values() {
            let kind = format!("{group_version} {}", resource.kind);
            for fact in &resource.columns {
                let found = column(&kind, &fact.name);
                assert!(
                    found.is_some_and(|(_, words)| words.ends_with('.')),
                    "{kind} {}",
                    fact.name
                );
                known.push((kind.clone(), fact.name.clone()));
            }
        }
    }
    for (kind, columns) in FAMILIES.iter().copied().flatten() {
        for (name, ..) in *columns {
            let place = ((*kind).to_owned(), (*name).to_owned());
            assert!(known.contains(&place), "{kind} has no column {name}");
        }
    }
}

#[test]
fn nothing_in_an_object_breaks_a_cell() {
    let strange =
        [json!(null), json!([]), json!("x"), json!(-1), json!([[{}], 1]), json!({"a": {}})];
    for (kind, columns) in FAMILIES.iter().copied().flatten() {
        for (name, recipe, _) in *columns {
            for value in &strange {
                let object = json!({"metadata": value, "spec": value, "status": value,
                    "conditions": value, "subjects": value, "ports": value, "subsets": value});
                recipe.cell(&object, now());
                cell(kind, name, &object);
            }
        }
    }
}

/// A container's status: its name, `R` ready or `-` not, restarts, and its state.
fn container(name: &str, ready: bool, restarts: i64, state: Value) -> Value {
    json!({"name": name, "ready": ready, "restartCount": restarts, "state": state})
}

fn running() -> Value {
    json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

fn ended(reason: &str, signal: i64, code: i64) -> Value {
    json!({"terminated": {"reason": reason, "signal": signal, "exitCode": code}})
}

fn check(what: &str, pod: &Value, ready: &str, status: &str, restarts: &str) {
    let cells = ["Ready", "Status", "Restarts"].map(|name| cell("v1 Pod", name, pod));
    assert_eq!(cells, [json!(ready), json!(status), json!(restarts)], "{what}");
}

#[test]
fn containers_give_a_pod_its_status() {
    let pod = |phase: &str, statuses: Vec<Value>| {
        let containers: Vec<Value> = statuses.iter().map(|s| json!({"name": s["name"]})).collect();
        json!({"spec": {"containers": containers},
            "status": {"phase": phase, "containerStatuses": statuses}})
    };
    let one = |phase, state: Value| pod(phase, vec![container("a", false, 0, state)]);
    check("new", &pod("Pending", vec![]), "0/0", "Pending", "0");
    check(
        "ready",
        &pod("Running", vec![container("a", true, 3, running())]),
        "1/1",
        "Running",
        "3",
    );
    check("not ready", &one("Running", running()), "0/1", "Running", "0");
    check("waits", &one("Pending", waiting("ErrImagePull")), "0/1", "ErrImagePull", "0");
    check("waits for nothing", &one("Pending", json!({"waiting": {}})), "0/1", "Pending", "0");
    check("failed", &one("Failed", ended("Error", 0, 1)), "0/1", "Error", "0");
    check("by signal", &one("Failed", ended("", 9, 137)), "0/1", "Signal:9", "0");
    check("by code", &one("Failed", ended("", 0, 3)), "0/1", "ExitCode:3", "0");
    check("done", &one("Succeeded", ended("Completed", 0, 0)), "0/1", "Completed", "0");

    let two = |first, second| {
        pod("Running", vec![container("a", false, 1, first), container("b", true, 2, second)])
    };
    check("the first one's reason", &two(waiting("A"), waiting("B")), "0/2", "A", "3");
    let half = two(ended("Completed", 0, 0), running());
    check("half done", &half, "1/2", "NotReady", "3");
    let mut ready = half.clone();
    ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check("half done and ready", &ready, "1/2", "Running", "3");
    let broken = two(ended("Completed", 0, 0), ended("OOMKilled", 0, 137));
    check("half done, half broken", &broken, "0/2", "OOMKilled", "3");

    let mut gated = pod("Pending", vec![]);
    gated["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check("gated", &gated, "0/0", "SchedulingGated", "0");
    let mut evicted = pod("Failed", vec![]);
    evicted["status"]["reason"] = "Evicted".into();
    check("evicted", &evicted, "0/0", "Evicted", "0");
}

#[test]
fn a_pod_that_goes_says_so() {
    let going = |phase: &str, reason: &str| {
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": phase, "reason": reason}})
    };
    check("goes", &going("Running", ""), "0/0", "Terminating", "0");
    check("its node is lost", &going("Running", "NodeLost"), "0/0", "Unknown", "0");
    check("is gone already", &going("Succeeded", ""), "0/0", "Succeeded", "0");
    check("has failed already", &going("Failed", "Evicted"), "0/0", "Evicted", "0");
}

#[test]
fn init_containers_come_first() {
    let pod = |statuses: Vec<Value>| {
        json!({
            "spec": {"containers": [{"name": "a"}],
                "initContainers": [{"name": "i"}, {"name": "j"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Pending", "initContainerStatuses": statuses,
                "containerStatuses": [container("a", false, 5, waiting("PodInitializing"))]},
        })
    };
    let done = || container("i", true, 1, ended("Completed", 0, 0));
    let at_j = |state| pod(vec![done(), container("j", false, 2, state)]);
    check("waits", &at_j(waiting("PodInitializing")), "0/2", "Init:1/3", "3");
    check("runs", &at_j(running()), "0/2", "Init:1/3", "3");
    check("no image", &at_j(waiting("ImagePullBackOff")), "0/2", "Init:ImagePullBackOff", "3");
    check("fails", &at_j(ended("Error", 0, 1)), "0/2", "Init:Error", "3");
    check("by signal", &at_j(ended("", 9, 137)), "0/2", "Init:Signal:9", "3");
    check("by code", &at_j(ended("", 0, 2)), "0/2", "Init:ExitCode:2", "3");
    let mut again = at_j(ended("", 0, 2));
    again["status"]["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
    check("initialized before", &again, "0/2", "PodInitializing", "5");

    let mut sidecar = container("s", true, 4, running());
    let all = |sidecar: &Value| pod(vec![done(), done(), sidecar.clone()]);
    check("a sidecar that starts", &all(&sidecar), "0/2", "Init:2/3", "6");
    sidecar["started"] = true.into();
    check("a sidecar that runs", &all(&sidecar), "1/2", "PodInitializing", "9");
    sidecar["ready"] = false.into();
    check("a sidecar that is not ready", &all(&sidecar), "0/2", "PodInitializing", "9");
}

#[test]
fn restarts_say_when_the_last_was() {
    let ended = |time: &str| json!({"terminated": {"exitCode": 1, "finishedAt": time}});
    let mut a = container("a", true, 2, running());
    a["lastState"] = ended("2026-01-01T23:50:00Z");
    let mut b = container("b", true, 1, running());
    b["lastState"] = ended("2026-01-01T23:55:00Z");
    let mut pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "containerStatuses": [a, b]}});
    check("two", &pod, "2/2", "Running", "3 (5m ago)");
    pod["status"]["containerStatuses"][0]["restartCount"] = i64::MAX.into();
    check("too many", &pod, "2/2", "Running", "9223372036854775807 (5m ago)");
    for n in 0..2 {
        pod["status"]["containerStatuses"][n]["restartCount"] = 0.into();
    }
    check("none", &pod, "2/2", "Running", "0");
}

#[test]
fn rows_of_finished_pods_say_so() {
    let reason = |phase: &str| {
        finished(&json!({"status": {"phase": phase}})).map(|c| c[0]["reason"].clone())
    };
    assert_eq!(reason("Succeeded"), Some(json!("Succeeded")));
    assert_eq!(reason("Failed"), Some(json!("Failed")));
    assert_eq!(reason("Running"), None);
}

#[test]
fn metrics_show_what_is_and_what_should_be() {
    let check = |spec: Value, status: Value, expect: &str| {
        let object = json!({"spec": {"metrics": spec}, "status": {"currentMetrics": status}});
        assert_eq!(cell("autoscaling/v2 HorizontalPodAutoscaler", "Targets", &object), expect);
    };
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}});
    let queue = json!({"type": "External", "external": {"target": {"value": "30"}}});
    check(json!([]), json!([]), "<none>");
    check(json!([cpu]), json!(null), "cpu: <unknown>/80%");
    check(
        json!([cpu]),
        json!([{"resource": {"current": {"averageUtilization": 7}}}]),
        "cpu: 7%/80%",
    );
    check(
        json!([memory]),
        json!([{"resource": {"current": {"averageValue": "5Mi"}}}]),
        "memory: 5Mi/1Gi",
    );
    check(json!([queue]), json!([{"external": {"current": {"value": "3"}}}]), "3/30");
    check(
        json!([cpu, memory, queue, queue]),
        json!([]),
        "cpu: <unknown>/80%, memory: <unknown>/1Gi + 2 more...",
    );
}

#[test]
fn annotations_say_what_fields_said_later() {
    let beta = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"storageClassName": "new"}});
    assert_eq!(cell("v1 PersistentVolume", "StorageClass", &beta), "old");
    assert_eq!(cell("v1 PersistentVolumeClaim", "StorageClass", &beta), "old");
    let default = |name: &str, value: &str| {
        let class = json!({"metadata": {"name": "c", "annotations": {name: value}}});
        cell("storage.k8s.io/v1 StorageClass", "Name", &class)
    };
    assert_eq!(default("storageclass.kubernetes.io/is-default-class", "true"), "c (default)");
    assert_eq!(default("storageclass.beta.kubernetes.io/is-default-class", "true"), "c (default)");
    assert_eq!(default("storageclass.kubernetes.io/is-default-class", "yes"), "c");
}
