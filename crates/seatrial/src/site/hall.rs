//! The hardware of a site: its BMCs on a listener, its state in a file, and the socket by which it is
//! broken and mended.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use kit::clock::Clock;
use kube::Client;
use plan::catalogue::Catalogue;
use sim::datacentre::{Datacentre, Delays};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::control;
use super::objects::{FurnishError, furnish};
use super::source::Source;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How hardware is run.
pub(crate) struct Settings<'a> {
    /// What it is.
    pub(crate) source: &'a Source,
    /// Where its state is kept.
    pub(crate) directory: &'a Path,
    /// Where BMCs must answer.
    pub(crate) listen: Option<SocketAddr>,
    /// Where they answered before, so that nothing must be told anew.
    pub(crate) before: Option<SocketAddr>,
    /// By how much it is faster than real.
    pub(crate) speed: f64,
    /// The time.
    pub(crate) clock: Clock,
}

/// Why there is no hardware.
#[derive(Debug, thiserror::Error)]
enum HallError {
    #[error("cannot listen for BMCs on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("{address} is no address that controllers can reach; name one of this machine's")]
    Nowhere { address: SocketAddr },
}

/// Hardware that answers until this is dropped.
pub(crate) struct Hall {
    /// The machines.
    pub(crate) datacentre: Datacentre,
    /// Where their BMCs answer.
    pub(crate) address: SocketAddr,
    _answering: JoinSet<()>,
}

impl Hall {
    /// Lets it run, as its file has it or as delivered.
    ///
    /// # Errors
    /// If nothing can listen, or the file cannot be read.
    pub(crate) async fn open(settings: Settings<'_>) -> Result<Self, Error> {
        let listener = listen(settings.listen, settings.before).await?;
        let address = listener.local_addr()?;
        let hardware = sim::datacentre::Settings {
            clock: settings.clock,
            delays: Delays::load()?.divided_by(settings.speed)?,
            catalogue: Catalogue::built_in(),
            seed: settings.source.seed(),
            file: Some(settings.directory.join("hardware.json")),
        };
        let datacentre = Datacentre::start(settings.source.layout()?, hardware)?;
        let control = control::listen(settings.directory)?;
        let mut answering = JoinSet::new();
        answering.spawn(control::serve(control, datacentre.clone()));
        answering.spawn(datacentre.clone().serve_redfish(listener));
        Ok(Self { datacentre, address, _answering: answering })
    }

    /// Tells the API what stands here, where the fleet's kinds are installed.
    ///
    /// # Errors
    /// What the API refuses.
    pub(crate) async fn furnish(&self, admin: &Client) -> Result<(), FurnishError> {
        let url = format!("http://{}", self.address);
        furnish(admin, self.datacentre.layout().objects(&url)).await
    }
}

/// Where somebody says, else where it was before, else anywhere.
async fn listen(
    asked: Option<SocketAddr>,
    before: Option<SocketAddr>,
) -> Result<TcpListener, HallError> {
    if let Some(address) = asked.filter(|address| address.ip().is_unspecified()) {
        return Err(HallError::Nowhere { address });
    }
    if asked.is_none()
        && let Some(address) = before
        && let Ok(listener) = TcpListener::bind(address).await
    {
        return Ok(listener);
    }
    let address = asked.unwrap_or(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| HallError::Listen { address, source })
}
