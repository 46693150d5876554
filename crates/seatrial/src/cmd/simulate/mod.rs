//! `seatrial simulate`: runs a simulated site on any cluster; breaks and mends the hardware of one that
//! runs.

mod site;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;

use super::Outcome;
use crate::paths;
use crate::site::control::{self, Ask};
use crate::site::hold;

/// Arguments of `simulate`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial simulate fault gpu-ecc r2-s07\n  seatrial simulate fault xid/79 r1-s03 --part 0000:1b:00.0\n  seatrial simulate fault ib-link-down leaf/leaf-3a\n  seatrial simulate heal r2-s07\n  seatrial simulate list\n  seatrial simulate site --kubeconfig FILE --nodes 8 --racks 1\n\nWhat is broken shows as its symptoms; `seatrial node why NAME` tells what was made of them."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The data directory of the site [default: ~/.local/share/seatrial/ and demo, or site for `site`]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Run hardware, hosts and people of a simulated site on a cluster
    Site(site::Args),
    /// Break machines, or all below a leaf switch or a power distribution unit
    Fault {
        /// A word such as gpu-ecc, or a row of docs/faults.md such as xid/95
        fault: String,
        /// Machines, leaf/NAME or pdu/NAME
        #[arg(required = true, value_name = "MACHINE")]
        on: Vec<String>,
        /// The part it is on, as its evidence names it
        #[arg(long)]
        part: Option<String>,
    },
    /// Mend machines without anybody's doing
    Heal {
        /// Machines
        #[arg(required = true, value_name = "MACHINE")]
        on: Vec<String>,
        /// Only this fault
        #[arg(long)]
        fault: Option<String>,
    },
    /// What is broken now
    List,
}

/// The site did not do it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Asks the running site.
pub(crate) fn run(args: &Args) -> Outcome {
    let directory = args.data_dir.clone();
    let ask = match &args.what {
        What::Site(site) => return site::run(site, directory),
        What::Fault { fault, on, part } => {
            Ask::Fault { word: fault.clone(), on: on.clone(), part: part.clone() }
        }
        What::Heal { on, fault } => Ask::Heal { word: fault.clone(), on: on.clone() },
        What::List => Ask::List,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let directory = directory.unwrap_or_else(running);
    let lines = runtime.block_on(control::ask(&directory, &ask))?.map_err(Refused)?;
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The directory of the site that runs: of `up` first, then of `simulate site`.
fn running() -> PathBuf {
    let places = [paths::DEMO, paths::SITE].map(paths::data_dir);
    let [demo, site] = places;
    let elsewhere = hold::holder(&demo).is_none() && hold::holder(&site).is_some();
    if elsewhere { site } else { demo }
}
