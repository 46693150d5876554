//! Each account is given: a write by which something is decided says why on its line of the audit log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use api::audit::ACCOUNTS;
use api::{Incident, Machine};
use apiserver::ApiServer;
use apiserver::audit::{Audit, AuditSink, Policy};
use apiserver::auth::User;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// The annotations of each line, oldest first.
#[derive(Default)]
struct Lines(Mutex<Vec<BTreeMap<String, String>>>);

impl AuditSink for Lines {
    fn take(&self, event: Value) {
        let ours = |(key, value): (&String, &Value)| {
            let (account, key) = key.split_once(".fleet.seatrial.dev/")?;
            Some((format!("{account}/{key}"), value.as_str().unwrap_or_default().to_owned()))
        };
        let annotations = event["annotations"].as_object();
        let ours: BTreeMap<_, _> = annotations.into_iter().flatten().filter_map(ours).collect();
        if event["stage"] == "ResponseComplete" {
            self.0.lock().unwrap().push(ours);
        }
    }
}

struct World {
    lines: Arc<Lines>,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let lines = Arc::new(Lines::default());
        let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
        let (stopping, ends) = tokio::sync::watch::channel(false);
        drop(stopping);
        let server = ApiServer::new(apiserver::Options {
            store: Arc::new(store::MemoryStore::new()),
            clock: kit::clock::Clock::system(),
            ids: kit::ids::Ids::seeded(1),
            authenticator: Default::default(),
            token_key: None,
            without: apiserver::Plugin::OF_CONTROLLERS.into(),
            audit: Some(Audit {
                policy: Arc::new(Policy::parse(policy).unwrap()),
                sink: lines.clone(),
            }),
            inflight: apiserver::InFlight::UNLIMITED,
            bookmark_every: None,
            stopping: ends,
        });
        let server = server.await.unwrap();
        let admin = Client::new(server.service_as_admin(), "default");
        let new = PostParams::default();
        for definition in api::definitions() {
            Api::all(admin.clone()).create(&new, &definition).await.unwrap();
        }
        for account in &ACCOUNTS {
            let (policy, binding) = account.policy();
            Api::all(admin.clone()).create(&new, &policy).await.unwrap();
            Api::all(admin.clone()).create(&new, &binding).await.unwrap();
        }
        let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
        let ada = User { name: "ada".to_owned(), groups, ..User::default() };
        Self { lines, client: Client::new(server.service_as(ada), "default") }
    }

    fn of<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + std::fmt::Debug + Clone,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.of::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What the last line says of the fleet.
    fn last(&self) -> Value {
        json!(self.lines.0.lock().unwrap().last().unwrap())
    }
}

#[tokio::test]
async fn what_is_done_to_a_machine_is_on_the_line_with_who_asked_and_what_came_of_it() {
    let world = World::new().await;
    let (new, at) = (PostParams::default(), "2026-01-01T00:00:00Z");
    let machine: Machine = serde_json::from_value(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "m"},
        "spec": {
            "instanceType": "h100", "place": {"site": "here", "rack": "r1", "slot": 1},
            "bmc": {"address": "http://bmc/m", "credential": "c"}, "macs": ["02:00:00:00:00:01"],
        },
    }))
    .unwrap();
    world.of::<Machine>().create(&new, &machine).await.unwrap();
    assert_eq!(world.last(), json!({}));

    let request = json!({"id": "r", "ask": "ResetGpu", "target": "GPU-3", "by": "ada", "at": at,
        "why": "it is slow", "evidence": ["p99 is 3 s", "XID 63"], "incident": "i"});
    let asked = Patch::Merge(json!({"spec": {"request": request}}));
    world.of::<Machine>().patch("m", &PatchParams::default(), &asked).await.unwrap();
    let told = json!({"requests/request": "r", "requests/ask": "ResetGpu GPU-3",
        "requests/by": "ada", "requests/why": "it is slow",
        "requests/evidence": "p99 is 3 s; XID 63", "requests/incident": "i"});
    assert_eq!(world.last(), told);

    let operation = |effect: Value| {
        json!({"id": "o", "effect": effect, "request": "r", "why": "ada asked", "since": at,
            "deadline": at})
    };
    let status = |effect: Value| json!({"state": "Production", "operation": operation(effect)});
    world.status::<Machine>("m", status(json!({"chore": "ResetGpu"}))).await;
    let told = json!({"operations/operation": "o", "operations/effect": "chore ResetGpu",
        "operations/why": "ada asked", "operations/request": "r"});
    assert_eq!(world.last(), told);
    world.status::<Machine>("m", json!({"why": "resets the GPU"})).await;
    assert_eq!(world.last(), json!({}), "the same operation is not told of again");
    world.status::<Machine>("m", status(json!({"chore": null, "power": "ForceRestart"}))).await;
    assert_eq!(world.last()["operations/effect"], "power ForceRestart");

    let answer = json!({"id": "r", "outcome": "Succeeded", "why": "GPU-3 is sound", "at": at});
    world.status::<Machine>("m", json!({"answer": answer, "operation": null})).await;
    let told = json!({"answers/request": "r", "answers/outcome": "Succeeded",
        "answers/why": "GPU-3 is sound"});
    assert_eq!(world.last(), told);
}

