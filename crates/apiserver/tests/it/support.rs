//! What the tests share: servers, clients, a kind of their own, and waiting with a deadline.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use apiserver::{ApiServer, ResponseBody, Service};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::Service as _;

/// Nothing here takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn server() -> ApiServer {
    ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await.unwrap()
}

pub(crate) fn admin(server: &ApiServer) -> Client {
    Client::new(server.service_as_admin(), "default")
}

pub(crate) async fn client() -> Client {
    admin(&server().await)
}

/// What a future comes to, which it must in good time.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never happened")
}

/// A kind of the tests' own. By hand what kube's derive writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rack {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: RackSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<RackStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RackSpec {
    pub(crate) servers: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RackStatus {
    #[serde(default)]
    pub(crate) ready: i32,
}

impl Rack {
    pub(crate) fn new(name: &str, servers: i32) -> Self {
        Self {
            api_version: "test.seatrial.dev/v1".to_owned(),
            kind: "Rack".to_owned(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: RackSpec { servers, row: None },
            status: None,
        }
    }
}

impl kube::Resource for Rack {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Rack".into()
    }
    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "test.seatrial.dev".into()
    }
    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "racks".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The definition of racks, as schemars and kube's derive write one.
pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "racks.test.seatrial.dev"},
        "spec": {
            "group": "test.seatrial.dev",
            "names": {
                "categories": [], "kind": "Rack", "plural": "racks", "shortNames": ["rk"],
                "singular": "rack",
            },
            "scope": "Namespaced",
            "versions": [{
                "additionalPrinterColumns": [
                    {"name": "Servers", "type": "integer", "jsonPath": ".spec.servers"},
                ],
                "name": "v1",
                "schema": {"openAPIV3Schema": {
                    "description": "Auto-generated derived type for RackSpec via `CustomResource`",
                    "properties": {
                        "spec": {
                            "properties": {
                                "row": {"nullable": true, "type": "string"},
                                "servers": {"format": "int32", "maximum": 64, "type": "integer"},
                            },
                            "required": ["servers"],
                            "type": "object",
                        },
                        "status": {
                            "nullable": true,
                            "properties": {
                                "ready": {"default": 0, "format": "int32", "type": "integer"},
                            },
                            "type": "object",
                        },
                    },
                    "required": ["spec"],
                    "title": "Rack",
                    "type": "object",
                }},
                "served": true,
                "storage": true,
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.servers",
                        "statusReplicasPath": ".status.ready",
                    },
                    "status": {},
                },
            }],
        },
    })
}

/// Defines racks.
pub(crate) async fn define(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(definition()).unwrap();
    Api::all(client.clone()).create(&Default::default(), &definition).await.unwrap();
}

pub(crate) fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let pairs = data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(pairs.collect::<BTreeMap<_, _>>()),
        ..ConfigMap::default()
    }
}

/// The code with which a request was refused.
#[track_caller]
pub(crate) fn refusal<T: Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("not refused by the server: {other:?}"),
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|e| panic!("{e}: {:?}", self.bytes))
    }
}

/// Sends a request past every client library, and reads the whole answer; of a watch the first
/// frame, if it has one at once.
pub(crate) async fn send(service: &mut Service, request: Request<Full<Bytes>>) -> Answer {
    let response = service.call(request).await.unwrap();
    let (parts, mut body) = response.into_parts();
    let bytes = match &mut body {
        ResponseBody::Full(bytes) => std::mem::take(bytes),
        ResponseBody::Stream(_) => tokio::select! {
            biased;
            frame = body.frame() => {
                frame.and_then(|f| f.unwrap().into_data().ok()).unwrap_or_default()
            }
            () = std::future::ready(()) => Bytes::new(),
        },
    };
    Answer { code: parts.status, headers: parts.headers, bytes }
}

/// A request with a body of some type.
pub(crate) fn request(
    method: &str,
    uri: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content_type)
        .body(Full::new(body.into()))
        .unwrap()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
