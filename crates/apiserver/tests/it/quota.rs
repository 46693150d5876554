//! Quotas: never exceeded, whoever creates at once, and right after every write.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::support::{Rack, admin, client, config_map, define, refusal, server, soon};

async fn limit(client: &Client, hard: Value) {
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
}

async fn used(client: &Client) -> Value {
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let status = quotas.get("q").await.unwrap().status.unwrap();
    serde_json::to_value(status.used).unwrap()
}

fn pod(name: &str) -> Pod {
    let asks = json!({"requests": {"cpu": "500m"}});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": asks}]},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creates_at_once_never_exceed_a_quota() {
    const MOST: usize = 7;
    let server = server().await;
    limit(&admin(&server), json!({"configmaps": MOST.to_string()})).await;
    let creators: Vec<_> = (0..40)
        .map(|n| {
            let maps: Api<ConfigMap> = Api::default_namespaced(admin(&server));
            tokio::spawn(async move {
                let map = config_map(&format!("m{n}"), &[]);
                maps.create(&PostParams::default(), &map).await.is_ok()
            })
        })
        .collect();
    let mut created = 0;
    for creator in creators {
        created += usize::from(soon(creator).await.unwrap());
    }
    let client = admin(&server);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert_eq!(created, MOST);
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), MOST);
    assert_eq!(used(&client).await, json!({"configmaps": "7"}));
}

#[tokio::test(start_paused = true)]
async fn what_ends_or_goes_is_free_at_once() {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let server =
        apiserver::ApiServer::in_memory(Clock::simulated(start), Ids::seeded(1)).await.unwrap();
    let client = admin(&server);
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("before")).await.unwrap();
    limit(&client, json!({"requests.cpu": "1", "pods": "9"})).await;
    assert_eq!(used(&client).await, json!({"requests.cpu": "500m", "pods": "1"}));
    pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let (code, reason, message) = refusal(pods.create(&PostParams::default(), &pod("b")).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: \
         requests.cpu=1, limited: requests.cpu=1"
    );
    assert_eq!(used(&client).await, json!({"requests.cpu": "1", "pods": "2"}));
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("before", &PatchParams::default(), &ended).await.unwrap();
    assert_eq!(used(&client).await, json!({"requests.cpu": "500m", "pods": "1"}));
    pods.delete("before", &DeleteParams::default()).await.unwrap();
    assert_eq!(used(&client).await, json!({"requests.cpu": "500m", "pods": "1"}));
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(used(&client).await, json!({"requests.cpu": "0", "pods": "0"}));
}

#[tokio::test]
async fn kinds_that_come_later_are_counted_too() {
    let client = client().await;
    limit(&client, json!({"count/racks.test.seatrial.dev": "1"})).await;
    define(&client).await;
    let racks: Api<Rack> = Api::default_namespaced(client.clone());
    racks.create(&PostParams::default(), &Rack::new("a", 1)).await.unwrap();
    assert_eq!(used(&client).await, json!({"count/racks.test.seatrial.dev": "1"}));
    let second = racks.create(&PostParams::default(), &Rack::new("b", 1)).await;
    assert_eq!(refusal(second).0, 403);
    racks.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(used(&client).await, json!({"count/racks.test.seatrial.dev": "0"}));
}
