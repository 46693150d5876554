//! Definitions of kinds: served once they are answered, and gone with all that they defined.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;

use crate::support::{Rack, client, define, definition, refusal, soon};

#[tokio::test]
async fn a_definition_is_served_as_soon_as_it_is_answered() {
    let client = client().await;
    let racks: Api<Rack> = Api::default_namespaced(client.clone());
    assert_eq!(refusal(racks.list(&ListParams::default()).await).0, 404);
    define(&client).await;
    racks.create(&PostParams::default(), &Rack::new("r", 1)).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "racks.test.seatrial.dev";
    let established = await_condition(definitions, name, conditions::is_crd_established());
    soon(established).await.unwrap();

    let group = client.list_api_groups().await.unwrap();
    assert!(group.groups.iter().any(|g| g.name == "test.seatrial.dev"));
    let resources = client.list_api_group_resources("test.seatrial.dev/v1").await.unwrap();
    let names: Vec<&str> = resources.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["racks", "racks/status", "racks/scale"]);
}

#[tokio::test]
async fn a_schema_is_held_to() {
    let client = client().await;
    define(&client).await;
    let racks: Api<Rack> = Api::default_namespaced(client);
    let (code, reason, message) =
        refusal(racks.create(&PostParams::default(), &Rack::new("r", 65)).await);
    assert_eq!((code, &*reason), (422, "Invalid"));
    assert_eq!(
        message,
        "Rack.test.seatrial.dev \"r\" is invalid: spec.servers: Invalid value: 65: spec.servers in \
         body should be less than or equal to 64"
    );
}

#[tokio::test]
async fn a_definition_can_be_applied_again_and_again() {
    let client = client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mine = PatchParams::apply("operator").force();
    let name = "racks.test.seatrial.dev";
    for _ in 0..3 {
        definitions.patch(name, &mine, &Patch::Apply(definition())).await.unwrap();
        let racks: Api<Rack> = Api::default_namespaced(client.clone());
        racks.list(&ListParams::default()).await.unwrap();
    }
    // A stricter schema counts from the next write on.
    let mut stricter = definition();
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/servers/maximum";
    *stricter.pointer_mut(at).unwrap() = json!(2);
    definitions.patch(name, &mine, &Patch::Apply(stricter)).await.unwrap();
    let racks: Api<Rack> = Api::default_namespaced(client);
    assert_eq!(refusal(racks.create(&PostParams::default(), &Rack::new("r", 3)).await).0, 422);
}

#[tokio::test]
async fn with_a_definition_go_its_objects_once_their_finalizers_do() {
    let client = client().await;
    define(&client).await;
    let racks: Api<Rack> = Api::default_namespaced(client.clone());
    racks.create(&PostParams::default(), &Rack::new("free", 1)).await.unwrap();
    let mut held = Rack::new("held", 1);
    held.metadata.finalizers = Some(vec!["test.seatrial.dev/hold".into()]);
    racks.create(&PostParams::default(), &held).await.unwrap();

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "racks.test.seatrial.dev";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    assert!(racks.get_opt("free").await.unwrap().is_none());
    let waiting = racks.get("held").await.unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());
    let ending = definitions.get(name).await.unwrap();
    assert!(ending.metadata.deletion_timestamp.is_some());
    let refused = racks.create(&PostParams::default(), &Rack::new("late", 1)).await;
    assert_eq!(refusal(refused).0, 403, "a definition that ends takes no new objects");

    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    racks.patch("held", &PatchParams::default(), &free).await.unwrap();
    assert!(definitions.get_opt(name).await.unwrap().is_none());
    assert_eq!(refusal(racks.list(&ListParams::default()).await).0, 404);

    // A new definition of the same name begins with nothing.
    define(&client).await;
    assert!(racks.list(&ListParams::default()).await.unwrap().items.is_empty());
}
