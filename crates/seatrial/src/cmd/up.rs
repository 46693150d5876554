//! `seatrial up`: a whole site on this machine, from switched-off metal to Ready nodes.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Outcome;
use super::sizes::Sizes;
use crate::paths;
use crate::site::display::{Display, Form};
use crate::site::hold;
use crate::up::detach;
use crate::up::run::{self, Options};

/// Arguments of `up`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial up\n  seatrial up --nodes 128 --racks 8 --spares 6 --data-dir /tmp/site\n  seatrial up --scenario supercomputer --data-dir /tmp/supercomputer\n  seatrial up --until-ready --detach && export KUBECONFIG=~/.local/share/seatrial/demo/kubeconfig\n  seatrial down\n\nThe hardware is simulated, and its delays are those of real hardware divided by --speed; everything\nelse is what runs in production. A second `up` goes on where the first stopped."
)]
pub(crate) struct Args {
    #[command(flatten)]
    sizes: Sizes,
    /// Exit once everything is in production, and the scenario has been played
    #[arg(long)]
    until_ready: bool,
    /// Leave it running in the background
    #[arg(long)]
    detach: bool,
    /// The API listens here; port 0 takes any free one [default: 127.0.0.1:6443, later as before]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Write an administrator's kubeconfig here too, beside the data directory's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Keep everything in this directory [default: ~/.local/share/seatrial/demo]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How progress is shown
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    output: Form,
}

/// Starts it, and runs it until SIGINT or SIGTERM, or until it is ready if that was asked for.
pub(crate) fn run(args: &Args) -> Outcome {
    let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir(paths::DEMO));
    if args.detach {
        if let Some(holder) = hold::holder(&directory) {
            return Err(hold::HoldError::Taken { path: directory, pid: holder.pid }.into());
        }
        return detach::start(&directory, &arguments(), Display::new(args.output));
    }
    let clock = kit::clock::Clock::system();
    kit::telemetry::init(clock)?;
    let options = Options {
        directory,
        asked: args.sizes.asked()?,
        listen: args.listen,
        kubeconfig: args.kubeconfig.clone(),
        speed: args.sizes.speed,
        until_ready: args.until_ready,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(run::run(options, Display::new(args.output)));
    // What still waits for its time shall not hold the process.
    runtime.shutdown_background();
    done
}

/// This process's arguments, for one that is left running.
fn arguments() -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut skip = false;
    for argument in std::env::args().skip(1) {
        let form = argument == "-o" || argument == "--output";
        let glued = argument.starts_with("--output=") || (argument.starts_with("-o") && !form);
        if !skip && !form && !glued && argument != "--detach" && argument != "--until-ready" {
            kept.push(argument);
        }
        skip = !skip && form;
    }
    kept.push("--output=json".to_owned());
    kept
}
