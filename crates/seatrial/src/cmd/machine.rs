//! `seatrial machine`: physical servers, and what only people can say of them.

use std::io::Write;

use api::Machine;
use api::request::{Ask, Request};
use clap::Subcommand;
use kube::Resource as _;
use kube::api::Patch;
use serde_json::{Value, json};

use super::view::View;
use super::{Outcome, node};
use crate::client::{ClientError, Cluster, Where, run as block_on, unknown};
use crate::confirm::{Consent, ask, quoted};
use crate::table::{self, Get};

/// Arguments of `machine`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial machine get -o wide\n  seatrial machine certify r1-s03\n  seatrial machine rma r1-s03 --reason 'GPU 3 has failed for the third time'\n  seatrial machine rma r1-s03 --returned"
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List machines as kubectl does
    Get(Get),
    /// Print all that is known of a machine
    Describe {
        /// The machine or its node
        name: String,
    },
    /// Say that a technician has checked its rack and cables since hands were last on it
    Certify {
        /// The machine or its node
        name: String,
        /// Print the kubectl line that does the same, and do nothing
        #[arg(long)]
        show: bool,
    },
    /// Give it to the vendor for repair: it is switched off
    Rma {
        /// The machine or its node
        name: String,
        /// Why, for whoever asks
        #[arg(long, value_name = "SENTENCE")]
        reason: Option<String>,
        /// It is back: let it begin anew, and certify it then
        #[arg(long)]
        returned: bool,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, thiserror::Error)]
enum MachineError {
    #[error(
        "{name} is in {state}: say first that it is back with `seatrial machine rma {name} --returned`"
    )]
    Away { name: String, state: api::state::State },
    #[error("{name} cannot go from {from} to {to}; ask why: seatrial node why {name}")]
    NoWay { name: String, from: api::state::State, to: api::state::State },
    #[error(
        "{by} has asked {name} for {ask:?} ({id}), and it has not answered yet; wait, or take that back: \
         kubectl patch machine {name} --type=merge -p '{{\"spec\":{{\"request\":null}}}}'"
    )]
    Taken { name: String, by: String, ask: Ask, id: String },
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        match &args.verb {
            Verb::Get(get) => {
                table::get(&cluster, &Machine::url_path(&(), None), "machine", get).await
            }
            Verb::Describe { name } => node::describe(&View::of(&cluster, name).await?),
            Verb::Certify { name, show } => certify(&cluster, name, *show).await,
            Verb::Rma { name, reason, returned, consent } => {
                let ask = if *returned { Ask::Onboard } else { Ask::Rma };
                send(&cluster, name, ask, reason.as_deref(), consent).await
            }
        }
    })
}

/// The machine of this name, or below the node of this name.
async fn machine(cluster: &Cluster, name: &str) -> Result<Machine, ClientError> {
    let machines: Vec<Machine> = cluster.fleet().await?;
    let runs = |machine: &&Machine| super::view::node_of(machine) == Some(name);
    let named = machines.iter().find(|machine| machine.name() == name);
    named
        .or_else(|| machines.iter().find(runs))
        .cloned()
        .ok_or_else(|| unknown("machine", name, machines.iter().map(Machine::name)))
}

/// Merges into a machine's spec at the revision that was read, or prints how kubectl would.
async fn write(
    cluster: &Cluster,
    machine: &Machine,
    spec: Value,
    show: bool,
    said: &str,
) -> Outcome {
    let (mut out, name) = (std::io::stdout().lock(), machine.name());
    if show {
        let body = quoted(&json!({"spec": spec}).to_string());
        return Ok(writeln!(out, "kubectl patch machine {name} --type=merge -p {body}")?);
    }
    let meta = &machine.metadata;
    let metadata = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
    cluster.patch::<Machine>(name, false, &patch).await?;
    Ok(writeln!(out, "{said}")?)
}

async fn certify(cluster: &Cluster, name: &str, show: bool) -> Outcome {
    let machine = machine(cluster, name).await?;
    let (name, state) = (machine.name().to_owned(), machine.state());
    if matches!(state, api::state::State::Rma | api::state::State::Debug) {
        return Err(MachineError::Away { name, state }.into());
    }
    let needed = machine.status.as_ref().map_or(0, |status| status.onboardings);
    if machine.spec.certified >= needed && !show {
        return Ok(writeln!(std::io::stdout(), "{name} is certified already.")?);
    }
    let said = format!("{name} is certified, and goes on to its sea trial.");
    write(cluster, &machine, json!({"certified": needed}), show, &said).await
}

/// Sends a machine to another state by a request.
async fn send(
    cluster: &Cluster,
    name: &str,
    what: Ask,
    reason: Option<&str>,
    consent: &Consent,
) -> Outcome {
    let machine = machine(cluster, name).await?;
    let name = machine.name().to_owned();
    let (from, to) = match what {
        Ask::Onboard => (machine.state(), api::state::State::Onboard),
        _ => (machine.state(), api::state::State::Rma),
    };
    if !plan::machine::may_be_sent(from, to) {
        return Err(MachineError::NoWay { name, from, to }.into());
    }
    let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
    if let Some(there) = &machine.spec.request
        && answer.is_none_or(|answer| {
            answer.id != there.id || answer.outcome == api::request::Outcome::Running
        })
    {
        let (by, id) = (there.by.clone(), there.id.clone());
        return Err(MachineError::Taken { name, by, ask: there.ask, id }.into());
    }
    let view = View::of(cluster, &name).await?;
    if what == Ask::Rma && !consent.show {
        ask(consent, &view.blast().to_string(), &format!("Switch {name} off and give it away?"))?;
    }
    let why = reason.map_or_else(
        || match what {
            Ask::Onboard => "it is back from repair".to_owned(),
            _ => "a person gives it to the vendor".to_owned(),
        },
        str::to_owned,
    );
    let request = Request {
        id: format!("person-{name}-{:x}", view.now.as_millisecond()),
        ask: what,
        target: None,
        by: cluster.person.clone(),
        why,
        evidence: Vec::new(),
        incident: None,
        node_uid: None,
        boot: None,
        shown: None,
        at: view.now,
    };
    let said = format!("{name} is asked to go to {to}. Follow it: seatrial node why {name}");
    let spec = json!({"request": serde_json::to_value(&request)?});
    write(cluster, &machine, spec, consent.show, &said).await
}
