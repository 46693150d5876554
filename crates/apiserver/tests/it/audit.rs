//! Audit: every request through the service is told of once per stage, as the policy says.

use std::sync::{Arc, Mutex};

use apiserver::audit::{Audit, AuditSink, Policy};
use apiserver::auth::User;
use apiserver::auth::authn::Authenticator;
use apiserver::{ApiServer, Options};
use kit::clock::Clock;
use kit::ids::Ids;
use serde_json::{Value, json};

use crate::support::{request, send};

#[derive(Default)]
struct Kept(Mutex<Vec<Value>>);

impl AuditSink for Kept {
    fn take(&self, event: Value) {
        self.0.lock().unwrap().push(event);
    }
}

impl Kept {
    fn drain(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn audited(policy: &str) -> (ApiServer, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let (_keep, stopping) = tokio::sync::watch::channel(false);
    let policy = Arc::new(Policy::parse(policy).unwrap());
    let server = ApiServer::new(Options {
        store: Arc::new(store::MemoryStore::new()),
        clock: Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
        ids: Ids::seeded(1),
        authenticator: Authenticator::default(),
        token_key: None,
        without: Vec::new(),
        audit: Some(Audit { policy, sink: Arc::clone(&kept) as Arc<dyn AuditSink> }),
        inflight: apiserver::InFlight::default(),
        bookmark_every: None,
        stopping,
    })
    .await
    .unwrap();
    (server, kept)
}

const ALL: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], \
    rules: [{level: Metadata, resources: [{group: '', resources: [secrets]}]}, \
    {level: RequestResponse, omitManagedFields: true}]}";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_write_is_told_with_what_was_sent_and_answered() {
    let (server, kept) = audited(ALL).await;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
    let answer =
        send(&mut server.service_as_admin(), request("POST", MAPS, "application/json", body)).await;
    let [event] = kept.drain().try_into().unwrap();
    assert_eq!((&event["stage"], &event["verb"]), (&json!("ResponseComplete"), &json!("create")));
    assert_eq!(event["auditID"], answer.headers["audit-id"].to_str().unwrap());
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["requestURI"], MAPS);
    assert_eq!(event["requestReceivedTimestamp"], "2026-01-01T00:00:00.000000Z");
    let reference = json!({
        "resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1",
    });
    assert_eq!(event["objectRef"], reference);
    assert_eq!(event["requestObject"]["data"]["k"], "v");
    assert!(event["responseObject"]["metadata"]["uid"].is_string());
    assert_eq!(event["responseObject"]["metadata"].get("managedFields"), None);
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_with_its_reason_and_a_secret_never() {
    let (server, kept) = audited(ALL).await;
    let alice = User { name: "alice".into(), ..User::default() };
    let secrets = MAPS.replace("configmaps", "secrets");
    let sent = json!({"metadata": {"name": "s"}, "stringData": {"k": "hush"}}).to_string();
    let post = |user: &User| {
        let mut service = server.service_as(user.clone());
        let request = request("POST", &secrets, "application/json", sent.clone());
        async move { send(&mut service, request).await }
    };
    assert_eq!(post(&alice).await.code, 403);
    let [event] = kept.drain().try_into().unwrap();
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(event["responseStatus"]["reason"], "Forbidden");
    let mut root = alice.clone();
    root.groups.push("system:masters".into());
    assert_eq!(post(&root).await.code, 201);
    let [event] = kept.drain().try_into().unwrap();
    assert_eq!((&event["level"], &event["objectRef"]["name"]), (&json!("Metadata"), &json!("s")));
    assert!(!event.to_string().contains("hush"), "{event}");
    assert!(!event.to_string().contains("aHVzaA"), "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_told_when_it_begins_and_when_it_ends() {
    let (server, kept) = audited(ALL).await;
    let mut service = server.service_as_admin();
    let watch = request("GET", &format!("{MAPS}?watch=1&resourceVersion=1"), "", "");
    let response = tower::Service::call(&mut service, watch).await.unwrap();
    let stages = |events: Vec<Value>| -> Vec<Value> {
        events.into_iter().map(|event| event["stage"].clone()).collect()
    };
    assert_eq!(stages(kept.drain()), ["ResponseStarted"]);
    drop(response);
    assert_eq!(stages(kept.drain()), ["ResponseComplete"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_and_who_acts_as_another_are_told() {
    let (server, kept) = audited(ALL).await;
    let mut unknown = request("GET", MAPS, "", "");
    unknown.headers_mut().insert("authorization", "Bearer nonsense".parse().unwrap());
    assert_eq!(send(&mut server.service(), unknown).await.code, 401);
    let [event] = kept.drain().try_into().unwrap();
    assert_eq!((&event["stage"], &event["user"]), (&json!("ResponseStarted"), &json!({})));
    let mut acting = request("GET", "/version", "", "");
    acting.headers_mut().insert("impersonate-user", "zoe".parse().unwrap());
    send(&mut server.service_as_admin(), acting).await;
    let [event] = kept.drain().try_into().unwrap();
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["impersonatedUser"]["username"], "zoe");
}
