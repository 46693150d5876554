//! Objects go when their last owner is gone, in all three ways.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

fn owned(name: &str, owners: &[&ConfigMap]) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let reference = |owner: &&ConfigMap| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    map.metadata.owner_references = Some(owners.iter().map(reference).collect());
    map
}

async fn create(maps: &Api<ConfigMap>, map: &ConfigMap) -> ConfigMap {
    maps.create(&PostParams::default(), map).await.unwrap()
}

async fn names(maps: &Api<ConfigMap>) -> Vec<String> {
    let list = maps.list(&Default::default()).await.unwrap().items;
    let names = list.iter().map(ResourceExt::name_any);
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

#[test]
fn dependents_go_with_their_last_owner() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["gc"]).await;
        let maps = cluster.maps(&cluster.namespace("gc").await);
        let a = create(&maps, &owned("a", &[])).await;
        let b = create(&maps, &owned("b", &[])).await;
        let of_a = create(&maps, &owned("of-a", &[&a])).await;
        create(&maps, &owned("of-of-a", &[&of_a])).await;
        create(&maps, &owned("of-both", &[&a, &b])).await;
        idle(&running).await;
        assert_eq!(names(&maps).await, ["a", "b", "of-a", "of-both", "of-of-a"]);

        maps.delete("a", &DeleteParams::background()).await.unwrap();
        idle(&running).await;
        assert_eq!(names(&maps).await, ["b", "of-both"]);
        let kept = maps.get("of-both").await.unwrap();
        let owners: Vec<_> = kept.owner_references().iter().map(|o| o.name.as_str()).collect();
        assert_eq!(owners, ["b"], "the absent owner is struck off");
        running.stop().await;
    });
}

#[test]
fn an_owner_waits_for_its_dependents_in_the_foreground() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["gc"]).await;
        let maps = cluster.maps(&cluster.namespace("gc").await);
        let owner = create(&maps, &owned("owner", &[])).await;
        let mut child = owned("child", &[&owner]);
        child.metadata.finalizers = Some(vec!["test.seatrial.dev/hold".to_owned()]);
        let child = create(&maps, &child).await;
        create(&maps, &owned("grandchild", &[&child])).await;
        maps.delete("owner", &DeleteParams::foreground()).await.unwrap();
        idle(&running).await;
        // The child is deleted in the foreground too, so its own dependents are gone.
        assert_eq!(names(&maps).await, ["child", "owner"]);
        assert_eq!(maps.get("owner").await.unwrap().finalizers(), ["foregroundDeletion"]);

        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch("child", &PatchParams::default(), &free).await.unwrap();
        idle(&running).await;
        assert!(names(&maps).await.is_empty());
        running.stop().await;
    });
}

#[test]
fn orphans_are_set_free() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["gc"]).await;
        let maps = cluster.maps(&cluster.namespace("gc").await);
        let owner = create(&maps, &owned("owner", &[])).await;
        create(&maps, &owned("child", &[&owner])).await;
        idle(&running).await;
        maps.delete("owner", &DeleteParams::orphan()).await.unwrap();
        idle(&running).await;
        assert_eq!(names(&maps).await, ["child"]);
        assert!(maps.get("child").await.unwrap().owner_references().is_empty());
        running.stop().await;
    });
}

#[test]
fn an_owner_that_never_was_or_is_elsewhere_is_none() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["gc"]).await;
        let (here, there) = (cluster.namespace("gc").await, cluster.namespace("gc").await);
        let (here, there) = (cluster.maps(&here), cluster.maps(&there));
        let mut ghost = owned("ghost", &[]);
        ghost.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
        create(&here, &owned("haunted", &[&ghost])).await;
        let owner = create(&there, &owned("owner", &[])).await;
        create(&here, &owned("misled", &[&owner])).await;
        create(&here, &owned("free", &[])).await;
        idle(&running).await;
        assert_eq!(names(&here).await, ["free"]);
        assert_eq!(names(&there).await, ["owner"]);
        let events: Api<k8s_openapi::api::core::v1::Event> =
            Api::namespaced(cluster.client.clone(), here.namespace().unwrap());
        let events = events.list(&Default::default()).await.unwrap().items;
        let reasons: Vec<_> = events.iter().map(|event| event.reason.clone().unwrap()).collect();
        assert_eq!(reasons, ["OwnerRefInvalidNamespace"]);
        running.stop().await;
    });
}

fn definition(plural: &str, kind: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.gc.seatrial.dev")},
        "spec": {
            "group": "gc.seatrial.dev",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .unwrap()
}

/// A kind that is served while the collector runs is followed, as owner and as dependent.
#[test]
fn new_kinds_are_followed() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["gc"]).await;
        let namespace = cluster.namespace("gc").await;
        let suffix: String = namespace.trim_start_matches("gc-").to_owned();
        let (plural, kind) = (format!("hulls{suffix}"), format!("Hull{suffix}"));
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
        let definition = definition(&plural, &kind);
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        let resource = ApiResource {
            group: "gc.seatrial.dev".to_owned(),
            version: "v1".to_owned(),
            api_version: "gc.seatrial.dev/v1".to_owned(),
            kind,
            plural,
        };
        let hulls: Api<DynamicObject> =
            Api::namespaced_with(cluster.client.clone(), &namespace, &resource);
        cluster.until(&running, async || hulls.list(&Default::default()).await.is_ok()).await;
        let hull = DynamicObject::new("hull", &resource);
        let hull = hulls.create(&PostParams::default(), &hull).await.unwrap();
        let maps = cluster.maps(&namespace);
        let mut plank = owned("plank", &[]);
        plank.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "gc.seatrial.dev/v1".to_owned(),
            kind: resource.kind.clone(),
            name: "hull".to_owned(),
            uid: hull.uid().unwrap(),
            ..OwnerReference::default()
        }]);
        let plank = create(&maps, &plank).await;
        let mut cabin = DynamicObject::new("cabin", &resource);
        cabin.metadata.owner_references = owned("", &[&plank]).metadata.owner_references;
        hulls.create(&PostParams::default(), &cabin).await.unwrap();
        idle(&running).await;
        assert_eq!(names(&maps).await, ["plank"]);

        hulls.delete("hull", &DeleteParams::background()).await.unwrap();
        let gone = async || {
            names(&maps).await.is_empty()
                && hulls.list(&Default::default()).await.unwrap().items.is_empty()
        };
        cluster.until(&running, gone).await;
        let name = definition.metadata.name.unwrap();
        definitions.delete(&name, &DeleteParams::default()).await.unwrap();
        running.stop().await;
    });
}
