//! Requests that are valid but for a little, thousands of them, the same in every run.

use std::panic::AssertUnwindSafe;

use apiserver::Service;
use bytes::Bytes;
use futures::FutureExt;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::hostile::check_form;
use crate::support::{Answer, Dice, definition, send, server};

const REQUESTS: usize = 3_000;

#[derive(Clone, Debug)]
struct Shot {
    method: String,
    uri: String,
    content: String,
    body: Vec<u8>,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A ConfigMap named `m`, with a label, an owner and data, as a typed client sends it.
fn map_in_protobuf() -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 0x80, "lengths are one byte here");
        [&[number << 3 | 2, length], content].concat()
    };
    let entry =
        |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let owner = [field(1, b"Node"), field(3, b"n"), field(4, b"u"), field(5, b"v1"), vec![48, 1]];
    let metadata =
        [field(1, b"m"), field(8, b""), field(11, &entry("a", "b")), field(13, &owner.concat())];
    let object = [field(1, &metadata.concat()), field(2, &entry("k", "v")), vec![0x20, 0]];
    let about = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &about), field(2, &object.concat())].concat()
}

/// Requests that are all right, to begin with.
fn good() -> Vec<Shot> {
    let maps = "/api/v1/namespaces/default/configmaps";
    let racks = "/apis/test.seatrial.dev/v1/namespaces/default/racks";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
        "metadata": {"name": "m", "labels": {"a": "b"}, "finalizers": ["x.y/z"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}});
    let rack = json!({"apiVersion": "test.seatrial.dev/v1", "kind": "Rack",
        "metadata": {"name": "r", "annotations": {"a": "b"}}, "spec": {"servers": 3, "row": "a"}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}]}}}});
    let mut other = definition();
    other["metadata"]["name"] = "trays.test.seatrial.dev".into();
    other["spec"]["names"] = json!({"plural": "trays", "singular": "tray", "kind": "Tray"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "c"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let patch = json!([{"op": "test", "path": "/metadata/name", "value": "m"},
        {"op": "add", "path": "/data/x", "value": "y"}, {"op": "move", "from": "/data/x", "path": "/data/z"}]);
    let merge = json!({"metadata": {"labels": {"a": null}}, "data": {"z": "1"}});
    let scale = json!({"spec": {"replicas": 3}});
    let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": "x"}});
    let shots = [
        ("GET", format!("{maps}?limit=2&labelSelector=a%3Db"), "", Value::Null),
        ("GET", format!("{maps}/m"), "", Value::Null),
        (
            "GET",
            format!("{maps}?watch=true&allowWatchBookmarks=true&timeoutSeconds=9"),
            "",
            Value::Null,
        ),
        (
            "GET",
            "/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault".to_owned(),
            "",
            Value::Null,
        ),
        ("GET", "/apis/apps/v1".to_owned(), "", Value::Null),
        ("POST", maps.to_owned(), "application/json", map.clone()),
        ("PUT", format!("{maps}/m?fieldManager=f"), "application/json", map.clone()),
        ("PATCH", format!("{maps}/m"), "application/json-patch+json", patch),
        ("PATCH", format!("{maps}/m"), "application/merge-patch+json", merge.clone()),
        ("PATCH", format!("{maps}/m"), "application/strategic-merge-patch+json", merge.clone()),
        (
            "PATCH",
            format!("{maps}/m?fieldManager=f&force=true"),
            "application/apply-patch+yaml",
            map,
        ),
        ("POST", racks.to_owned(), "application/json", rack.clone()),
        (
            "PATCH",
            format!("{racks}/r/status"),
            "application/merge-patch+json",
            json!({"status": {"ready": 1}}),
        ),
        ("PATCH", format!("{racks}/r?fieldManager=f"), "application/apply-patch+yaml", rack),
        ("PATCH", format!("{racks}/r/scale"), "application/merge-patch+json", scale.clone()),
        ("POST", deployments.to_owned(), "application/json", deployment.clone()),
        (
            "PATCH",
            format!("{deployments}/d?fieldManager=f"),
            "application/apply-patch+yaml",
            deployment.clone(),
        ),
        ("PATCH", format!("{deployments}/d"), "application/strategic-merge-patch+json", deployment),
        ("PATCH", format!("{deployments}/d/scale"), "application/merge-patch+json", scale),
        ("POST", crds.to_owned(), "application/json", other.clone()),
        (
            "PATCH",
            format!("{crds}/trays.test.seatrial.dev?fieldManager=f"),
            "application/apply-patch+yaml",
            other,
        ),
        (
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            "application/json",
            role,
        ),
        ("POST", maps.to_owned(), PROTOBUF, Value::Null),
        ("PUT", format!("{maps}/m"), PROTOBUF, Value::Null),
        ("DELETE", format!("{maps}/m"), "application/json", options),
        ("DELETE", format!("{racks}/r"), "application/json", Value::Null),
        ("DELETE", format!("{crds}/trays.test.seatrial.dev"), "application/json", Value::Null),
    ];
    let shot = |(method, uri, content, body): (&str, String, &str, Value)| Shot {
        method: method.to_owned(),
        uri,
        content: content.to_owned(),
        body: match body {
            _ if content == PROTOBUF => map_in_protobuf(),
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        },
    };
    shots.into_iter().map(shot).collect()
}

/// What stands where something else should.
fn strange(dice: &mut Dice) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5e300),
        json!(""),
        json!("x"),
        json!("-"),
        json!("a/b"),
        json!("\u{0}"),
        json!("999999999999999999999999Ei"),
        json!("2026-13-45T99:99:99Z"),
        json!("é\u{202e}😀"),
        json!("a".repeat(5_000)),
        json!([]),
        json!({}),
        json!([[]]),
        json!([null]),
        json!({"": ""}),
        json!([{"name": "x"}, {"name": "x"}]),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace"}),
        json!({"$ref": "#"}),
        json!("self.all(x, x)"),
        json!("^(a+)+$"),
        json!("metadata.name"),
        json!(".spec.servers"),
        json!("v1"),
        json!("ConfigMap"),
    ];
    dice.pick(&values).clone()
}

