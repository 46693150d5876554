//! A Kubernetes-compatible API server for one machine.
//!
//! It exists for evaluation, development, tests, simulation and small sites: a Kubernetes API in one
//! process, in well under a second, in one file or none. What it answers is what a kube-apiserver
//! answers; what it lacks it refuses. Beyond one machine the answer is upstream Kubernetes.
//!
//! # Inside a test
//!
//! The whole path is a [`tower::Service`], so a client in the same process needs no socket, and a
//! paused clock stays paused:
//!
//! ```
//! # use k8s_openapi::api::core::v1::Namespace;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kit::{clock::Clock, ids::Ids};
//! let server = apiserver::ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await?;
//! let client = kube::Client::new(server.service_as_admin(), "default");
//!
//! let namespaces = kube::Api::<Namespace>::all(client).list(&Default::default()).await?;
//! assert!(namespaces.items.iter().any(|n| n.metadata.name.as_deref() == Some("default")));
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! `serve` is the TLS front; [`auth`] says who asks and whether they may, [`audit`] tells of it; `server` walks a request
//! from identity to answer; `registry` is the one generic handler for every kind; [`resource`] is
//! the table of kinds, built-in (`builtin`) and custom (`crd`); [`schema`], [`cel`] and [`apply`] are
//! the rules of objects; `wire` writes answers. There is no module per kind.

pub mod apply;
pub mod audit;
pub mod auth;
mod builtin;
pub mod cel;
mod crd;
pub mod decode;
mod discovery;
pub mod dotted;
mod metrics;
mod openapi;
mod patch;
mod projection;
mod registry;
pub mod request;
pub mod resource;
mod sabotage;
pub mod schema;
pub mod selector;
pub mod serve;
mod server;
mod service;
pub mod status;
mod stored;
mod wire;

pub use discovery::KUBERNETES_VERSION;
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use server::{ApiServer, InFlight, Options, Plugin, StartError, Stopping};
pub use service::Service;
pub use wire::body::{MAX_REQUEST_BYTES, ResponseBody};
