//! The server as a `tower::Service`: what `kube::Client` talks to in the process, and what the TLS
//! front serves.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;

use crate::auth::User;
use crate::server::ApiServer;
use crate::wire::body::ResponseBody;

/// A door into the server. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    server: ApiServer,
    /// Who everybody is that comes through this door; `None` looks at credentials.
    user: Option<User>,
}

impl Service {
    pub(crate) fn new(server: ApiServer, user: Option<User>) -> Self {
        Self { server, user: user.map(crate::server::in_process) }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, user } = self.clone();
        Box::pin(async move { Ok(server.handle(request, user).await) })
    }
}