/// Changes one place in a document.
fn disturb(value: &mut Value, dice: &mut Dice) {
    let stop = dice.below(4) == 0;
    match value {
        Value::Object(map) if !stop && !map.is_empty() => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = dice.pick(&keys).clone();
            match dice.below(8) {
                0 => drop(map.remove(&key)),
                1 => {
                    let moved = map[&key].clone();
                    map.insert(format!("{key}x"), moved);
                }
                2 => {
                    let (key, value) = (dice.pick(&KEYS).to_string(), strange(dice));
                    map.insert(key, value);
                }
                _ => disturb(&mut map[&key], dice),
            }
        }
        Value::Array(list) if !stop && !list.is_empty() => {
            let at = dice.below(list.len());
            match dice.below(6) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => disturb(&mut list[at], dice),
            }
        }
        other => *other = strange(dice),
    }
}

const KEYS: [&str; 20] = [
    "metadata",
    "spec",
    "status",
    "data",
    "kind",
    "apiVersion",
    "name",
    "generateName",
    "namespace",
    "resourceVersion",
    "uid",
    "deletionTimestamp",
    "managedFields",
    "finalizers",
    "labels",
    "items",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "default",
    "pattern",
];

fn mutate(shot: &mut Shot, all: &[Shot], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        match dice.below(12) {
            0 => {
                shot.method =
                    dice.pick(&["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]).to_string()
            }
            1 => shot.content = dice.pick(all).content.clone(),
            2 => shot.uri = dice.pick(all).uri.clone(),
            3 => shot.body = dice.pick(all).body.clone(),
            4 => {
                let mut uri = shot.uri.clone().into_bytes();
                let at = dice.below(uri.len());
                uri[at] = *dice.pick(b"/%?&=,.-0aA~");
                shot.uri = String::from_utf8(uri).unwrap();
            }
            5 => {
                let query = [
                    "dryRun=All",
                    "dryRun=x",
                    "fieldValidation=Strict",
                    "resourceVersion=1",
                    "resourceVersion=99999999",
                    "limit=1",
                    "watch=1",
                    "continue=e30",
                    "force=1",
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                    "pretty=true",
                    "gracePeriodSeconds=-5",
                    "propagationPolicy=Foreground",
                    "fieldManager=%00",
                ];
                let mark = if shot.uri.contains('?') { '&' } else { '?' };
                shot.uri = format!("{}{mark}{}", shot.uri, dice.pick(&query));
            }
            // Most of a message is lengths and numbers, where bits matter.
            _ if shot.content == PROTOBUF && !shot.body.is_empty() && dice.below(2) == 0 => {
                let at = dice.below(shot.body.len());
                match dice.below(3) {
                    0 => shot.body[at] ^= 1 << dice.below(8),
                    1 => shot.body.insert(at, *dice.pick(b"\x0a\x12\x08\x80\xff\x7f\x00\x0b")),
                    _ => drop(shot.body.remove(at)),
                }
            }
            6 if !shot.body.is_empty() => {
                let at = dice.below(shot.body.len());
                shot.body[at] = u8::try_from(dice.below(256)).unwrap();
            }
            7 => shot.body.truncate(dice.below(shot.body.len() + 1)),
            _ => {
                if let Ok(mut value) = serde_json::from_slice::<Value>(&shot.body) {
                    disturb(&mut value, dice);
                    shot.body = value.to_string().into_bytes();
                }
            }
        }
    }
}

fn request(shot: &Shot) -> Option<Request<Full<Bytes>>> {
    Request::builder()
        .method(shot.method.as_str())
        .uri(&shot.uri)
        .header("content-type", &shot.content)
        .body(Full::new(shot.body.clone().into()))
        .ok()
}

/// Failures on the server's side that upstream words in the same way.
fn documented(answer: &Answer) -> bool {
    let status: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
    let (reason, message) = (&status["reason"], status["message"].as_str().unwrap_or_default());
    // Of a patch that cannot be merged upstream says what is wrong, but not whose fault it is.
    let of_patch = ["failed to create typed patch object", "unknown patch type: ", "expected a []"];
    let of_patch = of_patch.iter().any(|start| message.starts_with(start))
        || message.contains("does not contain declared merge key");
    match answer.code.as_u16() {
        504 => reason == "Timeout",
        500 => reason.is_null() && of_patch,
        _ => false,
    }
}

async fn fire(service: &mut Service, shot: &Shot) -> Option<Answer> {
    let sent = AssertUnwindSafe(send(service, request(shot)?)).catch_unwind().await;
    let about = || {
        format!(
            "{} {} {} {}",
            shot.method,
            shot.uri,
            shot.content,
            String::from_utf8_lossy(&shot.body)
        )
    };
    let answer = sent.unwrap_or_else(|_| panic!("a panic over {}", about()));
    check_form(&answer, &about());
    let failed = answer.code.is_server_error() && !documented(&answer);
    assert!(!failed, "{} over {}", String::from_utf8_lossy(&answer.bytes), about());
    Some(answer)
}

#[tokio::test]
async fn almost_good_requests_are_answered_in_good_order() {
    let mut service = server().await.service_as_admin();
    let good = good();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let base = crate::support::request("POST", crds, "application/json", definition().to_string());
    assert_eq!(send(&mut service, base).await.code, 201);
    for shot in &good {
        let answer = fire(&mut service, shot).await.unwrap();
        let fine = answer.code.is_success() || [404, 409].contains(&answer.code.as_u16());
        assert!(fine, "{shot:?}: {answer:?}");
    }
    let (mut dice, mut sent, mut done) = (Dice(42), 0, 0);
    while sent < REQUESTS {
        let mut shot = dice.pick(&good).clone();
        // Without some that are all right there would soon be nothing left to disturb.
        if dice.below(5) > 0 {
            mutate(&mut shot, &good, &mut dice);
        }
        if let Some(answer) = fire(&mut service, &shot).await {
            sent += 1;
            done += usize::from(answer.code.is_success());
        }
    }
    assert!(done > REQUESTS / 5 && done < REQUESTS * 4 / 5, "{done} of {REQUESTS} were done");
    let version = crate::support::request("GET", "/version", "", "");
    assert_eq!(send(&mut service, version).await.code, 200);
}
