//! Admission webhooks, asked over real TLS connections.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apiserver::ApiServer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{Answer, request, send, server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What a webhook does with a question.
enum Reply {
    /// Answers with this `response`; the id is filled in.
    Say(Value),
    /// Answers this, whatever it is.
    Raw(StatusCode, String),
    /// Never answers.
    Hang,
}

/// A webhook on loopback, and what it was asked.
struct Hook {
    port: u16,
    bundle: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    async fn start(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let names = ["127.0.0.1", "hook.default.svc"].map(str::to_owned).to_vec();
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = CertificateDer::from_pem_slice(own.cert.pem().as_bytes()).unwrap();
        let key = own.signing_key.serialize_pem();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (reply, log) = (Arc::new(reply), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, reply) = (acceptor.clone(), Arc::clone(&reply));
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request: http::Request<Incoming>| {
                        let (reply, log) = (Arc::clone(&reply), Arc::clone(&log));
                        async move { answer(request, &*reply, &log).await }
                    });
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, bundle: STANDARD.encode(own.cert.pem()), asked }
    }

    fn client(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/x", self.port), "caBundle": self.bundle})
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(
    request: http::Request<Incoming>,
    reply: &(impl Fn(&Value) -> Reply + Send + Sync),
    log: &Mutex<Vec<Value>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    log.lock().unwrap().push(review["request"].clone());
    let (status, text) = match reply(&review["request"]) {
        Reply::Hang => std::future::pending().await,
        Reply::Raw(status, text) => (status, text),
        Reply::Say(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                "response": response});
            (StatusCode::OK, review.to_string())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}

fn allow() -> Reply {
    Reply::Say(json!({"allowed": true}))
}

fn patch(operations: &Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Say(json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}))
}

