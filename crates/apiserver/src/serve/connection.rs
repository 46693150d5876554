//! One connection, from accept to close.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::Service;
use tracing::debug;

use super::request::{Draining, InFlight, Origin, RemoteAddress, respond};
use super::{Counters, Limits};
use crate::auth::certificate::PeerCertificates;

/// How a TLS connection begins: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
/// What those who speak plain HTTP to the port begin with, cut to five bytes.
const HTTP_STARTS: [&[u8; 5]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
const NOT_HTTPS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How much of a plain request is read away, so that the answer to it arrives.
const PLAIN_REQUEST_BYTES: u64 = 64 * 1024;

/// A stream's share of a request body that is buffered before the service asks for it; nearly all
/// objects fit.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 16 * STREAM_WINDOW;

/// What all connections share.
pub(super) struct Front<S> {
    acceptor: TlsAcceptor,
    service: S,
    limits: Limits,
    pub(super) counters: Arc<Counters>,
    stopping: watch::Receiver<bool>,
    http: auto::Builder<TokioExecutor>,
}

impl<S, B> Front<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(
        acceptor: TlsAcceptor,
        service: S,
        limits: Limits,
        counters: Arc<Counters>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header)
            .max_headers(limits.header_lines)
            .max_buf_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX));
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(limits.header_bytes)
            .max_concurrent_streams(limits.streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(STREAM_WINDOW)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout);
        Self { acceptor, service, limits, counters, stopping, http }
    }

    pub(super) async fn connection(self: Arc<Self>, stream: TcpStream, remote: SocketAddr) {
        // Shutdown does not wait for peers that have not even introduced themselves.
        let mut stopping = self.stopping.clone();
        let greeted = tokio::select! {
            greeted = timeout(self.limits.handshake, self.handshake(stream)) => greeted,
            _ = stopping.wait_for(|&stopping| stopping) => return,
        };
        let failure = match greeted {
            Ok(Ok(Some(stream))) => return self.requests(stream, remote).await,
            Ok(Ok(None)) => "plain HTTP".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "too slow".to_owned(),
        };
        self.counters.handshake_failures.fetch_add(1, Ordering::Relaxed);
        debug!(%remote, failure, "TLS handshake failed");
    }

    /// None if the peer speaks plain HTTP, which it is told.
    async fn handshake(&self, mut stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        stream.set_nodelay(true)?;
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first == [TLS_HANDSHAKE] {
            return self.acceptor.accept(stream).await.map(Some);
        }
        let mut start = [0; 5];
        stream.read_exact(&mut start).await?;
        if !HTTP_STARTS.contains(&&start) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a TLS handshake"));
        }
        stream.write_all(NOT_HTTPS).await?;
        stream.shutdown().await?;
        // Closing with input unread would reset the connection and take the answer with it.
        let mut rest = stream.take(PLAIN_REQUEST_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        Ok(None)
    }

    /// Serves requests until the peer leaves, falls silent, or the server shuts down.
    async fn requests(self: Arc<Self>, stream: TlsStream<TcpStream>, remote: SocketAddr) {
        let (_, session) = stream.get_ref();
        // Without negotiation it is HTTP/1.1; looking at what the peer sends could wait for ever.
        let http2 = session.alpn_protocol() == Some(b"h2");
        let certificates = session.peer_certificates().map(|chain| {
            PeerCertificates::new(chain.iter().map(|one| one.clone().into_owned()).collect())
        });
        let origin = Origin {
            remote: RemoteAddress(remote),
            certificates,
            draining: Draining(self.stopping.clone()),
        };
        let in_flight = Arc::new(watch::Sender::new(0));
        let mut silence =
            pin!(silence(in_flight.subscribe(), self.limits.header, self.limits.idle));
        let mut stopping = self.stopping.clone();
        let watched = in_flight.subscribe();
        let front = Arc::clone(&self);
        let service = service_fn(move |request| {
            let guard = InFlight::begin(Arc::clone(&in_flight));
            let counters = Arc::clone(&front.counters);
            respond(front.service.clone(), request, origin.clone(), guard, counters)
        });
        let http = self.http.clone();
        let http = if http2 { http.http2_only() } else { http.http1_only() };
        let mut connection =
            pin!(http.serve_connection_with_upgrades(TokioIo::new(stream), service));
        tokio::select! {
            result = connection.as_mut() => return report(remote, result),
            _ = stopping.wait_for(|&stopping| stopping) => {}
            () = silence.as_mut() => {}
        }
        connection.as_mut().graceful_shutdown();
        let still_silent = self::silence(watched, self.limits.header, self.limits.header);
        tokio::select! {
            result = connection => report(remote, result),
            () = still_silent => debug!(%remote, "peer did not leave when asked to"),
        }
    }
}

fn report(remote: SocketAddr, result: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = result {
        debug!(%remote, error = %kit::error::chain(&*error), "connection failed");
    }
}

/// Completes when no request is in flight for a while: `before` the first one, `between` later.
async fn silence(mut in_flight: watch::Receiver<usize>, before: Duration, between: Duration) {
    let mut patience = before;
    while in_flight.wait_for(|&requests| requests == 0).await.is_ok() {
        tokio::select! {
            () = sleep(patience) => return,
            _ = in_flight.changed() => patience = between,
        }
    }
}
