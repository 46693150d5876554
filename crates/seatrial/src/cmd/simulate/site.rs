//! `seatrial simulate site`: hardware, hosts and people on a cluster that others run.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::client::Where;
use crate::cmd::Outcome;
use crate::cmd::sizes::Sizes;
use crate::paths;
use crate::site::BootUrl;
use crate::site::display::{Display, Form};
use crate::site::run::{self, Options};

/// Arguments of `simulate site`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial simulate site --kubeconfig admin.kubeconfig --nodes 8 --racks 1\n  seatrial simulate fault gpu-ecc r1-s03\n\nWhat `up` simulates, without its API server and controllers: those run elsewhere, as with\n`seatrial controllers`. The kubeconfig must be an administrator's: kinds and objects of the site are\nput in, and each host then acts as its own node by impersonation, or with --boot-url by what the\nboot service of `seatrial controllers` gives it. A second start with the same\n--data-dir goes on where the first stopped."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(flatten)]
    sizes: Sizes,
    /// BMCs answer here, at an address that controllers reach [default: any port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// A boot service that machines ask who they are, and for tokens to join; of several the first that
    /// knows them answers [default: identities are handed over]
    #[arg(long, value_name = "URL")]
    boot_url: Vec<BootUrl>,
    /// How progress is shown
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    output: Form,
}

/// Runs it until SIGINT or SIGTERM.
pub(crate) fn run(args: &Args, directory: Option<PathBuf>) -> Outcome {
    kit::telemetry::init(kit::clock::Clock::system())?;
    let options = Options {
        directory: directory.unwrap_or_else(|| paths::data_dir(paths::SITE)),
        asked: args.sizes.asked()?,
        listen: args.listen,
        boots: args.boot_url.clone(),
        speed: args.sizes.speed,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let cluster = args.cluster.connect().await?;
        run::run(&cluster, options, Display::new(args.output)).await
    });
    // What still waits for its time shall not hold the process.
    runtime.shutdown_background();
    done
}