#[tokio::test]
async fn an_incident_a_phase_and_a_cordon_are_on_the_line() {
    let world = World::new().await;
    let new = PostParams::default();
    let incident: Incident = serde_json::from_value(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Incident", "metadata": {"name": "i"},
        "spec": {"node": "n", "nodeUid": "u", "machine": "m", "cause": "xid/95", "by": "agent",
            "evidence": ["Xid 95"], "opened": "2026-01-01T00:00:00Z"},
    }))
    .unwrap();
    world.of::<Incident>().create(&new, &incident).await.unwrap();
    let told = json!({"incidents/node": "n", "incidents/cause": "xid/95", "incidents/by": "agent",
        "incidents/evidence": "Xid 95"});
    assert_eq!(world.last(), told);
    let status = json!({"stage": "Draining", "rung": 0, "tries": 0, "rounds": 0, "why": "1 pod"});
    world.status::<Incident>("i", status).await;
    let told = json!({"stages/node": "n", "stages/stage": "Draining", "stages/why": "1 pod"});
    assert_eq!(world.last(), told);

    let mut node = Node::default();
    node.metadata.name = Some("n".to_owned());
    world.of::<Node>().create(&new, &node).await.unwrap();
    let phase = |status: &str| {
        json!({"conditions": [{"type": "PendingPhase", "status": status, "reason": "Reboot",
            "message": "a new kernel"}]})
    };
    world.status::<Node>("n", phase("True")).await;
    assert_eq!(world.last(), json!({"phases/phase": "PendingPhase=True Reboot: a new kernel"}));
    world.status::<Node>("n", json!({"phase": "Running"})).await;
    assert_eq!(world.last(), json!({}));

    let cordon = json!({"metadata": {"annotations": {"fleet.seatrial.dev/cordoned-for": "i"}},
        "spec": {"unschedulable": true}});
    let nodes = world.of::<Node>();
    nodes.patch("n", &PatchParams::default(), &Patch::Merge(cordon)).await.unwrap();
    assert_eq!(world.last(), json!({"cordons/cordon": "cordoned", "cordons/incident": "i"}));
    let uncordon = json!({"metadata": {"annotations": null}, "spec": {"unschedulable": null}});
    nodes.patch("n", &PatchParams::default(), &Patch::Merge(uncordon)).await.unwrap();
    assert_eq!(world.last(), json!({"cordons/cordon": "uncordoned"}));
}

#[test]
fn every_account_is_in_the_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/audit-trail.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for account in &ACCOUNTS {
        assert!(guide.contains(account.tells), "the guide does not say {:?}", account.tells);
        for key in account.keys() {
            let key = key.replace(".fleet.seatrial.dev/", "/");
            assert!(guide.contains(&format!("`{key}`")), "the guide does not name {key}");
        }
    }
}
