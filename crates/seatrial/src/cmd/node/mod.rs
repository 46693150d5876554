//! `seatrial node`: what a node does and why, and what people may ask of it.

mod act;
mod describe;
mod drain;

use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use k8s_openapi::api::core::v1::Node;
use kube::Resource as _;
use plan::catalogue::Catalogue;
use plan::tell;

use super::Outcome;
use super::view::View;
use crate::client::{Where, run as block_on};
use crate::confirm::Consent;
use crate::table::{self, Get, aligned};

/// Arguments of `node`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial node why r2-s07\n  seatrial node history r2-s07\n  seatrial node reboot r2-s07 --safe\n\nA machine's name is taken too. Everything here can be done with kubectl; --show prints the line."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List nodes as kubectl does
    Get(Get),
    /// Print all that is known of a node
    Describe {
        /// The node or its machine
        name: String,
    },
    /// Print what happened to a node and its machine, oldest first
    History {
        /// The node or its machine
        name: String,
    },
    /// Say in one sentence what is going on, and what it rests on
    Why {
        /// The node or its machine
        name: String,
    },
    /// Keep new pods away; Seatrial leaves the node alone until it is uncordoned
    Cordon {
        /// The node or its machine
        name: String,
        /// Why, for whoever asks
        #[arg(long, value_name = "SENTENCE")]
        reason: Option<String>,
        /// Print the kubectl line that does the same, and do nothing
        #[arg(long)]
        show: bool,
    },
    /// Let new pods come again
    Uncordon {
        /// The node or its machine
        name: String,
        /// Print the kubectl line that does the same, and do nothing
        #[arg(long)]
        show: bool,
    },
    /// Cordon, and evict every pod of a user
    Drain {
        /// The node or its machine
        name: String,
        /// How long to wait for pods to go, in seconds
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        timeout: Duration,
        #[command(flatten)]
        consent: Consent,
    },
    /// Restart the operating system
    Reboot {
        /// The node or its machine
        name: String,
        /// Once nothing of a user runs on it
        #[arg(long, conflicts_with = "force")]
        safe: bool,
        /// Now, whatever runs on it
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Run the acceptance test once nothing of a user runs on it
    Verify {
        /// The node or its machine
        name: String,
        /// Print the kubectl line that does the same, and do nothing
        #[arg(long)]
        show: bool,
    },
    /// Say where it stands
    Locate {
        /// The node or its machine
        name: String,
    },
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        match &args.verb {
            Verb::Get(get) => table::get(&cluster, &Node::url_path(&(), None), "node", get).await,
            Verb::Describe { name } => describe::run(&View::of(&cluster, name).await?),
            Verb::History { name } => history(&View::of(&cluster, name).await?),
            Verb::Why { name } => {
                let why = View::of(&cluster, name).await?.why(&Catalogue::built_in());
                Ok(writeln!(std::io::stdout(), "{why}")?)
            }
            Verb::Cordon { name, reason, show } => {
                let view = View::of(&cluster, name).await?;
                act::cordon(&cluster, &view, reason.as_deref(), *show).await
            }
            Verb::Uncordon { name, show } => {
                act::uncordon(&cluster, &View::of(&cluster, name).await?, *show).await
            }
            Verb::Drain { name, timeout, consent } => {
                drain::run(&cluster, &View::of(&cluster, name).await?, *timeout, consent).await
            }
            Verb::Reboot { name, safe, force, consent } => {
                let when = act::When::of(*safe, *force);
                act::reboot(&cluster, &View::of(&cluster, name).await?, when, consent).await
            }
            Verb::Verify { name, show } => {
                act::verify(&cluster, &View::of(&cluster, name).await?, *show).await
            }
            Verb::Locate { name } => locate(&View::of(&cluster, name).await?),
        }
    })
}

pub(super) use describe::run as describe;

/// Prints the timeline.
fn history(view: &View) -> Outcome {
    let Some(machine) = &view.machine else {
        return Err(format!("no machine of the fleet is known below node {}", view.name).into());
    };
    let lines = tell::history(machine, &view.own_incidents());
    let lines: Vec<Vec<String>> = lines
        .into_iter()
        .map(|line| vec![line.at.strftime("%Y-%m-%d %H:%M:%S").to_string(), line.what, line.story])
        .collect();
    let mut out = std::io::stdout().lock();
    if lines.is_empty() {
        writeln!(out, "Nothing has happened to {} yet.", machine.name())?;
    }
    Ok(out.write_all(aligned(&lines).as_bytes())?)
}

/// Prints where a machine stands.
fn locate(view: &View) -> Outcome {
    let Some(machine) = &view.machine else {
        return Err(format!("no machine of the fleet is known below node {}", view.name).into());
    };
    let place = &machine.spec.place;
    let mut words = vec![format!("site {}", place.site)];
    words.extend(place.row.as_ref().map(|row| format!("row {row}")));
    words.push(format!("rack {}", place.rack));
    words.push(format!("slot {} from the bottom", place.slot));
    let mut lines = Vec::new();
    lines.extend(place.leaf.as_ref().map(|leaf| format!("  leaf        {leaf}")));
    lines.extend(place.pdu.as_ref().map(|pdu| format!("  power       {pdu}")));
    lines.extend(place.nvlink_domain.as_ref().map(|domain| format!("  nvlink      {domain}")));
    lines.push(format!("  bmc         {}", machine.spec.bmc.address));
    lines.push(format!("  boots from  {}", machine.spec.macs.join(", ")));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} stands in {}.", machine.name(), words.join(", "))?;
    Ok(writeln!(out, "{}", lines.join("\n"))?)
}
