//! What a test of an operator does with the server: held time, two users, and faults.
//!
//! `cargo run -p apiserver --example inside_a_test`
#![allow(clippy::print_stdout)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::auth::User;
use apiserver::{ApiServer, ResponseBody};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kit::{clock::Clock, ids::Ids};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

type Error = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    // Time begins here, and moves only when everybody waits or somebody moves it.
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse()?);
    // The same seed gives the same UIDs and names, and so the same bytes, in every run.
    let server = ApiServer::in_memory(clock, Ids::seeded(1)).await?;
    let client = Client::new(server.service_as_admin(), "default");

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    println!("{}", touch(&maps, "one").await?);
    tokio::time::advance(Duration::from_secs(349 * 86_400)).await;
    println!("{}", touch(&maps, "two").await?);

    // Somebody without rights: what your operator's own account should get to see.
    let alice = User { name: "alice".to_owned(), ..User::default() };
    let alice = Client::new(server.service_as(alice), "default");
    let refused = touch(&Api::default_namespaced(alice), "three").await;
    println!("{}", refused.err().map_or_else(String::new, |error| error.to_string()));

    // The next two writes fail on the way; an operator should try again.
    let faults = Arc::new(AtomicU32::new(2));
    let flaky = Client::new(Flaky { inner: server.service_as_admin(), faults }, "default");
    let maps = Api::default_namespaced(flaky);
    loop {
        match touch(&maps, "four").await {
            Ok(line) => break println!("{line}"),
            Err(error) => println!("again, after: {error}"),
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    Ok(())
}

async fn touch(maps: &Api<ConfigMap>, name: &str) -> Result<String, kube::Error> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let map = maps.patch(name, &PatchParams::apply("me"), &Patch::Apply(map)).await?;
    let created = map.creation_timestamp().map(|time| time.0.to_string());
    Ok(format!("{} made at {}", map.name_any(), created.unwrap_or_default()))
}

/// The server behind a network that loses the first few writes.
struct Flaky {
    inner: apiserver::Service,
    faults: Arc<AtomicU32>,
}

impl tower::Service<Request<Body>> for Flaky {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let less = |left: u32| left.checked_sub(1);
        let (relaxed, faults) = (Ordering::Relaxed, &self.faults);
        if request.method() == Method::GET || faults.fetch_update(relaxed, relaxed, less).is_err() {
            return self.inner.call(request);
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
            "reason": "ServiceUnavailable", "message": "the network is down",
        });
        let mut response = Response::new(ResponseBody::Full(status.to_string().into()));
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        Box::pin(std::future::ready(Ok(response)))
    }
}
