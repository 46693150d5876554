//! Answers whoever looks after the process: `/metrics`, `/healthz`, `/readyz`.
//!
//! A process that waits to lead is as ready as one that leads; the metric `seatrial_leader` tells them
//! apart. One that answers machines that boot is ready when it knows the machines. Plain HTTP, nothing secret, and no peer can hold it up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// As many as a cluster's monitoring ever opens.
const MAX_CONNECTIONS: usize = 64;
/// Who says nothing for so long is cut off.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// What Prometheus reads.
const METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Answers until it is dropped.
pub(super) async fn serve(
    listener: TcpListener,
    metrics: impl Fn() -> String + Clone + Send + 'static,
    is_ready: impl Fn() -> bool + Clone + Send + 'static,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        // One that fails to connect is gone; the next is another.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (metrics, is_ready) = (metrics.clone(), is_ready.clone());
        connections.spawn(async move {
            connection(stream, metrics, is_ready).await;
            drop(slot);
        });
    }
}

async fn connection(
    stream: TcpStream,
    metrics: impl Fn() -> String + Clone,
    is_ready: impl Fn() -> bool,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path(), &metrics, &is_ready);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the probes ended");
    }
}

fn answer(
    path: &str,
    metrics: impl Fn() -> String,
    is_ready: impl Fn() -> bool,
) -> Response<Full<Bytes>> {
    let text = |text: &'static str| Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    match path {
        "/readyz" if !is_ready() => {
            let mut answer = text("the boot service does not know the machines yet\n");
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            answer
        }
        "/healthz" | "/livez" | "/readyz" => text("ok"),
        "/metrics" => {
            let mut answer = Response::new(Full::new(Bytes::from(metrics())));
            answer.headers_mut().insert(CONTENT_TYPE, METRICS);
            answer
        }
        _ => {
            let mut answer = text("there are /metrics, /healthz and /readyz\n");
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    }
}
