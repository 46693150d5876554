//! The table form as kubectl asks for it: every row from the fields that its cells need, with as much of
//! the object as the client wants.

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::support::client;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(client: &Client, method: Method, path: &str, accept: &str, body: &Value) -> Value {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("accept", accept).header("content-type", kind);
    client.request(request.body(body).unwrap()).await.unwrap()
}

async fn get(client: &Client, path: &str, accept: &str) -> Value {
    send(client, Method::GET, path, accept, &Value::Null).await
}

/// Two pods: one that runs on a node and one that is done.
async fn two_pods(client: &Client) {
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "annotations": {"quote": "\\\"}{\u{e9}"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i:1"}]}});
        send(client, Method::POST, PODS, "application/json", &pod).await;
    }
    for (name, status) in [
        (
            "a",
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "i:1",
            "imageID": "", "ready": true, "restartCount": 2, "state": {"running": {}}}]}),
        ),
        ("b", json!({"phase": "Succeeded"})),
    ] {
        let path = format!("{PODS}/{name}/status");
        let status = json!({"status": status});
        send(client, Method::PATCH, &path, "application/json", &status).await;
    }
}

#[tokio::test]
async fn pods_as_kubectl_prints_them() {
    let client = client().await;
    two_pods(&client).await;
    let table = get(&client, PODS, TABLE).await;
    let columns = table["columnDefinitions"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|c| c["name"].as_str().unwrap()).collect();
    let wide = ["IP", "Node", "Nominated Node", "Readiness Gates"];
    assert_eq!(names, [&["Name", "Ready", "Status", "Restarts", "Age"][..], &wide].concat());

    let cells = |n: usize| table["rows"][n]["cells"].as_array().unwrap().clone();
    let mut running = cells(0);
    running.remove(4);
    assert_eq!(running, ["a", "1/1", "Running", "2", "<none>", "n1", "<none>", "<none>"]);
    assert_eq!(cells(1)[..4], ["b", "0/1", "Succeeded", "0"]);
    assert_eq!(table["rows"][0].get("conditions"), None);
    assert_eq!(table["rows"][1]["conditions"][0]["reason"], "Succeeded");
}

#[tokio::test]
async fn rows_carry_what_the_client_asks_for() {
    let client = client().await;
    two_pods(&client).await;
    let pod = get(&client, &format!("{PODS}/a"), "application/json").await;
    let row = async |include: &str| {
        let path = format!("{PODS}/a?includeObject={include}");
        get(&client, &path, TABLE).await["rows"][0]["object"].clone()
    };
    assert_eq!(row("None").await, Value::Null);
    assert_eq!(row("Object").await, pod);
    let partial = row("Metadata").await;
    assert_eq!(partial["metadata"], pod["metadata"]);
    assert_eq!(partial["kind"], "PartialObjectMetadata");

    let list = get(&client, PODS, PARTIAL).await;
    assert_eq!(list["items"][0], partial);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
}
