//! Held time: the server moves only when its clients do, and two runs of a seed are the same run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::auth::authn::Authenticator;
use apiserver::{ApiServer, Options};
use futures::{StreamExt, TryStreamExt};
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use store::{KeyRange, MemoryStore, Store};

use crate::support::{PATIENCE, admin, config_map, definition, request, send};

const YEAR: Duration = Duration::from_secs(349 * 86_400);
const START: &str = "2026-01-01T00:00:00Z";

fn simulated() -> Clock {
    Clock::simulated(START.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_while_a_year_goes_by() {
    let server = ApiServer::in_memory(simulated(), Ids::seeded(1)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(admin(&server));
    let events = kube::runtime::watcher(maps.clone(), watcher::Config::default());
    let mut objects = Box::pin(events.applied_objects());
    maps.create(&PostParams::default(), &config_map("before", &[])).await.unwrap();
    let before = objects.try_next().await.unwrap().unwrap();
    assert_eq!(before.creation_timestamp().unwrap().0.to_string(), START);

    let began = Instant::now();
    tokio::time::advance(YEAR).await;
    maps.create(&PostParams::default(), &config_map("after", &[])).await.unwrap();
    let after = objects.try_next().await.unwrap().unwrap();
    assert_eq!(after.name_any(), "after");
    let created = after.creation_timestamp().unwrap().0.to_string();
    assert_eq!(created, "2026-12-16T00:00:00Z");
    assert!(began.elapsed() < Duration::from_secs(1), "a year took {:?}", began.elapsed());
}

/// Time that is slept through stops at every timer on the way, and kube's watcher has one: it takes
/// its watch up again every 290 seconds.
#[tokio::test(start_paused = true)]
async fn a_week_asleep() {
    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    let server = ApiServer::in_memory(simulated(), Ids::seeded(1)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(admin(&server));
    let began = Instant::now();
    let sleeper = {
        let maps = maps.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WEEK).await;
            maps.create(&PostParams::default(), &config_map("after", &[])).await.unwrap();
        })
    };
    let events = kube::runtime::watcher(maps, watcher::Config::default());
    let after = Box::pin(events.applied_objects()).try_next().await.unwrap().unwrap();
    sleeper.await.unwrap();
    assert_eq!(after.creation_timestamp().unwrap().0.to_string(), "2026-01-08T00:00:00Z");
    assert!(began.elapsed() < PATIENCE, "a week took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sleepers_and_watchers_share_the_clock() {
    let server = ApiServer::in_memory(simulated(), Ids::seeded(1)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(admin(&server));
    let writer = {
        let maps = maps.clone();
        tokio::spawn(async move {
            for hour in 0..24 {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                let map = config_map(&format!("hour-{hour:02}"), &[]);
                maps.create(&PostParams::default(), &map).await.unwrap();
            }
        })
    };
    let events = kube::runtime::watcher(maps, watcher::Config::default());
    let seen: Vec<ConfigMap> = events.applied_objects().take(24).try_collect().await.unwrap();
    writer.await.unwrap();
    for (hour, map) in seen.iter().enumerate() {
        assert_eq!(map.name_any(), format!("hour-{hour:02}"));
        let created = map.creation_timestamp().unwrap().0;
        let since = created.duration_since(START.parse().unwrap());
        assert_eq!(since.as_hours(), i64::try_from(hour).unwrap() + 1);
    }
}

/// A day in a cluster's life; returns everything in the store and every answer.
async fn life(seed: u64) -> (Vec<(Vec<u8>, Vec<u8>)>, Vec<String>) {
    let store = Arc::new(MemoryStore::new());
    let (_keep, stopping) = tokio::sync::watch::channel(false);
    let server = ApiServer::new(Options {
        store: store.clone(),
        clock: simulated(),
        ids: Ids::seeded(seed),
        authenticator: Authenticator::default(),
        token_key: None,
        without: Vec::new(),
        audit: None,
        inflight: apiserver::InFlight::default(),
        bookmark_every: None,
        stopping,
    })
    .await
    .unwrap();
    let client = Client::new(server.service_as_admin(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for n in 0..10 {
        let mut map = config_map("", &[("n", &n.to_string())]);
        map.metadata.name = None;
        map.metadata.generate_name = Some("m-".to_owned());
        let made = maps.create(&PostParams::default(), &map).await.unwrap();
        tokio::time::advance(Duration::from_secs(n * 1000)).await;
        let wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"n": "9", "more": "1"},
        });
        let apply = PatchParams::apply("life").force();
        maps.patch(&made.name_any(), &apply, &Patch::Apply(wanted)).await.unwrap();
    }
    let mut answers = Vec::new();
    let mut service = server.service_as_admin();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let rack = json!({
        "apiVersion": "test.seatrial.dev/v1", "kind": "Rack",
        "metadata": {"name": "r"}, "spec": {"servers": 1},
    });
    let racks = "/apis/test.seatrial.dev/v1/namespaces/default/racks";
    for (method, path, body) in [
        ("POST", crds, definition().to_string()),
        ("POST", racks, rack.to_string()),
        ("GET", racks, String::new()),
        ("GET", "/api/v1/configmaps", String::new()),
        ("GET", "/apis", String::new()),
    ] {
        let answer = send(&mut service, request(method, path, "application/json", body)).await;
        assert!(answer.code.is_success(), "{answer:?}");
        let audit = &answer.headers["audit-id"];
        answers.push(format!("{audit:?} {}", String::from_utf8_lossy(&answer.bytes)));
    }
    let all = store.list(&KeyRange::prefix(""), None, None).unwrap();
    let entries = all.entries.iter().map(|e| (e.key.to_vec(), e.value.to_vec())).collect();
    (entries, answers)
}

#[test]
fn a_seed_decides_every_byte() {
    let run = |seed| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(life(seed))
    };
    let (one, two) = (run(7), run(7));
    assert!(one.0.len() > 60, "{} objects", one.0.len());
    assert_eq!(one, two);
    assert_ne!(one.0, run(8).0);
}

/// On a runtime without timers a timer would panic, and a task would be counted.
#[test]
fn the_server_has_no_task_and_no_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let server = ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await.unwrap();
        let mut service = server.service_as_admin();
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let maps = "/api/v1/namespaces/default/configmaps";
        let map = json!({"metadata": {"name": "a"}}).to_string();
        for (method, path, body, code) in [
            ("POST", crds, definition().to_string(), StatusCode::CREATED),
            ("POST", maps, map, StatusCode::CREATED),
            ("GET", maps, String::new(), StatusCode::OK),
            ("DELETE", &format!("{maps}/a"), String::new(), StatusCode::OK),
            ("DELETE", &format!("{crds}/racks.test.seatrial.dev"), String::new(), StatusCode::OK),
        ] {
            let answer = send(&mut service, request(method, path, "application/json", body)).await;
            assert_eq!(answer.code, code, "{}", answer.json());
        }
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    });
}

/// What a service's clients see in the process is what they would see over the network.
#[tokio::test]
async fn version_and_health_are_there_without_a_client_library() {
    let server = ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await.unwrap();
    let mut service = server.service_as_admin();
    let version = send(&mut service, request("GET", "/version", "", "")).await.json();
    assert_eq!(version["minor"], Value::from("35"));
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = send(&mut service, request("GET", path, "", "")).await;
        assert_eq!((answer.code, &answer.bytes[..]), (StatusCode::OK, &b"ok"[..]), "{path}");
    }
}
