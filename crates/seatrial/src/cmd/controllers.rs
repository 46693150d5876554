//! `seatrial controllers`: the fleet's controllers on a cluster that others run.

use std::net::SocketAddr;

use ::controllers::Selection;
use clap::ArgAction;

use super::Outcome;
use crate::client::{Cluster, Where};
use crate::controllers::{self, BootListener, Options};

/// Arguments of `controllers`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial controllers --kubeconfig FILE\n  seatrial controllers --boot-listen 10.0.0.5:8082 --boot-images http://10.0.0.6/images\n  seatrial controllers --controllers machine-controller,node-controller --leader-elect=false\n\nRun two or more of them: one leads, and the next takes its place within seconds when it ends or is\ncut off. Within a pod no kubeconfig is needed. Kinds and rights are put in by `seatrial install`. Each\ncontroller acts as its own service account by impersonation, so this process needs no rights but those\nof the account seatrial-controllers."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    /// Which controllers run: names, `-name`, `*` [default: those of the fleet]
    #[arg(long, value_name = "LIST", value_parser = Selection::parse, allow_hyphen_values = true)]
    controllers: Option<Selection>,
    /// Where their service accounts and the lease lie [default: the pod's, else seatrial-system]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Wait until no other process leads
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: bool,
    /// Metrics and health are answered here; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    #[command(flatten)]
    boots: Boots,
    /// By how much the hardware is faster than real; only simulated hardware is (`simulate site`)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
}

/// Where machines boot.
#[derive(clap::Args)]
struct Boots {
    /// Machines that boot are answered here over HTTP; nowhere if not given
    #[arg(long, value_name = "ADDRESS", requires = "boot_images")]
    boot_listen: Option<SocketAddr>,
    /// The same address as machines reach it [default: http://ADDRESS]
    #[arg(long, value_name = "URL", requires = "boot_listen")]
    boot_url: Option<String>,
    /// Where images lie: the kernel of the image `gpu-1.0` is at URL/gpu-1.0/vmlinuz, its initial RAM
    /// disk at URL/gpu-1.0/initrd
    #[arg(long, value_name = "URL", requires = "boot_listen")]
    boot_images: Option<String>,
    /// An argument of every kernel; may be given several times
    #[arg(long, value_name = "WORD", requires = "boot_listen", allow_hyphen_values = true)]
    boot_argument: Vec<String>,
    /// The cluster's API as machines reach it [default: the kubeconfig's]
    #[arg(long, value_name = "URL", requires = "boot_listen")]
    boot_api: Option<String>,
}

/// Nobody could reach the boot service by its name.
#[derive(Debug, thiserror::Error)]
#[error(
    "machines cannot reach {address}; say how they do with --boot-url, as http://boot.example:8082"
)]
struct NoBootUrl {
    address: SocketAddr,
}

impl Boots {
    /// What machines are told, and where; nothing if nobody asked for it.
    fn service(&self, cluster: &Cluster) -> Result<Option<BootListener>, NoBootUrl> {
        let Some(address) = self.boot_listen else { return Ok(None) };
        let service = match &self.boot_url {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            None if address.ip().is_unspecified() => return Err(NoBootUrl { address }),
            None => None,
        };
        Ok(Some(BootListener {
            address,
            url: service,
            api: self.boot_api.clone().unwrap_or_else(|| cluster.url().to_owned()),
            images: self.boot_images.clone().unwrap_or_default(),
            arguments: self.boot_argument.clone(),
        }))
    }
}

/// Runs them until SIGINT or SIGTERM, or until another process leads.
pub(crate) fn run(args: &Args) -> Outcome {
    kit::telemetry::init(kit::clock::Clock::system())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let cluster = args.cluster.connect().await?;
        let namespace =
            args.namespace.clone().or_else(|| cluster.own_namespace().map(str::to_owned));
        let options = Options {
            selection: args.controllers.clone().unwrap_or_else(Selection::fleet),
            namespace: namespace.unwrap_or_else(|| api::names::NAMESPACE.to_owned()),
            elect: args.leader_elect,
            listen: args.listen,
            boots: args.boots.service(&cluster)?,
            speed: args.speed,
        };
        controllers::run(&cluster, options).await
    });
    // What still waits for its time shall not hold the process.
    runtime.shutdown_background();
    done
}
