//! A Deployment and its sets in a world without an API: steps, conditions, floors and convergence.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

struct Sim {
    observed: Observed,
    made: i64,
}

impl Sim {
    fn new(replicas: i32, strategy: Value) -> Self {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 2,
                "selector": {"matchLabels": {"app": "a"}},
                "strategy": strategy,
                "template": {"metadata": {"labels": {"app": "a"}}},
            },
        }));
        let observed = Observed {
            deployment: deployment.unwrap(),
            sets: Vec::new(),
            running: BTreeSet::new(),
            collides: false,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        Self { observed, made: 0 }
    }

    fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Self {
        let update = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        Self::new(replicas, json!({"type": "RollingUpdate", "rollingUpdate": update}))
    }

    fn spec(&mut self) -> &mut k8s_openapi::api::apps::v1::DeploymentSpec {
        self.observed.deployment.spec.as_mut().unwrap()
    }

    fn template(&mut self, version: &str) {
        let labels = [("app", "a"), ("version", version)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.spec().template.metadata.as_mut().unwrap().labels = Some(labels.into());
    }

    /// Carries a plan out; says whether there was anything to do but to report.
    fn step(&mut self) -> (Plan, bool) {
        let plan = plan(&self.observed);
        let acts = plan.create.is_some()
            || !(plan.change.is_empty() && plan.delete.is_empty() && plan.revision.is_none());
        if let Some(mut set) = plan.create.clone() {
            self.made += 1;
            let at = jiff::Timestamp::from_second(self.made).unwrap();
            set.metadata.creation_timestamp = Some(Time(at));
            set.metadata.uid = set.metadata.name.clone();
            self.observed.sets.push(*set);
        }
        for change in &plan.change {
            let name = &change.set.metadata.name;
            let sets = &mut self.observed.sets;
            let set = sets.iter_mut().find(|set| set.metadata.name == *name).unwrap();
            set.spec.as_mut().unwrap().replicas = Some(change.replicas);
            let all = set.metadata.annotations.get_or_insert_default();
            all.extend(change.annotations.clone());
        }
        self.observed
            .sets
            .retain(|set| !plan.delete.iter().any(|gone| gone.metadata.name == set.metadata.name));
        let deployment = &mut self.observed.deployment;
        deployment.status = Some(plan.status.clone());
        if let Some(revision) = &plan.revision {
            let all = deployment.metadata.annotations.get_or_insert_default();
            all.insert("deployment.kubernetes.io/revision".to_owned(), revision.clone());
        }
        (plan, acts)
    }

    /// Every set has its pods; of those, at most `most` are available.
    fn pods(&mut self, mut most: impl FnMut(usize) -> i32) {
        self.observed.running.clear();
        for (i, set) in self.observed.sets.iter_mut().enumerate() {
            let count = size(set);
            let status = set.status.get_or_insert_default();
            status.replicas = count;
            let available = count.min(most(i));
            status.available_replicas = Some(available);
            status.ready_replicas = Some(available);
            if count > 0 {
                self.observed.running.extend(set.metadata.uid.clone());
            }
        }
    }

    fn settle(&mut self) -> Plan {
        for _ in 0..200 {
            let (plan, acts) = self.step();
            let before = plan.status;
            self.pods(|_| i32::MAX);
            let (plan, again) = self.step();
            if !acts && !again && plan.status == before {
                return plan;
            }
        }
        panic!("it never settles: {:?}", self.sizes());
    }

    fn sizes(&self) -> Vec<i32> {
        self.observed.sets.iter().map(size).collect()
    }

    fn total(&self) -> i32 {
        self.sizes().iter().sum()
    }

    fn condition(&self, type_: &str) -> (String, String) {
        let status = self.observed.deployment.status.clone().unwrap();
        let all = status.conditions.unwrap();
        let found = all.into_iter().find(|known| known.type_ == type_).unwrap();
        (found.status, found.reason.unwrap())
    }
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn a_rolling_update_goes_step_by_step() {
    let mut sim = Sim::rolling(3, 1, 0);
    let (first, _) = sim.step();
    assert_eq!(sim.sizes(), [3]);
    assert_eq!(first.revision.as_deref(), Some("1"));
    assert_eq!(sim.condition("Progressing"), pair("True", "NewReplicaSetCreated"));
    assert_eq!(sim.condition("Available"), pair("False", "MinimumReplicasUnavailable"));
    sim.settle();
    assert_eq!(sim.condition("Progressing"), pair("True", "NewReplicaSetAvailable"));
    assert_eq!(sim.condition("Available"), pair("True", "MinimumReplicasAvailable"));
    sim.template("2");
    let mut seen = Vec::new();
    for _ in 0..7 {
        sim.step();
        seen.push(sim.sizes());
        sim.pods(|_| i32::MAX);
    }
    let steps = [[3, 1], [2, 1], [2, 2], [1, 2], [1, 3], [0, 3], [0, 3]];
    assert_eq!(seen, steps.map(|step| step.to_vec()));
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_gone() {
    let mut sim = Sim::new(3, json!({"type": "Recreate"}));
    sim.settle();
    sim.template("2");
    sim.step();
    assert_eq!(sim.sizes(), [0]);
    sim.step();
    assert_eq!(sim.sizes(), [0], "pods still run");
    sim.pods(|_| i32::MAX);
    sim.step();
    assert_eq!(sim.sizes(), [0, 3]);
}

#[test]
fn revisions_come_back_by_template_and_history_is_short() {
    let mut sim = Sim::rolling(1, 1, 0);
    for version in ["1", "2", "3", "4"] {
        sim.template(version);
        sim.settle();
    }
    assert_eq!(sim.observed.sets.len(), 3, "two old ones are kept");
    sim.template("3");
    let back = sim.settle();
    assert_eq!(back.revision, None);
    let annotations = sim.observed.deployment.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "5");
    let sets: Vec<_> = sim.observed.sets.iter().collect();
    let set = sets[current(&sim.observed.deployment, &sets).unwrap()];
    let annotations = set.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "3");
}

