//! The TLS front: connections in, requests out to one service.
//!
//! HTTP/1.1 and HTTP/2 over TLS 1.2 and 1.3. Whoever connects is bounded in number, in time and in
//! size until a whole request header has arrived, and between requests; a peer that is gone is
//! found out by pings. Each request carries [`RemoteAddress`], [`Draining`] and, if the peer
//! presented one, its [`PeerCertificates`](crate::auth::certificate::PeerCertificates), which the
//! handshake does not judge. A panic costs its own request and nothing else.
//!
//! How long a request may take, how large its body may be and how fast that must come is up to the
//! service. So is ending watches when the server shuts down, for which there is [`Draining`].
//! Connections that were upgraded to another protocol are no longer counted here.

mod connection;
mod plain;
mod request;
mod tls;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::Service;
use tracing::{debug, warn};

pub use request::{Draining, RemoteAddress};
pub use tls::{TlsConfig, TlsError};

use connection::Front;

/// How long the server waits before it accepts again after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a peer may take. The defaults are a kube-apiserver's where it has them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; more wait in the system's queue. A node holds one or two for as long as
    /// it lives, so this bounds the cluster: the default is for 10,000 nodes.
    pub connections: usize,
    /// From connect to the end of the TLS handshake.
    pub handshake: Duration,
    /// From there, or from the last answer, to the end of the next request's header.
    pub header: Duration,
    /// How long a connection may stay open without a request.
    pub idle: Duration,
    /// Header lines of one request.
    pub header_lines: usize,
    /// Bytes of one request's header.
    pub header_bytes: u32,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Between pings on an HTTP/2 connection.
    pub ping_interval: Duration,
    /// How long the answer to a ping may take.
    pub ping_timeout: Duration,
    /// How long requests may go on after shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_480,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            header_lines: 200,
            header_bytes: 128 * 1024,
            streams: 1000,
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            drain: Duration::from_secs(60),
        }
    }
}

/// What happened at the front, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    handshake_failures: AtomicU64,
    panics: AtomicU64,
}

impl Counters {
    /// Connections accepted.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that never got past the handshake.
    pub fn handshake_failures(&self) -> u64 {
        self.handshake_failures.load(Ordering::Relaxed)
    }

    /// Requests that ended in a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

/// Serves `service` on `listener` until `shutdown` completes and requests have drained.
///
/// At shutdown nothing more is accepted, requests may go on for [`Limits::drain`], and whatever is
/// left then is cut off.
pub async fn serve<S, B>(
    listener: TcpListener,
    tls: TlsConfig,
    service: S,
    limits: Limits,
    counters: Arc<Counters>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TlsError>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (stop, stopping) = watch::channel(false);
    let (drain, most) = (limits.drain, limits.connections);
    let front = Arc::new(Front::new(tls.acceptor()?, service, limits, counters, stopping));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    if let Ok(address) = listener.local_addr() {
        debug!(%address, "serving");
    }
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((stream, remote)) => {
                    front.counters.connections.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(Arc::clone(&front).connection(stream, remote));
                }
                Err(error) => {
                    warn!(%error, "accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    // Connections hold the other end; if there are none, nobody needs to know.
    let _ = stop.send(true);
    let drained = timeout(drain, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        debug!(connections = connections.len(), "cut off connections that did not drain");
        connections.shutdown().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
