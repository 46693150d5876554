//! Virtual time beside a server that lives in real time.
//!
//! A paused clock jumps to the next timer as soon as no task can run, which is also so while an answer
//! is on its way through a socket. The brake holds the clock while a request is underway, and until
//! nothing has come from the server for [`QUIET`]: long enough for what a write sets off to come
//! down the watches. So a test that waits for hours takes seconds on a real server as well, and takes
//! the same turns as on the one in the process.
//!
//! It does not make a slow server look fast: who hears of a change only after [`QUIET`] hears of it
//! late, as controllers must be able to.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// An idle kube-apiserver sends an event within a few milliseconds of the write.
const QUIET: Duration = Duration::from_millis(20);

/// The brake of one runtime. Cheap to clone.
#[derive(Clone)]
pub(super) struct Brake(Arc<(Mutex<Held>, Condvar)>);

struct Held {
    /// Requests that are not answered whole.
    underway: usize,
    /// When something last went to the server or came from it.
    last: Instant,
    /// Whether a thread holds the clock.
    on: bool,
}

impl Brake {
    pub(super) fn new() -> Self {
        let held = Held { underway: 0, last: Instant::now(), on: false };
        Self(Arc::new((Mutex::new(held), Condvar::new())))
    }

    /// Something went to the server or came from it.
    fn touch(&self) {
        self.change(|_| {});
    }

    fn request(&self) -> Underway {
        self.change(|held| held.underway += 1);
        Underway(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        let mut held = self.0.0.lock().unwrap();
        change(&mut held);
        held.last = Instant::now();
        if held.on {
            self.0.1.notify_one();
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            held.on = true;
            let brake = self.clone();
            // What runs there holds a paused clock.
            runtime.spawn_blocking(move || brake.hold());
        }
    }

    /// Returns when nothing is underway and all has been quiet.
    fn hold(&self) {
        let (held, changed) = &*self.0;
        let mut held = held.lock().unwrap();
        loop {
            let quiet = held.last.elapsed();
            if held.underway == 0 && quiet >= QUIET {
                held.on = false;
                return;
            }
            let rest = QUIET.saturating_sub(quiet).max(Duration::from_millis(1));
            held = changed.wait_timeout(held, rest).unwrap().0;
        }
    }
}

/// A request that is not answered whole.
struct Underway(Brake);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.change(|held| held.underway -= 1);
    }
}

impl<S> Layer<S> for Brake {
    type Service = Braked<S>;

    fn layer(&self, inner: S) -> Braked<S> {
        Braked { inner, brake: self.clone() }
    }
}

/// A client's way to the server, with the brake's foot on it.
pub(super) struct Braked<S> {
    inner: S,
    brake: Brake,
}

impl<S, B> Service<Request<Body>> for Braked<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Answer<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let brake = self.brake.clone();
        let underway = brake.request();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            // A watch lasts as long as the test does; its beginning is an answer.
            let underway = (!watches).then_some(underway);
            Ok(answer.map(|body| Answer { body, brake, underway }))
        })
    }
}

/// A body that touches the brake with all that comes.
pub(super) struct Answer<B> {
    body: B,
    brake: Brake,
    underway: Option<Underway>,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.brake.touch();
        if frame.is_none() {
            self.underway = None;
        }
        Poll::Ready(frame)
    }
}
