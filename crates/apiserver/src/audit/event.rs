//! The event of one request, filled in as the request goes its way.
//!
//! A [`Record`] tells each stage once, whatever happens: a request that is given up, because its
//! client is gone or a handler panicked, is told when the record is dropped.

use bytes::Bytes;
use futures::StreamExt as _;
use http::Response;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use kit::clock::{Clock, rfc3339_micros};
use serde_json::{Map, Value, json};

use super::Audit;
use super::policy::{Aim, Level, Matched, Ruling, Stage};
use crate::auth::User;
use crate::decode;
use crate::request::ResourcePath;
use crate::serve::RemoteAddress;
use crate::wire::body::ResponseBody;

/// The most of a user agent that is told, in characters; a kube-apiserver's number.
const MAX_AGENT: usize = 1024;

/// What a request is, before anything is decided about it.
pub(crate) struct About<'a> {
    pub(crate) parts: &'a Parts,
    /// Nobody where the request was not let in.
    pub(crate) user: Option<&'a User>,
    pub(crate) verb: &'a str,
    /// None for a path that is no resource.
    pub(crate) path: Option<&'a ResourcePath>,
    pub(crate) namespace: &'a str,
    pub(crate) id: &'a str,
}

/// The account of one request; empty where nothing is told of it.
#[derive(Default)]
pub(crate) struct Record(Option<Box<Told>>);

struct Told {
    audit: Audit,
    clock: Clock,
    ruling: Ruling,
    event: Map<String, Value>,
    /// Told once, of a request that was not let in.
    refused: bool,
    ended: bool,
}

impl Record {
    /// Begins the account of a request.
    pub(crate) fn begin(audit: Option<&Audit>, clock: &Clock, about: &About<'_>) -> Self {
        let Some(audit) = audit else { return Self(None) };
        let name = about.path.and_then(|path| path.name.as_deref()).unwrap_or_default();
        let target = match about.path {
            Some(path) => Aim::Resource {
                group: &path.group,
                resource: &path.resource,
                part: path.subresource.as_deref().unwrap_or_default(),
                namespace: about.namespace,
                name,
            },
            None => Aim::Path(about.parts.uri.path()),
        };
        let ruling = audit.policy.judge(&Matched { user: about.user, verb: about.verb, target });
        if ruling.level == Level::None {
            return Self(None);
        }
        let mut event = Map::new();
        for (field, value) in [
            ("kind", "Event"),
            ("apiVersion", "audit.k8s.io/v1"),
            ("level", ruling.level.as_str()),
            ("auditID", about.id),
            ("verb", about.verb),
            ("requestReceivedTimestamp", &rfc3339_micros(clock.now())),
        ] {
            event.insert(field.to_owned(), value.into());
        }
        let uri = about.parts.uri.path_and_query().map(ToString::to_string);
        event.insert("requestURI".to_owned(), uri.unwrap_or_default().into());
        event.insert("user".to_owned(), about.user.map_or_else(|| json!({}), user_info));
        event.insert("sourceIPs".to_owned(), sources(about.parts).into());
        let agent = about.parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        if let Some(agent) = agent {
            let agent: String = agent.chars().take(MAX_AGENT).collect();
            event.insert("userAgent".to_owned(), agent.into());
        }
        if let Some(path) = about.path {
            event.insert("objectRef".to_owned(), object_ref(path, about.namespace));
        }
        let refused = about.user.is_none();
        let audit = audit.clone();
        let clock = clock.clone();
        let told = Told { audit, clock, ruling, event, refused, ended: false };
        if !refused {
            told.tell(Stage::RequestReceived, Map::new());
        }
        Self(Some(Box::new(told)))
    }

    /// In whose name the request goes on.
    pub(crate) fn acts_as(&mut self, user: &User) {
        if let Some(told) = &mut self.0 {
            told.event.insert("impersonatedUser".to_owned(), user_info(user));
        }
    }

    /// Whether the request was allowed, and by what.
    pub(crate) fn decided(&mut self, allowed: bool, reason: &str) {
        if let Some(told) = &mut self.0 {
            let decision = if allowed { "allow" } else { "forbid" };
            let annotations = told.event.entry("annotations").or_insert_with(|| json!({}));
            annotations["authorization.k8s.io/decision"] = decision.into();
            annotations["authorization.k8s.io/reason"] = reason.into();
        }
    }

    /// What admission has to say of it.
    pub(crate) fn annotate(&mut self, key: String, value: String) {
        if let Some(told) = &mut self.0 {
            let annotations = told.event.entry("annotations").or_insert_with(|| json!({}));
            annotations[key] = value.into();
        }
    }

