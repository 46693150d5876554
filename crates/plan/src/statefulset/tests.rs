//! Order, updates, claims, and that every state comes to rest.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}], "volumes": [{"name": "data"}]},
    })
}

fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "net", "selector": {"matchLabels": {"app": "web"}},
        "template": template("one"),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let meta = json!({"name": "web", "namespace": "n", "uid": "set", "generation": 1});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

struct Small(Observed);

impl Small {
    fn new(set: StatefulSet) -> Self {
        Self(Observed {
            set,
            pods: Vec::new(),
            claims: BTreeMap::new(),
            revisions: Vec::new(),
            collides: false,
            now: now(),
        })
    }

    fn step(&mut self) -> Plan {
        let plan = plan(&self.0);
        let Changes { create, renumber, delete } = plan.revisions.clone();
        let all = &mut self.0.revisions;
        if let Some((known, number)) = renumber {
            all.iter_mut().find(|r| **r == known).unwrap().revision = number;
        }
        all.retain(|known| !delete.contains(known));
        all.extend(create.map(|revision| *revision));
        for (claim, _) in &plan.claim {
            let name = claim.metadata.name.clone().unwrap();
            assert!(self.0.claims.insert(name, Arc::new(claim.clone())).is_none());
        }
        for (claim, owners) in &plan.own {
            let known = self.0.claims.get_mut(claim.metadata.name.as_ref().unwrap()).unwrap();
            Arc::make_mut(known).metadata.owner_references = Some(owners.clone());
        }
        for (pod, labels) in &plan.label {
            let pod = self.0.pods.iter_mut().find(|known| Arc::ptr_eq(known, pod)).unwrap();
            let meta = &mut Arc::make_mut(pod).metadata;
            meta.labels.get_or_insert_default().extend(labels.clone());
        }
        let gone = |pod: &Arc<Pod>| plan.delete.iter().any(|g| g.metadata.uid == pod.metadata.uid);
        self.0.pods.retain(|pod| !gone(pod));
        for mut pod in plan.create.clone() {
            let uid = format!("uid-{}", pod.metadata.name.as_ref().unwrap());
            pod.metadata.uid = Some(uid);
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

    /// Steps until nothing is to be done; the names of what was made and deleted, in order.
    fn settle(&mut self) -> Vec<String> {
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap();
        let mut did = Vec::new();
        for _ in 0..60 {
            self.ready();
            let plan = self.step();
            did.extend(plan.create.iter().map(|pod| format!("+{}", name(pod))));
            did.extend(plan.delete.iter().map(|pod| format!("-{}", name(pod))));
            let idle = plan.create.is_empty() && plan.delete.is_empty() && plan.own.is_empty();
            if idle && plan.revisions == Changes::default() {
                return did;
            }
        }
        panic!("it never comes to rest");
    }

    fn spec(&mut self) -> &mut StatefulSetSpec {
        self.0.set.spec.as_mut().unwrap()
    }

    fn update(&mut self, image: &str) {
        self.spec().template = serde_json::from_value(template(image)).unwrap();
    }

    fn images(&self) -> String {
        let mut pods = self.0.pods.clone();
        pods.sort_by_key(|pod| pod.metadata.name.clone());
        let image =
            |pod: &Arc<Pod>| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        pods.iter().map(image).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn pods_come_and_go_in_order() {
    let mut world = Small::new(set(3, json!({"ordinals": {"start": 4}})));
    assert_eq!(world.settle(), ["+web-4", "+web-5", "+web-6"]);
    let pod = &world.0.pods[0];
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!((&*labels[NAME_LABEL], &*labels[INDEX_LABEL]), ("web-4", "4"));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-4"), Some("net")));
    let status = world.0.set.status.clone().unwrap();
    assert_eq!(
        (status.replicas, status.ready_replicas, status.current_replicas),
        (3, Some(3), Some(3))
    );
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!(Some(&labels[REVISION_LABEL]), status.current_revision.as_ref());
    world.spec().replicas = Some(1);
    assert_eq!(world.settle(), ["-web-6", "-web-5"]);

    let mut world = Small::new(set(3, json!({"podManagementPolicy": "Parallel"})));
    world.step();
    assert_eq!(world.step().create.len(), 3);
    world.spec().replicas = Some(0);
    assert_eq!(world.step().delete.len(), 3);
}

#[test]
fn one_that_is_not_available_stops_the_others() {
    let mut world = Small::new(set(2, json!({"minReadySeconds": 7200})));
    world.step();
    assert_eq!(world.step().create.len(), 1);
    assert!(world.step().create.is_empty(), "it is not ready");
    world.ready();
    let plan = world.step();
    assert!(plan.create.is_empty(), "it is not available");
    assert_eq!(plan.wake, Some("2026-01-01T13:00:00Z".parse().unwrap()));
    world.0.now = plan.wake.unwrap();
    assert_eq!(world.step().create.len(), 1);
    let first = world.0.pods.iter_mut().find(|p| p.metadata.name.as_deref() == Some("web-0"));
    let failed = Some("Failed".to_owned());
    Arc::make_mut(first.unwrap()).status.as_mut().unwrap().phase = failed;
    let plan = world.step();
    assert_eq!(plan.delete[0].metadata.name.as_deref(), Some("web-0"));
}

#[test]
fn an_update_goes_from_the_last_to_the_partition() {
    let mut world = Small::new(set(4, json!({})));
    world.settle();
    let before = world.0.set.status.clone().unwrap().current_revision;
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    world.spec().update_strategy = serde_json::from_value(partition).unwrap();
    world.update("two");
    assert_eq!(world.settle(), ["-web-3", "+web-3", "-web-2", "+web-2"]);
    assert_eq!(world.images(), "one one two two");
    let status = world.0.set.status.clone().unwrap();
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(2)));
    assert_eq!(status.current_revision, before);
    assert_ne!(status.update_revision, before);
    world.0.pods.retain(|pod| pod.metadata.name.as_deref() != Some("web-0"));
    world.settle();
    assert_eq!(world.images(), "one one two two", "below the partition nothing changes");
    world.spec().update_strategy.as_mut().unwrap().rolling_update.as_mut().unwrap().partition =
        Some(0);
    world.settle();
    assert_eq!(world.images(), "two two two two");
    let status = world.0.set.status.clone().unwrap();
    assert_eq!(status.current_revision, status.update_revision);
    world.update("one");
    world.settle();
    let mut numbers: Vec<_> = world.0.revisions.iter().map(|r| r.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "the earlier revision is the newest again");

    world.spec().update_strategy = serde_json::from_value(json!({"type": "OnDelete"})).unwrap();
    world.update("three");
    assert!(world.settle().is_empty());
    world.0.pods.retain(|pod| pod.metadata.name.as_deref() != Some("web-1"));
    world.settle();
    assert_eq!(world.images(), "one three one one");
}

#[test]
fn claims_are_made_kept_and_taken_along() {
    let claims =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
    let owners = |world: &Small, claim: &str| {
        let owners = world.0.claims[claim].metadata.owner_references.clone().unwrap_or_default();
        owners.iter().map(|by| by.kind.clone()).collect::<Vec<_>>()
    };
    let mut world = Small::new(set(2, json!({"volumeClaimTemplates": claims})));
    world.settle();
    assert_eq!(world.0.claims.keys().collect::<Vec<_>>(), ["data-web-0", "data-web-1"]);
    let volumes = world.0.pods[0].spec.as_ref().unwrap().volumes.clone().unwrap();
    assert_eq!(volumes.len(), 1, "the claim is instead of the template's volume");
    let source = volumes[0].persistent_volume_claim.as_ref().unwrap();
    assert_eq!(source.claim_name, "data-web-0");
    world.spec().replicas = Some(1);
    world.settle();
    assert_eq!(world.0.claims.len(), 2);
    assert!(owners(&world, "data-web-1").is_empty());

    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    world.spec().persistent_volume_claim_retention_policy = serde_json::from_value(policy).unwrap();
    world.spec().replicas = Some(2);
    world.settle();
    assert_eq!(owners(&world, "data-web-1"), ["StatefulSet"]);
    world.spec().replicas = Some(1);
    world.ready();
    let plan = world.step();
    assert_eq!((plan.own.len(), plan.delete.len()), (1, 1));
    assert_eq!(owners(&world, "data-web-1"), ["Pod"]);
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet"]);
    world.spec().replicas = Some(2);
    world.ready();
    assert!(world.step().create.is_empty(), "it waits for the garbage collector");
    world.0.claims.remove("data-web-1");
    world.ready();
    let plan = world.step();
    assert_eq!((plan.claim.len(), plan.create.len()), (1, 1));
}

proptest! {
    #[test]
    fn every_state_comes_to_rest(
        replicas in 0..5_i32,
        parallel: bool,
        partition in 0..6_i32,
        pods in proptest::collection::btree_map(0..7_i32, (0..5_usize, any::<bool>()), 0..7),
    ) {
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        let more = json!({"podManagementPolicy": policy, "updateStrategy": rolling});
        let mut world = Small::new(set(replicas, more));
        world.settle();
        world.update("two");
        world.0.pods.clear();
        for (ordinal, (phase, ready)) in pods {
            let phase = ["Pending", "Running", "Failed", "Succeeded", "Unknown"][phase];
            let status = if ready { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": format!("web-{ordinal}"), "uid": format!("x{ordinal}")},
                "spec": {"containers": [{"name": "c", "image": "one"}]},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status}]},
            });
            world.0.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
        }
        world.settle();
        let mut names: Vec<_> = world.0.pods.iter().filter_map(|p| p.metadata.name.clone()).collect();
        names.sort();
        prop_assert_eq!(names, (0..replicas).map(|i| format!("web-{i}")).collect::<Vec<_>>());
        let updated = replicas.saturating_sub(partition).max(0);
        prop_assert!(world.images().matches("two").count() >= updated as usize);
        let status = world.0.set.status.clone().unwrap();
        prop_assert_eq!((status.replicas, status.ready_replicas.unwrap_or(0)), (replicas, replicas));
    }
}
