//! Watchers and reflectors of kube's runtime, in both ways of getting the first objects.

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Config, Event, InitialListStrategy};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{Rack, client, config_map, define, soon};

fn modes() -> [Config; 3] {
    let streaming =
        Config { initial_list_strategy: InitialListStrategy::StreamingList, ..Config::default() };
    [Config::default(), Config::default().any_semantic().page_size(2), streaming]
}

/// The next event, as a word.
async fn next(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
) -> String {
    match soon(events.next()).await.unwrap().unwrap() {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("first {}", object.name_any()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_what_happens() {
    for mode in modes() {
        let maps: Api<ConfigMap> = Api::default_namespaced(client().await);
        for name in ["a", "b", "c"] {
            maps.create(&PostParams::default(), &config_map(name, &[])).await.unwrap();
        }
        let mut events = Box::pin(kube::runtime::watcher(maps.clone(), mode.clone()));
        for want in ["init", "first a", "first b", "first c", "done"] {
            assert_eq!(next(&mut events).await, want, "{mode:?}");
        }
        maps.create(&PostParams::default(), &config_map("d", &[])).await.unwrap();
        let patch = Patch::Merge(json!({"data": {"k": "v"}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        maps.delete("b", &DeleteParams::default()).await.unwrap();
        for want in ["apply d", "apply a", "delete b"] {
            assert_eq!(next(&mut events).await, want, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn selectors_make_objects_come_and_go() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client().await);
    maps.create(&PostParams::default(), &config_map("a", &[])).await.unwrap();
    let params = WatchParams::default().labels("tier=x");
    let mut events = Box::pin(maps.watch(&params, "0").await.unwrap());
    for label in [json!("x"), json!("x"), json!("y"), json!("x"), json!(null)] {
        let patch = json!({"metadata": {"labels": {"tier": label}, "annotations": {"n": null}}});
        maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let patch = json!({"metadata": {"annotations": {"n": "1"}}});
        maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    let mut seen = String::new();
    while seen.matches('D').count() < 2 {
        seen.push(match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(_) => 'A',
            WatchEvent::Modified(_) => 'M',
            WatchEvent::Deleted(_) => 'D',
            other => panic!("{other:?}"),
        });
    }
    // x, annotated; annotation away; annotated; gone with y; back with x, annotated; gone.
    assert_eq!(seen, "AMMMDAMD");
}

#[tokio::test]
async fn a_reflector_mirrors_a_kind_of_ones_own() {
    for mode in modes() {
        let client = client().await;
        define(&client).await;
        let racks: Api<Rack> = Api::default_namespaced(client);
        racks.create(&PostParams::default(), &Rack::new("a", 1)).await.unwrap();
        let (reader, writer) = reflector::store();
        let stream = reflector(writer, kube::runtime::watcher(racks.clone(), mode));
        let mirror = tokio::spawn(stream.touched_objects().for_each(|_| std::future::ready(())));
        soon(reader.wait_until_ready()).await.unwrap();
        assert_eq!(reader.state().len(), 1);

        for n in 0..20 {
            racks.create(&PostParams::default(), &Rack::new(&format!("n{n}"), n)).await.unwrap();
        }
        racks.delete("a", &DeleteParams::default()).await.unwrap();
        let caught_up = async {
            while reader.state().len() != 20 || reader.find(|r| r.name_any() == "a").is_some() {
                tokio::task::yield_now().await;
            }
        };
        soon(caught_up).await;
        mirror.abort();
    }
}

#[tokio::test]
async fn metadata_alone_can_be_watched() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("a", &[("k", "v")])).await.unwrap();
    let alone: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client);
    let events = kube::runtime::watcher(alone, Config::default());
    let mut objects = Box::pin(events.applied_objects());
    let first = soon(objects.try_next()).await.unwrap().unwrap();
    assert_eq!(first.name_any(), "a");
    assert_eq!(first.types.unwrap().kind, "PartialObjectMetadata");
}
