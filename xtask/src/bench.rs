//! `cargo xtask bench`: our figures beside the peer's, taken in the same run where the peer can run
//! here, and else as published.
//!
//! Wall times on shared machines vary several times over; CPU time per operation and the ratios
//! are what to compare. Nothing here fails on a figure: a bench reports.

mod apiserver;
mod fleet;
mod load;
mod machine;
mod report;
mod side;
mod stream;

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
    /// A fleet at scale beside peers' published figures: it comes up, falls ill, and comes back
    Fleet(fleet::Args),
    /// Model weights into memory beside the machine's limits and other loaders, and a pod's start with them
    Stream(stream::Args),
}

/// Runs one bench and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Apiserver(args) => apiserver::run(args),
        What::Fleet(args) => fleet::run(args),
        What::Stream(args) => stream::run(args),
    }
}
