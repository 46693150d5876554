//! Events: one kind under two groups, which lives for an hour.

use std::time::Duration;

use apiserver::ApiServer;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{admin, soon};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Events share leases, and may live so much longer.
const SLACK: Duration = Duration::from_secs(61);

async fn server() -> ApiServer {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    ApiServer::in_memory(clock, Ids::seeded(1)).await.unwrap()
}

fn event(name: &str) -> CoreEvent {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "hello", "type": "Normal", "count": 1,
    }))
    .unwrap()
}

async fn names(events: &Api<CoreEvent>) -> Vec<String> {
    let list = events.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_gone_after_an_hour_since_its_last_change() {
    let server = server().await;
    let events: Api<CoreEvent> = Api::default_namespaced(admin(&server));
    events.create(&PostParams::default(), &event("left")).await.unwrap();
    events.create(&PostParams::default(), &event("seen")).await.unwrap();
    let watch = events.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = Box::pin(watch);

    tokio::time::advance(HOUR / 2).await;
    let again = Patch::Merge(json!({"count": 2}));
    events.patch("seen", &PatchParams::default(), &again).await.unwrap();
    assert_eq!(names(&events).await, ["left", "seen"]);

    tokio::time::advance(HOUR / 2 + SLACK).await;
    assert_eq!(names(&events).await, ["seen"]);
    // Nobody has to ask for a watcher to hear of it.
    tokio::time::advance(HOUR / 2).await;
    server.expire().await;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        if let WatchEvent::Deleted(event) = soon(watch.try_next()).await.unwrap().unwrap() {
            gone.push(event.name_any());
        }
    }
    assert_eq!(gone, ["left", "seen"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_name_is_free_again() {
    let server = server().await;
    let events: Api<CoreEvent> = Api::default_namespaced(admin(&server));
    let first = events.create(&PostParams::default(), &event("e")).await.unwrap();
    let taken = events.create(&PostParams::default(), &event("e")).await.unwrap_err();
    assert!(matches!(taken, kube::Error::Api(status) if status.code == 409));
    tokio::time::advance(HOUR + SLACK).await;
    let second = events.create(&PostParams::default(), &event("e")).await.unwrap();
    assert_ne!(first.uid(), second.uid());
}

#[tokio::test(start_paused = true)]
async fn both_groups_show_the_same_events() {
    let server = server().await;
    let client = admin(&server);
    let (core, newer): (Api<CoreEvent>, Api<Event>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
    core.create(&PostParams::default(), &event("old")).await.unwrap();
    let recorded: Event = serde_json::from_value(json!({
        "metadata": {"name": "new"}, "eventTime": "2026-01-01T00:00:00.000001Z",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reportingController": "seatrial.dev/test", "reportingInstance": "i", "action": "Start",
        "reason": "Started", "note": "hello", "type": "Warning",
    }))
    .unwrap();
    newer.create(&PostParams::default(), &recorded).await.unwrap();
    let shown = core.get("new").await.unwrap();
    assert_eq!(shown.message.as_deref(), Some("hello"));
    assert_eq!(shown.reporting_component.as_deref(), Some("seatrial.dev/test"));
    let shown = newer.get("old").await.unwrap();
    assert_eq!((shown.note.as_deref(), shown.deprecated_count), (Some("hello"), Some(1)));

    let selected = |fields: &str| ListParams::default().fields(fields);
    let pods = newer.list(&selected("regarding.kind=Pod,type=Warning")).await.unwrap();
    assert_eq!(pods.items.len(), 1);
    let both = core.list(&selected("involvedObject.name=p")).await.unwrap();
    assert_eq!(both.items.len(), 2);
    newer.delete("old", &Default::default()).await.unwrap();
    assert_eq!(names(&core).await, ["new"]);
}
