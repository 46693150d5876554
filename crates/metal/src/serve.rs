//! An exchange behind a listener, over HTTP/1: the boot service, or the BMCs of a simulated site.
//!
//! What one peer sends is no concern of another: a connection that goes wrong ends alone, and there
//! are only so many at a time.

use crate::exchange::{Exchange, Unreachable};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// As many connections as 10,000 machines hold at a time.
const MAX_CONNECTIONS: usize = 4_096;
/// Who says nothing for so long is cut off.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// The largest request body, in bytes.
const MOST_BODY: usize = 64 << 10;

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, exchange: Exchange) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let exchange = exchange.clone();
                connections.spawn(async move {
                    connection(exchange, stream).await;
                    drop(slot);
                });
            }
            Err(error) => {
                // Out of file handles, mostly: it passes when connections end.
                tracing::warn!(%error, "a listener cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(exchange: Exchange, stream: TcpStream) {
    let service = service_fn(move |request: Request<Incoming>| answer(exchange.clone(), request));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn answer(
    exchange: Exchange,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Unreachable> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(HEADERS_WITHIN, Limited::new(body, MOST_BODY).collect()).await;
    let Ok(Ok(body)) = body else {
        let mut answer = Response::new(Full::new(Bytes::from_static(b"the body is too long\n")));
        *answer.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        return Ok(answer);
    };
    let answer = exchange.oneshot(Request::from_parts(head, body.to_bytes())).await?;
    Ok(answer.map(Full::new))
}
