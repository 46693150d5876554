//! Which nodes have a pod, how updates go on, and that every state comes to rest.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn node(name: &str, spec: Value) -> Arc<Node> {
    let labels = json!({"pool": if name.starts_with('g') { "gpu" } else { "cpu" }});
    let meta = json!({"name": name, "labels": labels});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap())
}

fn tainted(name: &str, key: &str, effect: &str) -> Arc<Node> {
    node(name, json!({"taints": [{"key": key, "effect": effect}]}))
}

fn set(image: &str, strategy: Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "set", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }))
    .unwrap()
}

struct Small(Observed, usize);

impl Small {
    fn new(set: DaemonSet, nodes: Vec<Arc<Node>>) -> Self {
        let observed = Observed {
            set,
            nodes,
            pods: Vec::new(),
            revisions: Vec::new(),
            collides: false,
            failures: BTreeMap::new(),
            now: now(),
        };
        Self(observed, 0)
    }

    /// One step, with no grace for pods; says whether something was done.
    fn step(&mut self) -> Plan {
        let plan = plan(&self.0);
        let Changes { create, renumber, delete } = plan.revisions.clone();
        let all = &mut self.0.revisions;
        if let Some((known, number)) = renumber {
            all.iter_mut().find(|r| **r == known).unwrap().revision = number;
        }
        all.retain(|known| !delete.contains(known));
        all.extend(create.map(|revision| *revision));
        self.0.pods.retain(|pod| !plan.delete.iter().any(|gone| Arc::ptr_eq(gone, pod)));
        for mut pod in plan.create.clone() {
            self.1 += 1;
            pod.metadata.name = Some(format!("p{:03}", self.1));
            let node = node_of(&pod).unwrap().to_owned();
            pod.spec.as_mut().unwrap().node_name = Some(node);
            self.0.pods.push(Arc::new(pod));
        }
        self.0.set.status = Some(plan.status.clone());
        plan
    }

