//! The boot service beside the controllers of a cluster: an HTTP listener on the machines' network.
//!
//! Every replica listens and answers, whichever leads: what a machine is given is settled by who writes
//! it down first. One that does not know the machines yet answers 503, and is not ready.

use std::net::SocketAddr;

use ::controllers::boot::{Addresses, Desk};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where machines boot.
#[derive(Clone, Debug)]
pub(crate) struct BootListener {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The same as machines reach it, if that is another.
    pub(crate) url: Option<String>,
    /// The Kubernetes API as machines reach it.
    pub(crate) api: String,
    /// Where images lie.
    pub(crate) images: String,
    /// Arguments of every kernel.
    pub(crate) arguments: Vec<String>,
}

/// Nothing can listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen for machines that boot on {address}; choose another address with --boot-listen"
)]
pub(super) struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// A boot service that answers until this is dropped.
pub(super) struct Answering {
    /// What the boot controller answers by.
    pub(super) desk: Desk,
    /// As machines reach it.
    pub(super) url: String,
    _task: JoinSet<()>,
}

impl BootListener {
    /// Answers from now on.
    ///
    /// # Errors
    /// If nothing can listen there.
    pub(super) async fn open(self) -> Result<Answering, ListenError> {
        let Self { address, url, api, images, arguments } = self;
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let url = url.unwrap_or_else(|| format!("http://{bound}"));
        let desk = Desk::new(Addresses { service: url.clone(), api, images, arguments });
        let mut task = JoinSet::new();
        task.spawn(metal::serve(listener, desk.exchange()));
        Ok(Answering { desk, url, _task: task })
    }
}
