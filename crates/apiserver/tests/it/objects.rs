//! Objects: made, read, changed by two at once, applied, scaled, held back and removed.

use std::pin::pin;

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{Rack, RackStatus, admin, client, config_map, define, refusal, server, soon};

fn deployment(name: &str, replicas: i32) -> Deployment {
    let labels = json!({"app": name});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn a_built_in_kind_from_create_to_delete() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());

    let made = maps.create(&PostParams::default(), &config_map("a", &[("k", "1")])).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    let again = maps.create(&PostParams::default(), &config_map("a", &[])).await;
    let (code, reason, message) = refusal(again);
    assert_eq!((code, &*reason), (409, "AlreadyExists"));
    assert_eq!(message, r#"configmaps "a" already exists"#);

    let mut read = maps.get("a").await.unwrap();
    assert_eq!(read, made);
    read.data.as_mut().unwrap().insert("k".into(), "2".into());
    let written = maps.replace("a", &PostParams::default(), &read).await.unwrap();
    assert_ne!(written.resource_version(), made.resource_version());
    assert_eq!(written.uid(), made.uid());

    maps.create(&PostParams::default(), &config_map("b", &[])).await.unwrap();
    let names: Vec<String> = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names, ["a", "b"]);
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(page.metadata.remaining_item_count, Some(1));
    let token = page.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items[0].name_any(), "b");
    assert_eq!(rest.metadata.continue_.unwrap_or_default(), "");

    let patch = json!({"metadata": {"labels": {"tier": "x"}}, "data": {"k": null}});
    let merged = maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(merged.labels()["tier"], "x");
    assert_eq!(merged.data.unwrap_or_default().len(), 0);
    let labelled = maps.list(&ListParams::default().labels("tier in (x,y)")).await.unwrap();
    assert_eq!(labelled.items.len(), 1);
    let other = maps.list(&ListParams::default().fields("metadata.name!=a")).await.unwrap();
    assert_eq!(other.items[0].name_any(), "b");

    maps.delete("a", &DeleteParams::default()).await.unwrap().right().unwrap();
    assert_eq!(maps.get_opt("a").await.unwrap(), None);
    let (code, _, message) = refusal(maps.get("a").await);
    assert_eq!((code, &*message), (404, r#"configmaps "a" not found"#));
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn names_are_generated_and_secrets_encoded() {
    let client = client().await;
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"generateName": "token-"}, "stringData": {"word": "hush"},
    }))
    .unwrap();
    let one = secrets.create(&PostParams::default(), &secret).await.unwrap();
    let two = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert!(one.name_any().starts_with("token-") && one.name_any() != two.name_any());
    assert_eq!(one.data.unwrap()["word"].0, b"hush");
}

#[tokio::test]
async fn namespaced_objects_need_their_namespace() {
    let client = client().await;
    let nowhere: Api<ConfigMap> = Api::namespaced(client.clone(), "nowhere");
    let (code, _, message) =
        refusal(nowhere.create(&PostParams::default(), &config_map("a", &[])).await);
    assert_eq!((code, &*message), (404, r#"namespaces "nowhere" not found"#));
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "nowhere"}})).unwrap();
    Api::all(client).create(&PostParams::default(), &namespace).await.unwrap();
    nowhere.create(&PostParams::default(), &config_map("a", &[])).await.unwrap();
}

#[tokio::test]
async fn two_writers_of_one_object_lose_nothing() {
    const EACH: u32 = 25;
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("tally", &[("n", "0")])).await.unwrap();
    let count = |maps: Api<ConfigMap>| async move {
        let mut conflicts = 0;
        for _ in 0..EACH {
            loop {
                let mut read = maps.get("tally").await.unwrap();
                let n: u32 = read.data.as_ref().unwrap()["n"].parse().unwrap();
                tokio::task::yield_now().await;
                read.data.as_mut().unwrap().insert("n".into(), (n + 1).to_string());
                match maps.replace("tally", &PostParams::default(), &read).await {
                    Ok(_) => break,
                    refused => {
                        let (code, reason, message) = refusal(refused);
                        assert_eq!((code, &*reason), (409, "Conflict"));
                        assert_eq!(
                            message,
                            "Operation cannot be fulfilled on configmaps \"tally\": the object has \
                             been modified; please apply your changes to the latest version and try \
                             again"
                        );
                        conflicts += 1;
                    }
                }
            }
        }
        conflicts
    };
    let (one, two) = tokio::join!(count(maps.clone()), count(maps.clone()));
    assert_eq!(maps.get("tally").await.unwrap().data.unwrap()["n"], (2 * EACH).to_string());
    assert!(one + two > 0, "the writers never met");
}

