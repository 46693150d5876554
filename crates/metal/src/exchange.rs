//! One HTTP request and its answer, over a network or within this process.
//!
//! In the field an exchange goes through sockets and TLS; a simulated site answers it by a function
//! call, so that ten thousand BMCs need no port and a held clock stays held.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;
use tower::util::BoxCloneSyncService;

/// The largest body of an answer that is read, in bytes.
pub(crate) const MOST_BODY: usize = 1 << 20;
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Carries requests with absolute URLs to whoever answers them. Cheap to clone.
pub type Exchange = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, Unreachable>;

/// No answer: refused, cut off, or too late.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{host} does not answer: {why}")]
pub struct Unreachable {
    /// Who was asked, as `host:port`.
    pub host: String,
    /// What happened.
    pub why: String,
}

/// An exchange over HTTP without TLS: what firmware and a machine that knows no authority yet speak.
pub fn http() -> Exchange {
    over(tcp(), usize::MAX)
}

/// How connections are opened.
pub(crate) fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

/// An exchange over connections of a kind, of which so many idle ones are kept for each host.
pub(crate) fn over<C>(connector: C, idle: usize) -> Exchange
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        .build(connector);
    BoxCloneSyncService::new(tower::service_fn(move |request| send(client.clone(), request)))
}

async fn send<C>(
    client: Client<C, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Unreachable>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let lost = |error: &dyn std::error::Error| Unreachable {
        host: host.clone(),
        why: kit::error::chain(error).to_string(),
    };
    let answer = client.request(request.map(Full::new)).await.map_err(|error| lost(&error))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, MOST_BODY).collect().await.map_err(|error| lost(&*error))?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}
