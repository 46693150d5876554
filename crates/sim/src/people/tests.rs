use std::sync::atomic::{AtomicU32, Ordering};

use api::breaker::{BreakerSpec, BreakerStatus};
use api::machine::{Bmc, MachineSpec, MachineStatus, Place};
use api::request::{Answer, Ask, Effect, Operation, Outcome, Power};
use api::state::State;
use api::{Breaker, Machine};
use apiserver::ApiServer;
use apiserver::auth::User;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kit::controller::{Options, Running, VIRTUAL_WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::advance;

use super::*;

const START: &str = "2026-01-01T00:00:00Z";
const MINUTE: Duration = Duration::from_secs(60);

struct Site {
    people: People,
    running: Running,
    machines: Api<Machine>,
    breakers: Api<Breaker>,
}

/// A workshop that has its parts an hour after the beginning of the test.
#[derive(Default)]
struct Slow(AtomicU32);

impl Workshop for Slow {
    fn ready(&self, _: &str) -> Option<Timestamp> {
        Some(START.parse::<Timestamp>().unwrap() + Duration::from_secs(10 * 3_600))
    }

    fn mend(&self, machine: &str) -> String {
        self.0.fetch_add(1, Ordering::Relaxed);
        format!("replaced GPU 3 of {machine}")
    }
}

async fn site(workshop: Arc<dyn Workshop>) -> Site {
    let clock = Clock::simulated(START.parse().unwrap());
    let server = ApiServer::in_memory(clock.clone(), Ids::seeded(1)).await.unwrap();
    let admin = Client::new(server.service_as_admin(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    for definition in api::definitions() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    for (user, declaration) in People::declarations() {
        let role = declaration.cluster_role();
        let name = role.metadata.name.clone().unwrap();
        Api::all(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
        let subject = Subject { kind: "User".into(), name: user.into(), ..Subject::default() };
        let binding = ClusterRoleBinding {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".into(),
                kind: "ClusterRole".into(),
                name,
            },
            subjects: Some(vec![subject]),
        };
        Api::all(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
    }
    let client = |user: &'static str| {
        let groups = vec!["system:authenticated".to_owned()];
        let user = User { name: user.to_owned(), groups, ..User::default() };
        Client::new(server.service_as(user), "default")
    };
    let mut manager = Manager::new(Options {
        client: admin.clone(),
        clock,
        ids: Ids::seeded(2),
        watch_lifetime: VIRTUAL_WATCH_LIFETIME,
        instance: "test".to_owned(),
    });
    let people = People { workshop, ..People::default() };
    people.join(&mut manager, client);
    let (machines, breakers) = (Api::all(admin.clone()), Api::all(admin));
    Site { people, running: manager.start(), machines, breakers }
}

impl Site {
    async fn machine(&self, status: MachineStatus) {
        let spec = MachineSpec {
            instance_type: "h100".to_owned(),
            place: Place {
                site: "s".to_owned(),
                rack: "r1".to_owned(),
                slot: 1,
                ..Place::default()
            },
            bmc: Bmc { address: "https://10.0.0.1".to_owned(), credential: "bmc".to_owned() },
            macs: vec!["02:00:00:00:00:01".to_owned()],
            ..MachineSpec::default()
        };
        let made = Machine::new("r1-s01", spec);
        self.machines.create(&PostParams::default(), &made).await.unwrap();
        self.status(status).await;
    }

    async fn status(&self, status: MachineStatus) {
        let patch = Patch::Merge(json!({"status": status}));
        self.machines.patch_status("r1-s01", &PatchParams::default(), &patch).await.unwrap();
    }

    /// What people have done after so much time.
    async fn after(&self, time: Duration) -> Vec<(&'static str, Deed)> {
        self.running.until_idle().await.unwrap();
        advance(time).await;
        self.running.until_idle().await.unwrap();
        self.people.acts.all().iter().map(|act| (act.by, act.what)).collect()
    }

    async fn get(&self) -> Machine {
        self.machines.get("r1-s01").await.unwrap()
    }
}

fn since(state: State) -> MachineStatus {
    MachineStatus { state, since: START.parse().ok(), ..MachineStatus::default() }
}

#[tokio::test(start_paused = true)]
async fn a_racked_machine_is_certified_after_a_while() {
    let site = site(Arc::new(Sound)).await;
    site.machine(MachineStatus { onboardings: 2, ..since(State::Onboard) }).await;
    assert_eq!(site.after(14 * MINUTE).await, []);
    assert_eq!(site.after(MINUTE).await, [(TECHNICIAN, Deed::Certified)]);
    assert_eq!(site.get().await.spec.certified, 2);
    assert_eq!(site.after(60 * MINUTE).await.len(), 1, "once");
}

#[tokio::test(start_paused = true)]
async fn a_broken_machine_is_mended_once_the_part_is_there() {
    let workshop = Arc::new(Slow::default());
    let site = site(workshop.clone()).await;
    let operation = Operation {
        id: "o1".to_owned(),
        effect: Effect::Power(Power::Off),
        target: None,
        request: None,
        boot: None,
        reset_before: None,
        told: None,
        why: "switch off".to_owned(),
        since: START.parse().unwrap(),
        deadline: START.parse().unwrap(),
    };
    let answer = Answer {
        id: "n1".to_owned(),
        outcome: Outcome::Succeeded,
        why: "in triage".to_owned(),
        boot: None,
        at: START.parse().unwrap(),
    };
    let rma = MachineStatus { operation: Some(operation), ..since(State::Rma) };
    site.machine(rma).await;
    // An older request of another's, with words that belong to it alone.
    let old = json!({"spec": {"request": {
        "id": "n1", "ask": "Triage", "by": "seatrial-node", "why": "sick", "incident": "i",
        "nodeUid": "u", "boot": "b", "target": "GPU-1", "evidence": ["e"],
        "at": START,
    }}});
    let patch = Patch::Merge(old);
    site.machines.patch("r1-s01", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(site.after(12 * 60 * MINUTE).await, [], "it is still being switched off");
    let off = Patch::Merge(json!({"status": {"operation": null}}));
    site.machines.patch_status("r1-s01", &PatchParams::default(), &off).await.unwrap();
    assert_eq!(site.after(MINUTE).await, [], "another's request is not answered yet");
    let off = Patch::Merge(json!({"status": {"answer": &answer}}));
    site.machines.patch_status("r1-s01", &PatchParams::default(), &off).await.unwrap();
    assert_eq!(site.after(Duration::ZERO).await, [(TECHNICIAN, Deed::Mended)]);
    let request = site.get().await.spec.request.unwrap();
    assert_eq!((request.ask, &*request.by), (Ask::Onboard, TECHNICIAN));
    assert_eq!(request.why, "replaced GPU 3 of r1-s01");
    assert_eq!((request.node_uid, request.boot, request.target), (None, None, None));
    assert_eq!(site.after(24 * 60 * MINUTE).await.len(), 1);
    assert_eq!(workshop.0.load(Ordering::Relaxed), 1, "once");
    // It comes again, and is another repair.
    let answer = Some(Answer { id: request.id, ..answer });
    site.status(MachineStatus { since: None, answer: answer.clone(), ..since(State::Debug) }).await;
    let later = START.parse::<Timestamp>().unwrap() + Duration::from_secs(36 * 3_600 + 60);
    site.status(MachineStatus { since: Some(later), answer, ..since(State::Debug) }).await;
    assert_eq!(site.after(119 * MINUTE).await.len(), 1);
    assert_eq!(site.after(MINUTE).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_acknowledged_after_a_while() {
    let site = site(Arc::new(Sound)).await;
    let spec = BreakerSpec { value: "r1-l1".to_owned(), ..BreakerSpec::default() };
    site.breakers.create(&PostParams::default(), &Breaker::new("leaf-r1-l1", spec)).await.unwrap();
    let open = |openings, since| {
        let why = "8 nodes of leaf r1-l1 fell ill within minutes".to_owned();
        BreakerStatus { openings, open: true, since, why, nodes: Vec::new() }
    };
    let write = async |status: BreakerStatus| {
        let patch = Patch::Merge(json!({"status": status}));
        site.breakers.patch_status("leaf-r1-l1", &PatchParams::default(), &patch).await.unwrap();
    };
    write(open(1, START.parse().ok())).await;
    assert_eq!(site.after(9 * MINUTE).await, []);
    assert_eq!(site.after(MINUTE).await, [(OPERATOR, Deed::Acknowledged)]);
    let breaker = site.breakers.get("leaf-r1-l1").await.unwrap();
    assert_eq!((breaker.spec.acknowledged, breaker.is_open()), (1, false));
    assert_eq!(breaker.spec.by.as_deref(), Some(OPERATOR));
    let again = START.parse::<Timestamp>().unwrap() + Duration::from_secs(600);
    write(open(2, Some(again))).await;
    assert_eq!(site.after(10 * MINUTE).await.len(), 2);
}

#[test]
fn people_are_as_much_faster_as_their_world() {
    let hands = Hands::default().divided(600.0);
    assert_eq!(hands.certify, Duration::from_millis(1_500));
    assert_eq!(Hands::default().divided(0.0).repair, Duration::ZERO);
}
