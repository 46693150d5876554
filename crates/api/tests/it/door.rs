//! The embedded server takes the definitions and refuses bad input at the door, with a sentence that
//! says what to do.

use api::ledger::Limit;
use api::machine::MachineSpec;
use api::node_pool::NodePoolSpec;
use api::{Breaker, Ledger, Machine, NodePool};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

async fn server() -> Client {
    let server =
        apiserver::ApiServer::in_memory(kit::clock::Clock::system(), kit::ids::Ids::seeded(1));
    let client = Client::new(server.await.unwrap().service_as_admin(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::definitions() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    client
}

fn pool(name: &str) -> NodePool {
    let spec = NodePoolSpec {
        instance_type: "h100".to_owned(),
        tenant: "acme".to_owned(),
        target_nodes: Some(4),
        ..NodePoolSpec::default()
    };
    NodePool::new(name, spec)
}

fn refused<T: std::fmt::Debug>(answer: kube::Result<T>, says: &str) {
    let error = answer.unwrap_err().to_string();
    assert!(error.contains(says), "{error:?} does not say {says:?}");
}

#[tokio::test]
async fn pools_that_contradict_themselves_are_refused() {
    let pools: Api<NodePool> = Api::all(server().await);
    let create = async |change: fn(&mut NodePoolSpec)| {
        let mut wrong = pool("wrong");
        change(&mut wrong.spec);
        pools.create(&PostParams::default(), &wrong).await
    };
    refused(
        create(|s| s.target_racks = Some(1)).await,
        "exactly one of targetNodes and targetRacks",
    );
    refused(create(|s| s.min_nodes = Some(5)).await, "targetNodes must be at least minNodes");
    refused(create(|s| s.max_nodes = Some(3)).await, "targetNodes must be at most maxNodes");
    refused(create(|s| s.tenant.clear()).await, "spec.tenant");
    pools.create(&PostParams::default(), &pool("good")).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"instanceType": "h200"}}));
    let answer = pools.patch("good", &PatchParams::default(), &patch).await;
    refused(answer, "instanceType cannot be changed: make another pool");
}

#[tokio::test]
async fn there_is_one_ledger() {
    let ledgers: Api<Ledger> = Api::all(server().await);
    let spec = || api::ledger::LedgerSpec {
        fleet: Limit { nodes: Some(2), percent: None },
        ..api::ledger::LedgerSpec::default()
    };
    let answer = ledgers.create(&PostParams::default(), &Ledger::new("other", spec())).await;
    refused(answer, "there is one ledger, and its name is fleet");
    let mut named = spec();
    named.named.insert("pools/x".to_owned(), Limit::default());
    let answer = ledgers.create(&PostParams::default(), &Ledger::new("fleet", named)).await;
    refused(answer, "names must be pool/NAME, rack/NAME or tenant/NAME");
    ledgers.create(&PostParams::default(), &Ledger::new("fleet", spec())).await.unwrap();
}

#[tokio::test]
async fn what_has_not_happened_cannot_be_acknowledged() {
    let breakers: Api<Breaker> = Api::all(server().await);
    let spec = |acknowledged| api::breaker::BreakerSpec {
        value: "r1-l1".to_owned(),
        acknowledged,
        ..api::breaker::BreakerSpec::default()
    };
    let answer = breakers.create(&PostParams::default(), &Breaker::new("b", spec(1))).await;
    refused(answer, "what has not happened cannot be acknowledged");
    breakers.create(&PostParams::default(), &Breaker::new("b", spec(0))).await.unwrap();
    let openings = Patch::Merge(json!({"status": {"openings": 1, "open": true}}));
    breakers.patch_status("b", &PatchParams::default(), &openings).await.unwrap();
    let acknowledge = |n: u32| Patch::Merge(json!({"spec": {"acknowledged": n}}));
    let open = breakers.patch("b", &PatchParams::default(), &acknowledge(1)).await.unwrap();
    assert!(!open.is_open());
    let back = breakers.patch("b", &PatchParams::default(), &acknowledge(0)).await;
    refused(back, "acknowledged can only grow");
}

#[tokio::test]
async fn a_request_stands_until_it_is_answered_or_taken_away() {
    let machines: Api<Machine> = Api::all(server().await);
    let mut spec = MachineSpec { instance_type: "h100".to_owned(), ..MachineSpec::default() };
    spec.place.site = "here".to_owned();
    spec.place.rack = "r1".to_owned();
    spec.place.slot = 1;
    spec.bmc.address = "https://10.0.0.7".to_owned();
    spec.bmc.credential = "bmc".to_owned();
    spec.macs = vec!["02:00:00:00:00:01".to_owned()];
    machines.create(&PostParams::default(), &Machine::new("m", spec)).await.unwrap();
    let ask = async |id: &str| {
        let request = json!({"id": id, "ask": "Test", "by": "ada", "why": "why not", "at": "2026-01-01T00:00:00Z"});
        let patch = Patch::Merge(json!({"spec": {"request": request}}));
        machines.patch("m", &PatchParams::default(), &patch).await
    };
    ask("one").await.unwrap();
    ask("one").await.unwrap();
    refused(ask("two").await, "spec.request is not answered yet");
    let answer =
        json!({"id": "one", "outcome": "Running", "why": "", "at": "2026-01-01T00:00:00Z"});
    let answered = Patch::Merge(json!({"status": {"answer": answer}}));
    machines.patch_status("m", &PatchParams::default(), &answered).await.unwrap();
    ask("two").await.unwrap();
    refused(ask("three").await, "take the request away first");
    let none = Patch::Merge(json!({"spec": {"request": null}}));
    machines.patch("m", &PatchParams::default(), &none).await.unwrap();
    ask("three").await.unwrap();
}