#[test]
fn a_rollout_that_does_not_move_times_out_and_a_paused_one_does_not() {
    let mut sim = Sim::rolling(2, 1, 0);
    sim.step();
    let (waits, _) = sim.step();
    sim.observed.now = waits.wake.unwrap();
    assert_eq!(sim.observed.now, "2026-01-01T00:10:01Z".parse().unwrap());
    let (late, _) = sim.step();
    assert_eq!(sim.condition("Progressing"), pair("False", "ProgressDeadlineExceeded"));
    assert_eq!(late.wake, None);
    let mut sim = Sim::rolling(2, 1, 0);
    sim.settle();
    sim.spec().paused = Some(true);
    sim.template("2");
    sim.settle();
    assert_eq!(sim.sizes(), [2], "nothing rolls");
    assert_eq!(sim.condition("Progressing"), pair("Unknown", "DeploymentPaused"));
    sim.spec().replicas = Some(4);
    sim.settle();
    assert_eq!(sim.sizes(), [4], "but it scales");
}

#[test]
fn sets_grow_by_their_share_in_a_rollout() {
    let mut sim = Sim::rolling(10, 3, 2);
    sim.settle();
    sim.template("2");
    sim.step();
    sim.pods(|i| if i == 0 { i32::MAX } else { 0 });
    sim.step();
    sim.pods(|i| if i == 0 { i32::MAX } else { 0 });
    sim.step();
    assert_eq!(sim.sizes(), [8, 5]);
    sim.spec().replicas = Some(15);
    sim.step();
    // Upstream's own example: 18 in all, at 8 to 5.
    assert_eq!(sim.sizes(), [11, 7]);
}

#[test]
fn a_name_that_is_taken_is_counted() {
    let mut sim = Sim::rolling(1, 1, 0);
    let name = set_name(&sim.observed.deployment);
    sim.observed.collides = true;
    let (plan, _) = sim.step();
    assert!(plan.create.is_none());
    assert_eq!(plan.status.collision_count, Some(1));
    assert_ne!(set_name(&sim.observed.deployment), name);
}

#[test]
fn shares_round_up_for_surge_and_down_for_the_floor() {
    let quarter = IntOrString::String("25%".to_owned());
    assert_eq!((share(Some(&quarter), 3, true), share(Some(&quarter), 3, false)), (1, 0));
    let sim = Sim::rolling(3, 0, 0);
    assert_eq!(World::new(&sim.observed).unavailable, 1);
}

#[derive(Clone, Debug)]
enum Happens {
    Template(u8),
    Scale(i32),
    Available(Vec<i32>),
    Step,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..4_u8).prop_map(Happens::Template),
        (0..20_i32).prop_map(Happens::Scale),
        proptest::collection::vec(0..20_i32, 5).prop_map(Happens::Available),
        Just(Happens::Step),
        Just(Happens::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn it_keeps_the_floor_and_converges_from_any_state(
        replicas in 0..12_i32,
        surge in 0..4_i32,
        unavailable in 0..4_i32,
        events in proptest::collection::vec(happens(), 0..40),
    ) {
        let mut sim = Sim::rolling(replicas, surge, unavailable);
        let mut scaled = false;
        for event in events {
            match event {
                Happens::Template(version) => sim.template(&version.to_string()),
                Happens::Scale(replicas) => {
                    sim.spec().replicas = Some(replicas);
                    scaled = true;
                }
                Happens::Available(most) => sim.pods(|i| most.get(i).copied().unwrap_or(0)),
                Happens::Step => {
                    let (floor, ceiling, was_scaling) = {
                        let world = World::new(&sim.observed);
                        let ceiling = world.replicas + world.surge;
                        (world.replicas - world.unavailable, ceiling, world.is_scaled())
                    };
                    let before: i32 = sim.observed.sets.iter().map(available).sum();
                    let total = sim.total();
                    sim.step();
                    let kept: i32 =
                        sim.observed.sets.iter().map(|set| available(set).min(size(set))).sum();
                    if !was_scaling && !scaled {
                        prop_assert!(kept >= floor.min(before), "{kept} of {before} at {floor}");
                    }
                    prop_assert!(sim.total() <= ceiling.max(total));
                }
            }
        }
        sim.settle();
        prop_assert_eq!(sim.total(), sim.observed.deployment.spec.as_ref().unwrap().replicas.unwrap());
        let (rest, acts) = sim.step();
        prop_assert!(!acts, "{:?}", rest);
    }
}