/// The kubelet and the controllers remove a pod as soon as they see that it ends, and may be
/// quicker than the request that made it end. Whoever asked is told that it is gone all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pod_that_another_removes_first_is_deleted_and_not_missed() {
    const PODS: usize = 200;
    let server = server().await;
    let pods: Api<Pod> = Api::default_namespaced(admin(&server));
    let at_once = DeleteParams::default().grace_period(0);
    let (quick, now) = (pods.clone(), at_once.clone());
    let kubelet = tokio::spawn(async move {
        let mut won = 0;
        let mut events = pin!(quick.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                WatchEvent::Modified(pod) if pod.metadata.deletion_timestamp.is_some() => {
                    won += u32::from(quick.delete(&pod.name_any(), &now).await.is_ok());
                }
                WatchEvent::Deleted(pod) if pod.name_any() == format!("pod-{}", PODS - 1) => break,
                _ => {}
            }
        }
        won
    });
    for n in 0..PODS {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": format!("pod-{n}")},
            "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let gone = pods.delete(&pod.name_any(), &at_once).await;
        assert!(gone.is_ok(), "pod {n}: {}", gone.unwrap_err());
    }
    let won = soon(kubelet).await.unwrap();
    assert!(won > 0, "nobody else was ever quicker");
}

#[tokio::test]
async fn kubes_entry_api_retries_and_commits() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for value in ["1", "2"] {
        let entry = maps.entry("e").await.unwrap();
        let mut entry = entry.or_insert(|| config_map("e", &[]));
        entry.get_mut().data.get_or_insert_default().insert("k".into(), value.into());
        entry.commit(&PostParams::default()).await.unwrap();
    }
    assert_eq!(maps.get("e").await.unwrap().data.unwrap()["k"], "2");
}

#[tokio::test]
async fn apply_has_owners_conflicts_and_force() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let wanted = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"shared": value},
        }))
    };
    let mine = PatchParams::apply("mine");
    let yours = PatchParams::apply("yours");
    let made = maps.patch("a", &mine, &wanted("1")).await.unwrap();
    assert_eq!(made.managed_fields()[0].manager.as_deref(), Some("mine"));
    let same = maps.patch("a", &mine, &wanted("1")).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version(), "nothing changed");

    let (code, reason, message) = refusal(maps.patch("a", &yours, &wanted("2")).await);
    assert_eq!((code, &*reason), (409, "Conflict"));
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"mine\": .data.shared");

    // Who agrees shares; who forces takes.
    maps.patch("a", &yours, &wanted("1")).await.unwrap();
    let taken = maps.patch("a", &yours.clone().force(), &wanted("2")).await.unwrap();
    assert_eq!(taken.data.as_ref().unwrap()["shared"], "2");
    let owns =
        |m: &&ManagedFieldsEntry| m.fields_v1.as_ref().unwrap().0["f:data"]["f:shared"].is_object();
    let owners: Vec<_> =
        taken.managed_fields().iter().filter(owns).map(|m| m.manager.as_deref()).collect();
    assert_eq!(owners, [Some("yours")]);

    // What an owner no longer mentions goes.
    let nothing = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
    }));
    let left = maps.patch("a", &yours, &nothing).await.unwrap();
    assert_eq!(left.data.unwrap_or_default().len(), 0);
}

