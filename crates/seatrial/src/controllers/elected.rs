//! On a cluster that others run: of several such processes one leads, and the others wait.
//!
//! Who cannot renew the lease ends at once, whatever is under way: another may lead by then. What was
//! begun is taken up by the next leader, since all that it needs stands in objects. The boot service
//! alone answers in each of them.

use std::net::SocketAddr;

use api::Machine;
use controllers::boot::Desk;
use controllers::{Entry, Selection, Site};
use kit::clock::Clock;
use kit::controller::lease::{Election, Outcome as Led};
use kit::controller::{Manager, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Api;
use kube::api::ListParams;
use metal::redfish::Bmcs;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{BootListener, add, probes};
use crate::client::Cluster;
use crate::cmd::{Outcome, version};
use crate::install::rights;
use crate::{embedded, identity};

/// How they are run.
pub(crate) struct Options {
    /// Which.
    pub(crate) selection: Selection,
    /// Where their accounts and the lease lie.
    pub(crate) namespace: String,
    /// Wait until this process leads.
    pub(crate) elect: bool,
    /// Where metrics and health are answered.
    pub(crate) listen: SocketAddr,
    /// Where machines boot, if they do from here.
    pub(crate) boots: Option<BootListener>,
    /// By how much the hardware is faster than real.
    pub(crate) speed: f64,
}

/// Why they do not run, or no longer.
#[derive(Debug, thiserror::Error)]
enum ElectedError {
    #[error(
        "the cluster at {url} has no machines.fleet.seatrial.dev; `seatrial install` puts them in"
    )]
    NoKinds { url: String },
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "the lease {namespace}/{name} is lost: another process leads, or the API is out of reach"
    )]
    Lost { namespace: String, name: &'static str },
}

/// Runs them until SIGINT or SIGTERM, or until the lease is lost, which is an error.
pub(crate) async fn run(cluster: &Cluster, options: Options) -> Outcome {
    let (clock, ids) = (Clock::system(), Ids::system());
    served(cluster).await?;
    let address = options.listen;
    let listen = |source| ElectedError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;

    let boots = match options.boots {
        Some(boots) => Some(boots.open().await?),
        None => None,
    };

    let site = Site {
        fleet: true,
        bmcs: Some(Bmcs::real()?.at_speed(options.speed)),
        boots: boots.as_ref().map(|boots| boots.desk.clone()),
        ..Site::default()
    };
    let entries: Vec<&Entry> = options.selection.entries(&site).collect();
    let instance = instance(&ids)?;
    let mut manager = Manager::new(kit::controller::Options {
        client: cluster.client().clone(),
        clock,
        ids,
        watch_lifetime: WATCH_LIFETIME,
        instance: instance.clone(),
    });
    let acting = identity::through(cluster.client());
    let (everywhere, elected): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.runs_everywhere());
    add(&mut manager, &elected, &acting, &options.namespace, &site);
    let mut beside = manager.beside();
    add(&mut beside, &everywhere, &acting, &options.namespace, &site);
    let _beside = beside.start();

    let metrics = manager.metrics();
    let desk = site.boots.clone();
    let is_ready = move || desk.as_ref().is_none_or(Desk::is_ready);
    let mut probes = JoinSet::new();
    probes.spawn(probes::serve(listener, move || metrics.text(), is_ready));
    announce(cluster, &entries, address, boots.as_ref().map(|boots| boots.url.as_str()))?;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        embedded::terminated().await;
        stop.send_replace(true);
    });
    if !options.elect {
        manager.run(stopping).await;
        return Ok(());
    }
    let election = Election::new(options.namespace.clone(), rights::PROCESS, instance);
    match manager.run_elected(election, stopping).await {
        Led::Stopped => Ok(()),
        Led::Lost => {
            let (namespace, name) = (options.namespace, rights::PROCESS);
            Err(ElectedError::Lost { namespace, name }.into())
        }
    }
}

/// Whether the fleet's kinds are served.
async fn served(cluster: &Cluster) -> Outcome {
    let machines: Api<Machine> = Api::all(cluster.client().clone());
    match machines.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(ElectedError::NoKinds { url: cluster.url().to_owned() }.into())
        }
        Err(error) => Err(cluster.explain(error).into()),
    }
}

/// What this process calls itself; another for each, also of one machine.
fn instance(ids: &Ids) -> Outcome<String> {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.unwrap_or_else(|| "seatrial".to_owned());
    Ok(format!("{host}_{}", ids.name_suffix()?))
}

fn announce(
    cluster: &Cluster,
    entries: &[&Entry],
    address: SocketAddr,
    boots: Option<&str>,
) -> std::io::Result<()> {
    use std::io::Write as _;
    let names: Vec<&str> = entries.iter().map(|entry| entry.folder).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "Seatrial {} · controllers {}", version::LINE, names.join(", "))?;
    writeln!(out, "  cluster      {}", cluster.url())?;
    writeln!(out, "  metrics      http://{address}/metrics (and /healthz, /readyz)")?;
    if let Some(url) = boots {
        writeln!(out, "  boots        {url}/boot/v1 (script, manifest, enrol, join)")?;
    }
    out.flush()
}
