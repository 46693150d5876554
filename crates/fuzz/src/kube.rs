//! The API server, through its whole path as an administrator (or whoever a token makes one).
//!
//! Held to: an answer comes; a refusal is a whole `Status` that agrees with its code and is not the
//! server's own fault. What is written is a dry run, except of any request at all: then a server lives
//! for [`INPUTS`] of them, so that a find may need those before it (the run from the same seed has them).

use std::cell::{Cell, RefCell};
use std::pin::pin;

use apiserver::{ApiServer, ResponseBody, Service};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use kit::clock::Clock;
use kit::ids::Ids;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::Service as _;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WIDGETS: &str = "/apis/fuzz.seatrial.dev/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What there is in a world.
const OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/default/configmaps/m",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/fuzz.seatrial.dev/v1/namespaces/default/widgets/w",
];

/// How many writes a server takes that are no dry runs.
const INPUTS: u32 = 64;

/// A server with one object of each kind that targets meet.
struct World {
    runtime: Runtime,
    server: ApiServer,
    /// Writes that were no dry runs.
    written: Cell<u32>,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a time"));
        let server = runtime
            .block_on(ApiServer::in_memory(clock, Ids::seeded(1)))
            .expect("a server in memory starts");
        let world = Self { runtime, server, written: Cell::new(0) };
        for (path, object) in [
            (DEFINITIONS, definition("self.size <= 100")),
            (MAPS, map()),
            (DEPLOYMENTS, deployment()),
            (WIDGETS, widget()),
        ] {
            let made = world.send(post(path, JSON, object.to_string().into_bytes()));
            assert_eq!(made, Some(StatusCode::CREATED), "{path}");
        }
        world
    }

    /// Sends a request as an administrator; `None` if no client could send it.
    fn send(&self, request: Option<Request<Full<Bytes>>>) -> Option<StatusCode> {
        self.send_as(self.server.service_as_admin(), request?)
    }

    fn send_as(&self, mut service: Service, request: Request<Full<Bytes>>) -> Option<StatusCode> {
        self.runtime.block_on(async {
            let answer = match service.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            let (head, body) = answer.into_parts();
            // A watch goes on until its client goes.
            if matches!(body, ResponseBody::Full(_)) {
                let body = pin!(body).collect().await.map_or_else(|n| match n {}, |b| b.to_bytes());
                judge(head.status, &head.headers, &body);
            }
            Some(head.status)
        })
    }
}

thread_local! {
    // libFuzzer calls from one thread.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn with_world<T>(run: impl FnOnce(&World) -> T) -> T {
    WORLD.with_borrow_mut(|world| run(world.get_or_insert_with(World::new)))
}

/// What a refusal must be.
fn judge(code: StatusCode, headers: &HeaderMap, body: &Bytes) {
    let text = headers.get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"text/"));
    let json = headers.get("content-type").is_some_and(|v| v == JSON);
    if code.as_u16() < 400 || text || !json {
        return;
    }
    let said = String::from_utf8_lossy(body);
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    assert_eq!(status["kind"], "Status", "{said}");
    assert_eq!(status["code"], code.as_u16(), "{said}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{said}");
    assert!(code != StatusCode::INTERNAL_SERVER_ERROR || documented(message), "{said}");
}

/// What upstream calls its own fault in the same words: it says what is wrong with the request, but not
/// whose doing that is.
fn documented(message: &str) -> bool {
    let starts = [
        "failed to create typed patch object",
        "unknown patch type: ",
        "expected a []",
        "resourceVersion should not be set on objects to be created",
    ];
    starts.iter().any(|start| message.starts_with(start))
        || message.contains("does not contain declared merge key")
}

fn post(path: &str, content: &str, body: Vec<u8>) -> Option<Request<Full<Bytes>>> {
    request_of("POST", path.as_bytes(), content.as_bytes(), body)
}

fn request_of(
    method: &str,
    uri: &[u8],
    content: &[u8],
    body: Vec<u8>,
) -> Option<Request<Full<Bytes>>> {
    let uri = Uri::try_from(uri).ok()?;
    let request = Request::builder().method(method).uri(uri).header("content-type", content);
    request.body(Full::new(body.into())).ok()
}

/// The first bytes choose; the rest is the input.
fn choice<'a, const N: usize>(
    data: &'a [u8],
    of: [&'static str; N],
) -> Option<(&'static str, &'a [u8])> {
    let (first, rest) = data.split_first()?;
    Some((of[usize::from(*first) % N], rest))
}

