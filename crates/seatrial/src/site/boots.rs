//! The boot service of a simulated site: behind a listener, as its machines reach it.

use std::net::{Ipv4Addr, SocketAddr};

use ::controllers::boot::{Addresses, Desk};
use sim::datacentre::{BootService, Datacentre};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where the images of a simulated site would lie: nobody loads them.
const IMAGES: &str = "http://images.seatrial.local";

/// Nothing can listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for machines that boot on {address}")]
pub(crate) struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// A boot service that answers until this is dropped.
pub(crate) struct Boots {
    /// Where controllers find what is asked.
    pub(crate) desk: Desk,
    /// As machines reach it.
    pub(crate) service: BootService,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    _answering: JoinSet<()>,
}

impl Boots {
    /// Lets the machines of a datacentre boot from it. It answers where it did before, so that no
    /// machine must be told anew, or else anywhere; `api` is where the machines reach the API.
    ///
    /// # Errors
    /// If nothing can listen.
    pub(crate) async fn open(
        datacentre: &Datacentre,
        before: Option<SocketAddr>,
        api: &str,
    ) -> Result<Self, ListenError> {
        let listener = listen(before).await?;
        let anywhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let address = listener.local_addr();
        let address = address.map_err(|source| ListenError { address: anywhere, source })?;
        let url = format!("http://{address}");
        let desk = Desk::new(Addresses {
            service: url.clone(),
            api: api.to_owned(),
            images: IMAGES.to_owned(),
            arguments: Vec::new(),
        });
        let service = BootService { exchange: metal::exchange::http(), url };
        datacentre.boot_from(service.clone());
        let mut answering = JoinSet::new();
        answering.spawn(metal::serve(listener, desk.exchange()));
        Ok(Self { desk, service, address, _answering: answering })
    }
}

async fn listen(before: Option<SocketAddr>) -> Result<TcpListener, ListenError> {
    if let Some(address) = before
        && let Ok(listener) = TcpListener::bind(address).await
    {
        return Ok(listener);
    }
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}
