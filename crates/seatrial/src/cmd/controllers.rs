//! `seatrial controllers`: the fleet's controllers on a cluster that others run.

use std::net::SocketAddr;

use ::controllers::Selection;
use clap::ArgAction;

use super::Outcome;
use crate::client::Where;
use crate::controllers::{self, Options};

/// Arguments of `controllers`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial controllers --kubeconfig FILE\n  seatrial controllers --controllers machine-controller,node-controller --leader-elect=false\n\nRun two or more of them: one leads, and the next takes its place within seconds when it ends or is\ncut off. Within a pod no kubeconfig is needed. Kinds and rights are put in by `seatrial install`. Each\ncontroller acts as its own service account by impersonation, so this process needs no rights but those\nof the account seatrial-controllers."
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
    /// By how much the hardware is faster than real; only simulated hardware is (`simulate site`)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
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
            speed: args.speed,
        };
        controllers::run(&cluster, options).await
    });
    // What still waits for its time shall not hold the process.
    runtime.shutdown_background();
    done
}