fn dry(path: &str) -> String {
    format!("{path}?dryRun=All&fieldManager=fuzz")
}

/// `METHOD URI`, a line with the content type, and the body: anything at all.
pub(crate) fn request(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let (head, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or_default();
    let Some(space) = head.iter().position(|byte| *byte == b' ') else { return };
    let (method, uri) = (String::from_utf8_lossy(&head[..space]), &head[space + 1..]);
    let request = request_of(&method, uri, content, body.to_vec());
    if request.is_none() {
        return;
    }
    let writes = !matches!(&*method, "GET" | "HEAD");
    let written = with_world(|world| {
        world.send(request);
        world.written.update(|written| written + u32::from(writes));
        world.written.get()
    });
    if written >= INPUTS {
        WORLD.with_borrow_mut(|world| *world = None);
    }
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let seed =
        |head: String, content: &str, body: String| format!("{head}\n{content}\n{body}").into();
    let patch = json!([{"op": "test", "path": "/metadata/name", "value": "m"},
        {"op": "move", "from": "/data/k", "path": "/data/z"}]);
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "a", "groups": ["b"], "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["a"], "expirationSeconds": 600}});
    let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": "x"}});
    vec![
        seed(format!("GET {MAPS}?limit=1&labelSelector=a%3Db&continue=e30"), "", String::new()),
        seed(
            format!("GET {MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=9"),
            "",
            String::new(),
        ),
        seed(
            format!("GET {WIDGETS}?fieldSelector=metadata.name%3Dw&resourceVersion=0"),
            "",
            String::new(),
        ),
        seed("GET /openapi/v3/apis/apps/v1?hash=1".to_owned(), "", String::new()),
        seed("GET /apis/apps/v1".to_owned(), "", String::new()),
        seed(format!("POST {MAPS}?fieldValidation=Strict&pretty=true"), JSON, map().to_string()),
        seed(format!("PUT {MAPS}/m"), JSON, map().to_string()),
        seed(format!("PATCH {MAPS}/m"), "application/json-patch+json", patch.to_string()),
        seed(format!("POST {DEPLOYMENTS}"), JSON, deployment().to_string()),
        seed(format!("POST {DEFINITIONS}"), JSON, definition("self.size > 1").to_string()),
        seed(format!("PATCH {WIDGETS}/w/status"), "application/merge-patch+json", "{}".to_owned()),
        seed(format!("DELETE {MAPS}/m?gracePeriodSeconds=0"), JSON, options.to_string()),
        seed(
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
            JSON,
            review.to_string(),
        ),
        seed(
            "POST /api/v1/namespaces/default/serviceaccounts/default/token".to_owned(),
            JSON,
            token.to_string(),
        ),
        seed("DELETE /api/v1/namespaces/default".to_owned(), "", String::new()),
    ]
}

/// A body in protobuf, of one of several kinds.
pub(crate) fn protobuf(data: &[u8]) {
    let paths = [
        MAPS,
        DEPLOYMENTS,
        DEFINITIONS,
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/services",
        "/api/v1/nodes",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    ];
    let Some((path, body)) = choice(data, paths) else { return };
    with_world(|world| world.send(post(&dry(path), PROTOBUF, body.to_vec())));
}

pub(crate) fn protobuf_seeds() -> Vec<Vec<u8>> {
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("lengths are one byte here");
        [&[number << 3 | 2, length], content].concat()
    };
    let entry =
        |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let body = |kind: &str, version: &str, object: &[u8]| {
        let about = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &about), field(2, object), vec![0x1a, 0, 0x22, 0]].concat()
    };
    let metadata = [field(1, b"p"), field(8, b""), field(11, &entry("a", "b"))].concat();
    let map = [field(1, &metadata), field(2, &entry("k", "v"))].concat();
    let container = [field(1, b"c"), field(2, b"i")].concat();
    let pod = [field(1, &metadata), field(2, &field(2, &container))].concat();
    let lease =
        [field(1, &metadata), field(2, &[field(1, b"h"), vec![0x10, 40]].concat())].concat();
    vec![
        [vec![0], body("ConfigMap", "v1", &map)].concat(),
        [vec![3], body("Pod", "v1", &pod)].concat(),
        [vec![5], body("Node", "v1", &field(1, &metadata))].concat(),
        [vec![6], body("Lease", "coordination.k8s.io/v1", &lease)].concat(),
    ]
}

