//! The way between a client and the API server: what a request meets on it, and what is written down
//! of it.
//!
//! What arrives is recorded where it arrives, so that the record holds what was done, whatever its
//! author came to know of it.

use super::record::Record;
use super::sabotage::Saboteur;
use super::weather::{End, Errand, Fate, Link, Passage, Weather};
use apiserver::ResponseBody;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, Request, Response};
use http_body_util::Full;
use kube::client::Body;
use serde_json::json;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

/// The connection is gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection was cut")]
pub(super) struct Cut;

/// One client's way to the server.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) server: apiserver::Service,
    /// As whom the client acts.
    pub(super) user: Arc<str>,
    /// What it meets; nothing for people.
    pub(super) link: Option<Link>,
    pub(super) weather: Weather,
    pub(super) record: Record,
    pub(super) saboteur: Saboteur,
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<ResponseBody>;
    type Error = Cut;
    type Future = BoxFuture<'static, Result<Self::Response, Cut>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().carry(request).boxed()
    }
}

impl Wire {
    async fn carry(self, request: Request<Body>) -> Result<Response<ResponseBody>, Cut> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(|_| Cut)?;
        let errand = errand(&head);
        let passage = match self.link {
            Some(link) => self.weather.passage(link, errand),
            None => Passage::WELL,
        };
        wait(passage.before).await;
        match passage.fate {
            Fate::Lost => return Err(Cut),
            Fate::Refused(code) => return Ok(refusal(code)),
            Fate::Dies { after: false } => match self.weather.die().await {},
            _ => {}
        }
        let path = head.uri.path().to_owned();
        let answer = self.deliver(Request::from_parts(head, body)).await;
        match passage.fate {
            Fate::Unheard => return Err(Cut),
            Fate::Dies { after: true } => match self.weather.die().await {},
            _ => {}
        }
        wait(passage.after).await;
        Ok(match (errand, self.link) {
            (Errand::Watch { .. }, Some(link)) => self.watched(link, path, answer),
            _ => answer,
        })
    }

    /// At the server.
    async fn deliver(&self, request: Request<Bytes>) -> Response<ResponseBody> {
        let request = self.saboteur.sent(&self.user, request).await;
        let reads = request.method() == Method::GET;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let Ok(answer) = self.server.clone().oneshot(request.map(Full::new)).await;
        let code = answer.status().as_u16();
        answer.map(|body| match body {
            ResponseBody::Full(body) if reads => {
                ResponseBody::Full(self.saboteur.read(uri.path(), body))
            }
            ResponseBody::Full(body) => {
                self.record.wrote(&self.user, &method, &uri, code, &body);
                ResponseBody::Full(body)
            }
            watch @ ResponseBody::Stream(_) => watch,
        })
    }

    /// A watch that is late and breaks off as the weather has it.
    fn watched(
        &self,
        link: Link,
        path: String,
        answer: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let (weather, saboteur) = (self.weather.clone(), self.saboteur.clone());
        answer.map(|body| match body {
            ResponseBody::Stream(events) => {
                let ends = weather.watch(link);
                let watch = Watched { events, ends, weather, link, saboteur, path };
                ResponseBody::Stream(futures::stream::unfold(Some(watch), Watched::next).boxed())
            }
            whole @ ResponseBody::Full(_) => whole,
        })
    }
}

/// A watch that goes on.
struct Watched {
    events: BoxStream<'static, Bytes>,
    ends: oneshot::Receiver<End>,
    weather: Weather,
    link: Link,
    saboteur: Saboteur,
    path: String,
}

impl Watched {
    async fn next(watch: Option<Self>) -> Option<(Bytes, Option<Self>)> {
        let mut watch = watch?;
        loop {
            let event = tokio::select! {
                biased;
                end = &mut watch.ends => return match end {
                    Ok(End::Expired) => Some((expired(), None)),
                    Ok(End::Cut) | Err(_) => None,
                },
                event = watch.events.next() => event?,
            };
            wait(watch.weather.late(watch.link)).await;
            if let Some(event) = watch.saboteur.told(&watch.path, event) {
                return Some((event, Some(watch)));
            }
        }
    }
}

async fn wait(time: std::time::Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn errand(head: &http::request::Parts) -> Errand {
    let query = head.uri.query().unwrap_or_default();
    match head.method {
        Method::GET if query.contains("watch=true") => {
            Errand::Watch { resumes: query.contains("resourceVersion=") }
        }
        Method::GET => Errand::Read,
        Method::PATCH => Errand::Patch,
        _ => Errand::Write,
    }
}

/// An answer as a server under load, or before one, gives it.
fn refusal(code: u16) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::Full(status(code).to_string().into()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}

fn expired() -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": status(410)})).into()
}

fn status(code: u16) -> serde_json::Value {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a schedule has it so", "reason": reason, "code": code,
    })
}
