//! `cargo xtask bench`: our figures beside the peer's, both taken in the same run.
//!
//! Wall times on shared machines vary several times over; CPU time per operation and the ratios
//! are what to compare. Nothing here fails on a figure: a bench reports.

mod apiserver;
mod load;
mod report;
mod side;

use anyhow::Result;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The embedded API server beside etcd and kube-apiserver: start, memory, writes, lists, watches
    Apiserver(apiserver::Args),
}

/// Runs one bench and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Apiserver(args) => apiserver::run(args),
    }
}