    /// What was sent.
    pub(crate) fn sent(&mut self, parts: &http::HeaderMap, body: &Bytes) {
        let Some(told) = &mut self.0 else { return };
        let nameless = told.event.get("objectRef").is_some_and(|o| o.get("name").is_none());
        let wanted = told.ruling.level >= Level::Request;
        let names = nameless && told.event["verb"] == "create";
        if body.is_empty() || !(wanted || names) {
            return;
        }
        let Some(mut object) = read(parts.get(CONTENT_TYPE), body) else { return };
        let name = object.pointer("/metadata/name").filter(|name| name.is_string()).cloned();
        if let (Some(name), true) = (name, nameless) {
            told.event["objectRef"]["name"] = name;
        }
        if wanted {
            if told.ruling.omit_managed_fields {
                omit_managed_fields(&mut object);
            }
            told.event.insert("requestObject".to_owned(), object);
        }
    }

    /// Ends the account with the answer. Of one that goes on, the end is told when it ends.
    pub(crate) fn end(mut self, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let Some(told) = &mut self.0 else { return response };
        let code = response.status().as_u16();
        let (parts, body) = response.into_parts();
        let (status, object) = match &body {
            ResponseBody::Full(bytes) => told.answer(code, parts.headers.get(CONTENT_TYPE), bytes),
            ResponseBody::Stream(_) => (json!({"metadata": {}, "code": code}), None),
        };
        told.event.insert("responseStatus".to_owned(), status);
        if let Some(object) = object {
            told.event.insert("responseObject".to_owned(), object);
        }
        let body = match body {
            ResponseBody::Stream(stream) => {
                told.tell(Stage::ResponseStarted, Map::new());
                ResponseBody::Stream(
                    stream
                        .inspect(move |_| {
                            // Held until the watch ends, whoever ends it.
                            let _ = &self;
                        })
                        .boxed(),
                )
            }
            full @ ResponseBody::Full(_) => {
                let stage =
                    if told.refused { Stage::ResponseStarted } else { Stage::ResponseComplete };
                told.ended = true;
                told.tell(stage, Map::new());
                full
            }
        };
        Response::from_parts(parts, body)
    }
}

impl Told {
    /// The status of a whole answer, and the answer itself where that is told.
    fn answer(
        &self,
        code: u16,
        content_type: Option<&http::HeaderValue>,
        bytes: &Bytes,
    ) -> (Value, Option<Value>) {
        let mut status = json!({"metadata": {}, "code": code});
        let whole = self.ruling.level == Level::RequestResponse;
        if code < 400 && !whole {
            return (status, None);
        }
        let Some(mut object) = read(content_type, bytes) else { return (status, None) };
        if object["kind"] == "Status" {
            for field in ["status", "message", "reason", "details"] {
                if let Some(value) = object.get(field) {
                    status[field] = value.clone();
                }
            }
        }
        if self.ruling.omit_managed_fields {
            omit_managed_fields(&mut object);
        }
        (status, whole.then_some(object))
    }

    fn tell(&self, stage: Stage, more: Map<String, Value>) {
        if self.ruling.omit.contains(&stage) {
            return;
        }
        let mut event = self.event.clone();
        event.extend(more);
        event.insert("stage".to_owned(), stage.as_str().into());
        event.insert("stageTimestamp".to_owned(), rfc3339_micros(self.clock.now()).into());
        self.audit.sink.take(event.into());
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let failed = std::thread::panicking();
        let status = if failed {
            json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500})
        } else {
            json!({"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200})
        };
        let mut more = Map::new();
        if failed || !self.event.contains_key("responseStatus") {
            more.insert("responseStatus".to_owned(), status);
        }
        self.tell(if failed { Stage::Panic } else { Stage::ResponseComplete }, more);
    }
}

/// A body as JSON, if it is JSON or YAML.
fn read(content_type: Option<&http::HeaderValue>, body: &[u8]) -> Option<Value> {
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.contains("yaml") {
        return decode::yaml(body).ok().map(|decoded| decoded.value);
    }
    serde_json::from_slice(body).ok()
}

/// Drops `managedFields` of an object, or of the items of a list.
fn omit_managed_fields(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        if let Some(Value::Object(metadata)) = item.get_mut("metadata") {
            metadata.remove("managedFields");
        }
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn object_ref(path: &ResourcePath, namespace: &str) -> Value {
    let mut reference = json!({});
    for (field, text) in [
        ("resource", path.resource.as_str()),
        ("namespace", namespace),
        ("name", path.name.as_deref().unwrap_or_default()),
        ("apiGroup", &path.group),
        ("apiVersion", &path.version),
        ("subresource", path.subresource.as_deref().unwrap_or_default()),
    ] {
        if !text.is_empty() {
            reference[field] = text.into();
        }
    }
    reference
}

/// Where a request says that it comes from, proxies first, and where it really comes from.
fn sources(parts: &Parts) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for header in ["x-forwarded-for", "x-real-ip"] {
        let value = parts.headers.get(header).and_then(|value| value.to_str().ok());
        for part in value.unwrap_or_default().split(',').map(str::trim) {
            let known = sources.iter().any(|source| source == part);
            if part.parse::<std::net::IpAddr>().is_ok() && !known {
                sources.push(part.to_owned());
            }
        }
    }
    let remote = parts.extensions.get::<RemoteAddress>().map(|remote| remote.0.ip().to_string());
    sources.extend(remote.filter(|remote| !sources.contains(remote)));
    sources
}
