//! A small operator, as people write them: each rack has one map per server, and says how many.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::wait::await_condition;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::support::{Rack, client, define, soon};

const MANAGER: &str = "rack-operator";

/// Makes the maps that are missing, removes those that are too many, and reports.
async fn reconcile(rack: Arc<Rack>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let client = client.as_ref().clone();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let racks: Api<Rack> = Api::default_namespaced(client);
    let (name, wanted) = (rack.name_any(), usize::try_from(rack.spec.servers).unwrap_or(0));
    for n in 0..wanted {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("{name}-{n}"),
                "labels": {"rack": name},
                "ownerReferences": [rack.controller_owner_ref(&()).unwrap()],
            },
            "data": {"slot": n.to_string()},
        });
        let apply = PatchParams::apply(MANAGER).force();
        maps.patch(&format!("{name}-{n}"), &apply, &Patch::Apply(map)).await?;
    }
    let own = maps.list(&ListParams::default().labels(&format!("rack={name}"))).await?;
    for map in own.items {
        let slot = map.data.as_ref().and_then(|d| d.get("slot")?.parse::<usize>().ok());
        if slot.is_none_or(|slot| slot >= wanted) {
            maps.delete(&map.name_any(), &DeleteParams::default()).await?;
        }
    }
    let status = json!({
        "apiVersion": "test.seatrial.dev/v1", "kind": "Rack", "status": {"ready": wanted},
    });
    let apply = PatchParams::apply(MANAGER).force();
    racks.patch_status(&name, &apply, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

/// Waits until a rack says that so many servers are ready.
async fn ready(racks: &Api<Rack>, name: &str, servers: i32) {
    let level = move |rack: Option<&Rack>| {
        rack.and_then(|r| r.status.as_ref()).is_some_and(|status| status.ready == servers)
    };
    soon(await_condition(racks.clone(), name, level)).await.unwrap();
}

#[tokio::test]
async fn an_operator_reaches_the_level_and_keeps_it() {
    let client = client().await;
    define(&client).await;
    let racks: Api<Rack> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    racks.create(&PostParams::default(), &Rack::new("early", 2)).await.unwrap();

    let controller = Controller::new(racks.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default().streaming_lists())
        .run(
            reconcile,
            |_, error, _| panic!("the operator failed: {error}"),
            Arc::new(client.clone()),
        )
        .for_each(|_| std::future::ready(()));
    let controller = tokio::spawn(controller);

    ready(&racks, "early", 2).await;
    racks.create(&PostParams::default(), &Rack::new("late", 5)).await.unwrap();
    ready(&racks, "late", 5).await;
    let of = |name: &str| ListParams::default().labels(&format!("rack={name}"));
    let late = maps.list(&of("late")).await.unwrap();
    assert_eq!(late.items.len(), 5);
    let owner = &late.items[0].owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Rack", Some(true)));
    assert_eq!(Some(owner.uid.clone()), racks.get("late").await.unwrap().uid());

    let patch = Patch::Merge(json!({"spec": {"servers": 3}}));
    racks.patch("late", &PatchParams::default(), &patch).await.unwrap();
    ready(&racks, "late", 3).await;
    assert_eq!(maps.list(&of("late")).await.unwrap().items.len(), 3);

    // Somebody meddles; the operator puts it right.
    let lost = maps.get("late-1").await.unwrap().uid();
    maps.delete("late-1", &DeleteParams::default()).await.unwrap();
    let back = move |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid() != lost);
    soon(await_condition(maps.clone(), "late-1", back)).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"slot": "1"}, "metadata": {"labels": {"x": "y"}}}));
    maps.patch("late-0", &PatchParams::default(), &patch).await.unwrap();
    let mended = |map: Option<&ConfigMap>| {
        map.and_then(|m| m.data.as_ref()).is_some_and(|data| data["slot"] == "0")
    };
    soon(await_condition(maps.clone(), "late-0", mended)).await.unwrap();
    assert_eq!(maps.get("late-0").await.unwrap().labels()["x"], "y", "what is others' stays");
    controller.abort();
}