/// A webhook for ConfigMaps, with fields of its own.
fn hook(name: &str, client: Value, more: &Value) -> Value {
    let mut hook = json!({
        "name": name, "clientConfig": client, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["configmaps"]}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    hook
}

async fn configure(server: &ApiServer, plural: &str, name: &str, hooks: Vec<Value>) {
    let body = json!({"metadata": {"name": name}, "webhooks": hooks});
    let answer = ask(server, "POST", &format!("{REGISTRATION}/{plural}"), &body).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
}

async fn validating(server: &ApiServer, hooks: Vec<Value>) {
    configure(server, "validatingwebhookconfigurations", "v", hooks).await;
}

async fn mutating(server: &ApiServer, hooks: Vec<Value>) {
    configure(server, "mutatingwebhookconfigurations", "m", hooks).await;
}

async fn ask(server: &ApiServer, method: &str, uri: &str, body: &Value) -> Answer {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    soon(send(&mut server.service_as_admin(), request(method, uri, kind, body))).await
}

async fn create(server: &ApiServer, name: &str) -> Answer {
    let body = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    ask(server, "POST", MAPS, &body).await
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_webhook_sees_the_request_and_may_refuse_it() {
    let server = server().await;
    let own = Hook::start(|request| match request["object"]["metadata"]["name"].as_str() {
        Some("bad") => Reply::Say(json!({"allowed": false,
            "status": {"code": 403, "reason": "Forbidden", "message": "not bad"}})),
        Some("odd") => Reply::Say(json!({"allowed": false})),
        _ => Reply::Say(json!({"allowed": true, "warnings": ["beware"]})),
    })
    .await;
    validating(&server, vec![hook("a.test.dev", own.client(), &Value::Null)]).await;
    let answer = create(&server, "good").await;
    assert_eq!(answer.code, StatusCode::CREATED);
    assert_eq!(answer.headers["warning"], "299 - \"beware\"");
    let asked = own.asked();
    assert_eq!(asked.len(), 1);
    let seen = &asked[0];
    assert_eq!(seen["operation"], "CREATE");
    assert_eq!(seen["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(seen["userInfo"]["username"], "admin");
    assert_eq!((&seen["name"], &seen["namespace"]), (&json!("good"), &json!("default")));
    assert_eq!((&seen["dryRun"], &seen["oldObject"]), (&json!(false), &Value::Null));
    assert_eq!(seen["object"]["data"]["k"], "v");
    let bad = create(&server, "bad").await;
    assert_eq!(bad.code, StatusCode::FORBIDDEN);
    assert_eq!(message(&bad), "admission webhook \"a.test.dev\" denied the request: not bad");
    let odd = create(&server, "odd").await;
    assert_eq!(odd.code, StatusCode::BAD_REQUEST);
    assert!(message(&odd).ends_with("denied the request without explanation"));
    own.asked();
    let uri = format!("{MAPS}/good");
    assert_eq!(ask(&server, "DELETE", &uri, &Value::Null).await.code, StatusCode::OK);
    let asked = own.asked();
    assert_eq!(asked[0]["operation"], "DELETE");
    assert_eq!(
        (&asked[0]["object"], &asked[0]["oldObject"]["data"]["k"]),
        (&Value::Null, &json!("v"))
    );
}

#[tokio::test]
async fn patches_change_what_is_written_and_are_seen_by_those_who_ask_to() {
    let server = server().await;
    let first = Hook::start(|request| {
        let seen = request["object"]["data"]["second"].is_string();
        let value = if seen { "again" } else { "once" };
        patch(&json!([{"op": "add", "path": "/data/first", "value": value},
            {"op": "add", "path": "/nonsense", "value": 1}]))
    })
    .await;
    let second =
        Hook::start(|_| patch(&json!([{"op": "add", "path": "/data/second", "value": "x"}]))).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    mutating(
        &server,
        vec![
            hook("a.test.dev", first.client(), &again),
            hook("b.test.dev", second.client(), &Value::Null),
        ],
    )
    .await;
    let answer = create(&server, "a").await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
    let object = answer.json();
    assert_eq!(object["data"], json!({"k": "v", "first": "again", "second": "x"}));
    assert_eq!(object.get("nonsense"), None);
    assert_eq!((first.asked().len(), second.asked().len()), (2, 1));
    let uri = format!("{MAPS}/a");
    let answer = ask(&server, "PATCH", &uri, &json!({"data": {"first": null}})).await;
    assert_eq!(answer.json()["data"]["first"], "again", "{}", answer.json());
}

#[tokio::test]
async fn failures_refuse_or_not_as_the_policy_says() {
    let server = server().await;
    let broken = Hook::start(|request| match request["name"].as_str() {
        Some("status") => Reply::Raw(StatusCode::INTERNAL_SERVER_ERROR, "oops".to_owned()),
        Some("garbage") => Reply::Raw(StatusCode::OK, "no".to_owned()),
        Some("uid") => Reply::Raw(
            StatusCode::OK,
            json!({"kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1", "response": {"uid": "1"}})
            .to_string(),
        ),
        Some("patch") => patch(&json!([{"op": "remove", "path": "/none"}])),
        _ => allow(),
    })
    .await;
    mutating(&server, vec![hook("a.test.dev", broken.client(), &Value::Null)]).await;
    for (name, wanted) in [
        ("status", "an error on the server (\"oops\") has prevented the request from succeeding"),
        ("garbage", "json parse error"),
        ("uid", "received invalid webhook response: expected response.uid="),
    ] {
        let answer = create(&server, name).await;
        assert_eq!(answer.code, StatusCode::INTERNAL_SERVER_ERROR, "{name}");
        let said = message(&answer);
        assert!(
            said.starts_with("Internal error occurred: failed calling webhook \"a.test.dev\": "),
            "{said}"
        );
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(create(&server, "patch").await.code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(create(&server, "fine").await.code, StatusCode::CREATED);
    let ignored = json!({"failurePolicy": "Ignore"});
    let lost = json!({"url": "https://127.0.0.1:1/"});
    validating(&server, vec![hook("b.test.dev", lost, &ignored)]).await;
    assert_eq!(create(&server, "open").await.code, StatusCode::CREATED);
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_nobody_else() {
    let server = server().await;
    let slow = Hook::start(|_| Reply::Hang).await;
    let brief = json!({"timeoutSeconds": 1, "objectSelector": {"matchLabels": {"slow": "yes"}}});
    validating(&server, vec![hook("a.test.dev", slow.client(), &brief)]).await;
    let begun = Instant::now();
    let body = json!({"metadata": {"name": "a", "labels": {"slow": "yes"}}});
    let held = ask(&server, "POST", MAPS, &body);
    let other = async {
        assert_eq!(create(&server, "b").await.code, StatusCode::CREATED);
        begun.elapsed()
    };
    let (held, other) = tokio::join!(held, other);
    assert!(other < Duration::from_secs(1), "{other:?}");
    assert_eq!(held.code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(
        message(&held).ends_with("/x?timeout=1s\": context deadline exceeded"),
        "{}",
        message(&held)
    );
}

#[tokio::test]
async fn certificates_are_held_against_the_bundle() {
    let server = server().await;
    let (own, other) = (Hook::start(|_| allow()).await, Hook::start(|_| allow()).await);
    let mut client = own.client();
    client["caBundle"] = other.bundle.clone().into();
    validating(&server, vec![hook("a.test.dev", client, &Value::Null)]).await;
    let said = message(&create(&server, "a").await);
    assert!(said.contains("tls: failed to verify certificate"), "{said}");
    assert!(own.asked().is_empty());
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_found_or_told_of() {
    let server = server().await;
    let own = Hook::start(|_| allow()).await;
    let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/y",
        "port": own.port}, "caBundle": own.bundle});
    validating(&server, vec![hook("a.test.dev", client, &Value::Null)]).await;
    let post = format!("Post \"https://hook.default.svc:{}/y?timeout=10s\": ", own.port);
    let said = message(&create(&server, "a").await);
    assert!(said.ends_with(&format!("{post}service \"hook\" not found")), "{said}");
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": own.port}]}});
    let answer = ask(&server, "POST", services, &service).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"port": own.port}],
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let answer = ask(&server, "POST", slices, &slice).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
    let said = message(&create(&server, "a").await);
    assert!(said.ends_with("no endpoints available for service \"hook\""), "{said}");
    let uri = format!("{services}/hook");
    assert_eq!(ask(&server, "DELETE", &uri, &Value::Null).await.code, StatusCode::OK);
    let outside = json!({"metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let answer = ask(&server, "POST", services, &outside).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
    let answer = create(&server, "a").await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.json());
    assert_eq!(own.asked().len(), 1);
}

#[tokio::test]
async fn conditions_and_dry_runs_decide_who_is_asked() {
    let server = server().await;
    let own = Hook::start(|_| allow()).await;
    let conditions = json!({"matchConditions": [
        {"name": "some", "expression": "object == null || object.metadata.name != 'skipped'"},
    ]});
    validating(&server, vec![hook("a.test.dev", own.client(), &conditions)]).await;
    assert_eq!(create(&server, "skipped").await.code, StatusCode::CREATED);
    assert_eq!(own.asked().len(), 0);
    assert_eq!(create(&server, "asked").await.code, StatusCode::CREATED);
    assert_eq!(own.asked().len(), 1);
    let body = json!({"metadata": {"name": "dry"}});
    let answer = ask(&server, "POST", &format!("{MAPS}?dryRun=All"), &body).await;
    assert_eq!(answer.code, StatusCode::CREATED);
    assert_eq!(own.asked()[0]["dryRun"], true);
    // A webhook must not be able to keep itself.
    let uri = format!("{REGISTRATION}/validatingwebhookconfigurations/v");
    assert_eq!(ask(&server, "DELETE", &uri, &Value::Null).await.code, StatusCode::OK);
    assert_eq!(create(&server, "free").await.code, StatusCode::CREATED);
    assert!(own.asked().is_empty());
}