    fn ready(&mut self) {
        for pod in self.0.pods.iter_mut().filter(|pod| !pod::is_finished(pod)) {
            let ready = json!({"phase": "Running", "conditions":
                [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T11:00:00Z"}]});
            Arc::make_mut(pod).status = Some(serde_json::from_value(ready).unwrap());
        }
    }

    fn settle(&mut self) {
        for _ in 0..40 {
            self.ready();
            let plan = self.step();
            let idle = plan.create.is_empty() && plan.delete.is_empty();
            if idle && plan.revisions == Changes::default() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<_> = self.0.pods.iter().filter_map(|pod| node_of(pod)).collect();
        nodes.sort_unstable();
        nodes
    }

    fn images(&self) -> Vec<&str> {
        let image = |pod: &Arc<Pod>| pod.spec.as_ref().unwrap().containers[0].image.clone();
        let new = self.0.pods.iter().filter(|pod| image(pod).as_deref() == Some("two"));
        new.filter_map(|pod| node_of(pod)).collect()
    }
}

#[test]
fn every_eligible_node_has_one_and_no_other() {
    let nodes = vec![
        node("c1", json!({})),
        tainted("c2", "node.kubernetes.io/unschedulable", "NoSchedule"),
        tainted("c3", "example.com/mine", "NoSchedule"),
        tainted("c4", "node.kubernetes.io/not-ready", "NoExecute"),
        node("g1", json!({"unschedulable": true})),
    ];
    let mut world = Small::new(set("one", json!({"type": "RollingUpdate"})), nodes);
    world.settle();
    assert_eq!(world.nodes(), ["c1", "c2", "c4", "g1"]);
    let pod = world.0.pods[0].clone();
    let revision = &world.0.revisions[0];
    let hash = &revision.metadata.labels.as_ref().unwrap()[HASH_LABEL];
    assert_eq!(&pod.metadata.labels.as_ref().unwrap()[HASH_LABEL], hash);
    assert_eq!(revision.metadata.name, Some(format!("d-{hash}")));
    assert_eq!(pod.spec.as_ref().unwrap().tolerations.as_ref().unwrap().len(), 6);
    let status = world.0.set.status.clone().unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_available), (4, Some(4)));
    assert_eq!((status.updated_number_scheduled, status.number_unavailable), (Some(4), None));

    let selector = [("pool".to_owned(), "gpu".to_owned())].into();
    let template = &mut world.0.set.spec.as_mut().unwrap().template;
    template.spec.as_mut().unwrap().node_selector = Some(selector);
    world.settle();
    assert_eq!(world.nodes(), ["g1"]);
    // A taint that comes later keeps what runs and lets nothing new in.
    world.0.nodes = vec![tainted("g1", "example.com/mine", "NoSchedule")];
    world.settle();
    assert_eq!(world.nodes(), ["g1"]);
    assert_eq!(world.0.set.status.as_ref().unwrap().number_misscheduled, 1);
    world.0.nodes = vec![tainted("g1", "example.com/mine", "NoExecute")];
    world.settle();
    assert!(world.0.pods.is_empty());
}

#[test]
fn an_update_takes_as_many_nodes_as_allowed() {
    let nodes = || (0..10).map(|i| node(&format!("c{i}"), json!({}))).collect::<Vec<_>>();
    let rolling = |field: &str| json!({"type": "RollingUpdate", "rollingUpdate": {field: "25%"}});
    let mut world = Small::new(set("one", rolling("maxUnavailable")), nodes());
    world.settle();
    let two = set("two", json!(null)).spec.unwrap().template;
    world.0.set.spec.as_mut().unwrap().template = two.clone();
    world.step();
    assert_eq!(world.0.revisions.len(), 2);
    assert_eq!(world.step().delete.len(), 3, "a quarter, rounded up");
    assert_eq!(world.step().create.len(), 3);
    assert!(world.step().delete.is_empty(), "until they are available");
    world.ready();
    assert_eq!(world.step().delete.len(), 3);
    world.settle();
    assert_eq!(world.images().len(), 10);

    let mut world = Small::new(set("one", rolling("maxSurge")), nodes());
    world.settle();
    world.0.set.spec.as_mut().unwrap().template = two.clone();
    world.step();
    let plan = world.step();
    assert_eq!((plan.create.len(), plan.delete.len()), (3, 0));
    assert_eq!(world.step().delete.len(), 0, "until the new ones are available");
    world.ready();
    assert_eq!(world.step().delete.len(), 3);
    world.settle();
    assert_eq!((world.images().len(), world.0.pods.len()), (10, 10));

    let mut world = Small::new(set("one", json!({"type": "OnDelete"})), nodes());
    world.settle();
    world.0.set.spec.as_mut().unwrap().template = two;
    world.settle();
    assert!(world.images().is_empty());
    world.0.pods.pop();
    world.settle();
    assert_eq!(world.images(), ["c9"]);
}

#[test]
fn what_failed_is_deleted_the_later_the_more_often() {
    let mut world = Small::new(set("one", json!({})), vec![node("c1", json!({}))]);
    world.settle();
    Arc::make_mut(&mut world.0.pods[0]).status.as_mut().unwrap().phase = Some("Failed".to_owned());
    let first = plan(&world.0);
    assert_eq!((first.delete.len(), first.failed), (1, vec!["c1".to_owned()]));
    assert_eq!(first.events[0].reason, "FailedDaemonPod");
    world.0.failures = [("c1".to_owned(), Failures { count: 4, last: now() })].into();
    let waits = plan(&world.0);
    assert!(waits.delete.is_empty());
    assert_eq!(waits.wake, Some("2026-01-01T12:00:08Z".parse().unwrap()));
}

#[test]
fn an_undone_template_is_the_newest_revision_again() {
    let mut world = Small::new(set("one", json!({})), vec![node("c1", json!({}))]);
    world.settle();
    for (image, expected) in [("two", vec![1, 2]), ("one", vec![3, 2])] {
        let template = set(image, json!(null)).spec.unwrap().template;
        world.0.set.spec.as_mut().unwrap().template = template;
        world.settle();
        let numbers: Vec<_> = world.0.revisions.iter().map(|r| r.revision).collect();
        assert_eq!(numbers, expected);
    }
    world.0.set.spec.as_mut().unwrap().revision_history_limit = Some(0);
    world.settle();
    assert_eq!(world.0.revisions.len(), 1);
}

proptest! {
    #[test]
    fn every_state_comes_to_rest_with_one_pod_for_each_node(
        nodes in 0..6_usize,
        surge: bool,
        pods in proptest::collection::vec((0..8_usize, 0..5_usize, any::<bool>(), any::<bool>()), 0..12),
    ) {
        let rolling = if surge { json!({"maxSurge": 1, "maxUnavailable": 0}) } else { json!({}) };
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let all: Vec<_> = (0..nodes).map(|i| node(&format!("c{i}"), json!({}))).collect();
        let mut world = Small::new(set("one", strategy), all);
        world.step();
        let hash = world.0.revisions[0].metadata.labels.as_ref().unwrap()[HASH_LABEL].clone();
        for (i, (on, phase, new, ready)) in pods.into_iter().enumerate() {
            let phase = ["Pending", "Running", "Failed", "Succeeded", "Unknown"][phase];
            let hash = if new { &hash } else { "old" };
            let status = if ready { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": format!("x{i}"), "labels": {HASH_LABEL: hash}},
                "spec": {"nodeName": format!("c{on}"), "containers": []},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status}]},
            });
            world.0.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
        }
        world.settle();
        let expected: Vec<_> = (0..nodes).map(|i| format!("c{i}")).collect();
        world.0.pods.retain(|pod| !pod.metadata.name.as_deref().unwrap().starts_with('x')
            || expected.iter().any(|known| Some(known.as_str()) == node_of(pod)));
        prop_assert_eq!(world.nodes(), expected);
        prop_assert!(world.0.pods.iter().all(|pod|
            pod.metadata.labels.as_ref().unwrap()[HASH_LABEL] == hash));
    }
}