/// An applied object, in YAML.
pub(crate) fn apply(data: &[u8]) {
    let Some((path, body)) = choice(data, OBJECTS) else { return };
    let path = format!("{}&force=true", dry(path));
    let content = b"application/apply-patch+yaml";
    with_world(|world| world.send(request_of("PATCH", path.as_bytes(), content, body.to_vec())));
}

pub(crate) fn apply_seeds() -> Vec<Vec<u8>> {
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\n  labels: {a: &x b, c: *x}\n\
                data:\n  k: |\n    two\n    lines\n  n: 'no'\n";
    vec![
        [b"\0", yaml.as_bytes()].concat(),
        [vec![1], deployment().to_string().into_bytes()].concat(),
        [vec![2], widget().to_string().into_bytes()].concat(),
    ]
}

/// A patch of one of three kinds to one of three objects.
pub(crate) fn patch(data: &[u8]) {
    let Some((content, rest)) = choice(
        data,
        [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ],
    ) else {
        return;
    };
    let Some((path, body)) = choice(rest, OBJECTS) else { return };
    let path = dry(path);
    with_world(|world| {
        world.send(request_of("PATCH", path.as_bytes(), content.as_bytes(), body.to_vec()))
    });
}

pub(crate) fn patch_seeds() -> Vec<Vec<u8>> {
    let operations = json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "e"}},
        {"op": "copy", "from": "/spec/template/spec/containers/0", "path": "/metadata/labels/a~1b"},
        {"op": "replace", "path": "/spec/replicas", "value": 2},
        {"op": "remove", "path": "/metadata/labels"}]);
    let strategic = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "c"}],
        "containers": [{"name": "c", "$patch": "replace", "image": "j"}, {"name": "x", "$patch": "delete"}],
        "$retainKeys": ["containers"]}}}});
    let merge = json!({"metadata": {"labels": {"a": null}}, "spec": {"size": 4, "items": []}});
    let seed = |kind: u8, of: u8, body: Value| [vec![kind, of], body.to_string().into()].concat();
    vec![
        seed(0, 1, operations),
        seed(1, 2, merge.clone()),
        seed(1, 0, merge),
        seed(2, 1, strategic),
    ]
}

/// A rule of a definition: parsed, checked, priced, and, if it is taken, run against an object.
pub(crate) fn cel(data: &[u8]) {
    let Ok(rule) = std::str::from_utf8(data) else { return };
    with_world(|world| {
        let put = definition(rule).to_string().into_bytes();
        let path = format!("{DEFINITIONS}/widgets.fuzz.seatrial.dev");
        let merge = b"application/merge-patch+json";
        let taken = world.send(request_of("PATCH", path.as_bytes(), merge, put));
        if taken != Some(StatusCode::OK) {
            return;
        }
        for (method, path) in [("POST", WIDGETS.to_owned()), ("PUT", format!("{WIDGETS}/w"))] {
            let (path, body) = (dry(&path), widget().to_string().into_bytes());
            world.send(request_of(method, path.as_bytes(), JSON.as_bytes(), body));
        }
    });
}

pub(crate) fn cel_seeds() -> Vec<Vec<u8>> {
    [
        "self.size <= 100 && self.items.all(i, i.name.startsWith('a'))",
        "self.size >= oldSelf.size || !has(self.note)",
        "self.items.map(i, i.name).exists_one(n, n.matches('^[a-z]+$'))",
        "self.items.filter(i, i.weight > 1u ? true : i.weight in [1, 2]).size() < 3",
        "quantity('1Gi').isGreaterThan(quantity('1500m')) && isURL('http://a/b')",
        "duration('1h') < duration('90m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
        "self.note.split(',').map(x, x.trim().lowerAscii()).join('-') == 'a'",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "self.items.sum(i, i.weight) / 3 % 2 - -1 == {'a': 1}['a']",
        "semver('1.2.3').isLessThan(semver('2.0.0')) && 'é😀'.charAt(1) == '😀'",
    ]
    .map(|rule| rule.as_bytes().to_vec())
    .into()
}

/// A label selector and a field selector.
pub(crate) fn selector(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let mut next =
        || percent_encode(parts.next().unwrap_or_default(), NON_ALPHANUMERIC).to_string();
    let (label, field) = (next(), next());
    for path in [MAPS, "/api/v1/pods", WIDGETS] {
        let path = format!("{path}?labelSelector={label}&fieldSelector={field}");
        with_world(|world| world.send(request_of("GET", path.as_bytes(), b"", Vec::new())));
    }
}