#[tokio::test]
async fn status_and_scale_of_a_built_in_kind() {
    let client = client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let made = deployments.create(&PostParams::default(), &deployment("d", 2)).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let scale = deployments.get_scale("d").await.unwrap();
    assert_eq!(scale.spec.as_ref().and_then(|s| s.replicas), Some(2));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=d"));

    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments.patch_scale("d", &PatchParams::default(), &patch).await.unwrap();
    let read = deployments.get("d").await.unwrap();
    assert_eq!(read.spec.unwrap().replicas, Some(5));
    assert_eq!(read.metadata.generation, Some(2));

    let patch = Patch::Merge(
        json!({"spec": {"replicas": 9}, "status": {"replicas": 4, "readyReplicas": 4}}),
    );
    let read = deployments.patch_status("d", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(read.spec.unwrap().replicas, Some(5), "the status has no say over the spec");
    assert_eq!(read.status.unwrap().ready_replicas, Some(4));
    assert_eq!(read.metadata.generation, Some(2));
}

#[tokio::test]
async fn status_and_scale_of_a_kind_of_ones_own() {
    let client = client().await;
    define(&client).await;
    let racks: Api<Rack> = Api::default_namespaced(client);
    let sent = Rack { status: Some(RackStatus { ready: 7 }), ..Rack::new("r", 4) };
    let made = racks.create(&PostParams::default(), &sent).await.unwrap();
    assert_eq!(made.status, None, "a create sets no status");
    let mut object = made.clone();
    object.spec.servers = 64;
    object.status = Some(RackStatus { ready: 3 });
    let written = racks.replace_status("r", &PostParams::default(), &object).await.unwrap();
    assert_eq!((written.spec.servers, written.status.unwrap().ready), (4, 3));
    assert_eq!(written.metadata.generation, Some(1));

    let scale = racks.get_scale("r").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    assert_eq!(scale.status.unwrap().replicas, 3);
    let patch = Patch::Merge(json!({"spec": {"replicas": 8}}));
    racks.patch_scale("r", &PatchParams::default(), &patch).await.unwrap();
    let read = racks.get("r").await.unwrap();
    assert_eq!((read.spec.servers, read.metadata.generation), (8, Some(2)));

    let patch = Patch::Merge(json!({"spec": {"replicas": 65}}));
    let (code, reason, _) = refusal(racks.patch_scale("r", &PatchParams::default(), &patch).await);
    assert_eq!((code, &*reason), (422, "Invalid"));
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut held = config_map("held", &[]);
    held.metadata.finalizers = Some(vec!["test.seatrial.dev/hold".into()]);
    maps.create(&PostParams::default(), &held).await.unwrap();

    let marked = maps.delete("held", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let read = maps.get("held").await.unwrap();
    assert_eq!(read.metadata.deletion_timestamp, marked.metadata.deletion_timestamp);

    // Nobody may add another now.
    let more = Patch::Merge(json!({"metadata": {"finalizers": [
        "test.seatrial.dev/hold", "test.seatrial.dev/more",
    ]}}));
    let (code, reason, _) = refusal(maps.patch("held", &PatchParams::default(), &more).await);
    assert_eq!((code, &*reason), (422, "Invalid"));

    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(maps.get_opt("held").await.unwrap(), None);
}

#[tokio::test]
async fn a_delete_can_be_bound_to_what_was_seen() {
    let client = client().await;
    let nodes: Api<Node> = Api::all(client);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let first = nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes.delete("n", &DeleteParams::default()).await.unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let bound = DeleteParams::default()
        .preconditions(kube::api::Preconditions { uid: first.uid(), resource_version: None });
    assert_eq!(refusal(nodes.delete("n", &bound).await).0, 409);
    assert!(nodes.get_opt("n").await.unwrap().is_some());
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_behind() {
    let client = client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &config_map("a", &[])).await.unwrap();
    assert_eq!(maps.get_opt("a").await.unwrap(), None);
    maps.create(&PostParams::default(), &config_map("a", &[])).await.unwrap();
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    maps.delete("a", &dry).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_some());
}
