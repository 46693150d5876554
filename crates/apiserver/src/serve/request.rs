//! One request: where it came from, that it is under way, and that its panics stay its own.

use std::any::Any;
use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tokio::sync::watch;
use tower::Service;
use tracing::error;

use super::{Counters, plain};
use crate::auth::certificate::PeerCertificates;

/// The address a request came from, in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress(pub SocketAddr);

/// Whether the server shuts down, in a request's extensions. Watches end when it does; anything
/// else may finish.
#[derive(Clone, Debug)]
pub struct Draining(pub(super) watch::Receiver<bool>);

impl Draining {
    /// Completes when shutdown has begun.
    pub async fn begun(mut self) {
        // A server that is gone without a word drains as well.
        let _ = self.0.wait_for(|&draining| draining).await;
    }
}

/// What is known of a request before its first byte.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) remote: RemoteAddress,
    pub(super) certificates: Option<PeerCertificates>,
    pub(super) draining: Draining,
}

/// A request under way, counted from its header to the last byte of its answer.
pub(super) struct InFlight(Arc<watch::Sender<usize>>);

impl InFlight {
    pub(super) fn begin(count: Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|requests| *requests += 1);
        Self(count)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

/// The service's answer, or 500 if it panicked.
pub(super) async fn respond<S, B>(
    mut service: S,
    mut request: Request<Incoming>,
    origin: Origin,
    in_flight: InFlight,
    counters: Arc<Counters>,
) -> Result<Response<Either<Guarded<B>, Full<Bytes>>>, Infallible>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
{
    if let Some(answer) = plain::answer(&request) {
        return Ok(answer.map(Either::Right));
    }
    let extensions = request.extensions_mut();
    extensions.insert(origin.remote);
    extensions.insert(origin.draining);
    if let Some(certificates) = origin.certificates {
        extensions.insert(certificates);
    }
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let answer = async {
        let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
        service.call(request).await
    };
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(Ok(response)) => Ok(response.map(|body| {
            Either::Left(Guarded { body: Some(Box::pin(body)), counters, _in_flight: in_flight })
        })),
        Err(panic) => {
            counters.panics.fetch_add(1, Ordering::Relaxed);
            error!(%method, path, panic = panic_text(&*panic), "request panicked");
            Ok(internal_error().map(Either::Right))
        }
    }
}

/// What a client learns of a panic: that there was one.
fn internal_error() -> Response<Full<Bytes>> {
    const STATUS: &str = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
        r#""message":"This request caused apiserver to panic. Look in the logs for details.","#,
        r#""reason":"InternalError","code":500}"#,
        "\n"
    );
    let mut response = Response::new(Full::new(Bytes::from_static(STATUS.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// The service's body: it keeps the request in flight, and a panic ends it as an error.
pub(super) struct Guarded<B> {
    /// None after a panic.
    body: Option<Pin<Box<B>>>,
    counters: Arc<Counters>,
    _in_flight: InFlight,
}

impl<B> Body for Guarded<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll_frame(context)));
        match polled {
            Ok(frame) => Poll::Ready(ready!(frame).map(|frame| frame.map_err(Into::into))),
            Err(panic) => {
                self.body = None;
                self.counters.panics.fetch_add(1, Ordering::Relaxed);
                error!(panic = panic_text(&*panic), "response body panicked");
                Poll::Ready(Some(Err("the response was cut off".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, |body| body.size_hint())
    }
}