pub(crate) fn selector_seeds() -> Vec<Vec<u8>> {
    [
        "a=b,c!=d,e==f\nmetadata.name=m",
        "a in (b, c),d notin (e),f,!g\nmetadata.namespace!=x,metadata.name==m",
        "x/y>1,z<2\nspec.nodeName=a\\,b\\=c\\\\",
    ]
    .map(|selector| selector.as_bytes().to_vec())
    .into()
}

/// Who a bearer token makes one, or not.
pub(crate) fn bearer(data: &[u8]) {
    with_world(|world| {
        let value = [b"Bearer ", data].concat();
        let request = Request::builder().uri(MAPS).header("authorization", value);
        let Ok(request) = request.body(Full::new(Bytes::new())) else { return };
        let code = world.send_as(world.server.service(), request);
        assert_eq!(code, Some(StatusCode::UNAUTHORIZED), "nobody has made that token");
    });
}

pub(crate) fn bearer_seeds() -> Vec<Vec<u8>> {
    let part =
        |value: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({"alg": "ES256", "kid": "k"}));
    let claims = part(json!({"iss": "https://kubernetes.default.svc", "sub":
        "system:serviceaccount:default:default", "aud": ["a"], "exp": 1_893_456_000, "iat": 1_700_000_000,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": "u"}}}));
    let signature = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([1; 64]);
    let none = part(json!({"alg": "none"}));
    [
        format!("{header}.{claims}.{signature}"),
        format!("{none}.{claims}."),
        "07401b.f395accd246ae52d".to_owned(),
    ]
    .map(String::into_bytes)
    .into()
}

/// A request for a certificate: PEM, DER and the names in it.
pub(crate) fn csr(data: &[u8]) {
    let signers = [
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
        "example.com/mine",
    ];
    let Some((signer, request)) = choice(data, signers) else { return };
    // DER alone is put into its envelope, so that mutations reach what lies in it.
    let request = match request.starts_with(b"-----") {
        true => request.to_vec(),
        false => pem(request),
    };
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"}, "spec": {"request": STANDARD.encode(request), "signerName": signer,
        "usages": ["digital signature", "client auth"]}});
    let path = dry("/apis/certificates.k8s.io/v1/certificatesigningrequests");
    with_world(|world| world.send(post(&path, JSON, object.to_string().into_bytes())));
}

fn pem(der: &[u8]) -> Vec<u8> {
    let name = "CERTIFICATE REQUEST";
    format!("-----BEGIN {name}-----\n{}\n-----END {name}-----\n", STANDARD.encode(der)).into()
}

pub(crate) fn csr_seeds() -> Vec<Vec<u8>> {
    // A request of `system:node:n`, group `system:nodes`, over P-256; its signature is nonsense.
    let name = |oid: u8, text: &[u8]| {
        der(0x31, &[der(0x30, &[der(6, &[0x55, 4, oid]), der(0x13, text)].concat())].concat())
    };
    let subject = der(0x30, &[name(10, b"system:nodes"), name(3, b"system:node:n")].concat());
    let algorithm = der(
        0x30,
        &[
            der(6, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]),
            der(6, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]),
        ]
        .concat(),
    );
    let point = [vec![0, 4], vec![7; 64]].concat();
    let key = der(0x30, &[algorithm, der(3, &point)].concat());
    let info = der(0x30, &[der(2, &[0]), subject, key, der(0xa0, &[])].concat());
    let signed = der(0x30, &der(6, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]));
    let request = der(0x30, &[info, signed, der(3, &[0, 0x30, 6, 2, 1, 1, 2, 1, 1])].concat());
    vec![[vec![1], request.clone()].concat(), [vec![0], pem(&request)].concat()]
}

/// A value of DER with its tag and its length.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short ones only");
    let length = if length < 0x80 { vec![length] } else { vec![0x81, length] };
    [vec![tag], length, content.to_vec()].concat()
}

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
        "metadata": {"name": "m", "labels": {"a": "b"}}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}]}}}})
}

fn widget() -> Value {
    json!({"apiVersion": "fuzz.seatrial.dev/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": 3, "note": "a,b", "items": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}],
            "extra": {"any": [1, "x", null]}}})
}

fn definition(rule: &str) -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 20, "pattern": "^[a-z]*$"},
        "weight": {"type": "integer", "default": 1}}});
    let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
        "size": {"type": "integer", "minimum": 0},
        "note": {"type": "string", "maxLength": 30},
        "port": {"x-kubernetes-int-or-string": true},
        "items": {"type": "array", "maxItems": 10, "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.fuzz.seatrial.dev"},
        "spec": {"group": "fuzz.seatrial.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}}}]}})
}
