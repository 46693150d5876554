//! `seatrial status`: whether it runs, where, and how the fleet stands, on one screen.

use std::io::Write;
use std::path::PathBuf;

use api::{Breaker, Incident, Machine, NodePool};
use k8s_openapi::api::core::v1::Node;
use kit::clock::Clock;
use plan::tell::{Overview, overview};
use serde_json::{Value, json};

use super::{Attention, Outcome};
use crate::client::{Cluster, Where, run as block_on};
use crate::paths;
use crate::site::hold::{self, Holder};

/// Arguments of `status`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial status\n  seatrial status --data-dir /var/lib/seatrial -o json\n  seatrial status --kubeconfig FILE\n\nExit code 0: it runs, and nothing waits for a person. 1: nothing runs there, or it does not answer.\n3: it runs, and something waits for a person: an open breaker, a machine in RMA or Debug."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    /// The data directory of what runs [default: ~/.local/share/seatrial/demo]
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
    /// In which form
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Nothing holds the directory.
#[derive(Debug, thiserror::Error)]
#[error("nothing runs in {}; start it with `seatrial up`", paths::short(path))]
struct Nobody {
    path: PathBuf,
}

/// Tells.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = std::io::stdout().lock();
    let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir(paths::DEMO));
    let local = args.data_dir.is_some() || !args.cluster.is_named();
    let holder = local.then(|| hold::holder(&directory)).flatten();
    if local && holder.is_none() {
        if args.output == Form::Json {
            writeln!(out, "{}", json!({"running": false, "data": directory}))?;
        }
        return Err(Nobody { path: directory }.into());
    }
    block_on(async {
        let found = match &holder {
            Some(_) => Where::at(paths::kubeconfig_of(&directory)).connect().await?,
            None => args.cluster.connect().await?,
        };
        let now = Clock::system().now();
        let fleet = read(&found).await?;
        match args.output {
            Form::Text => {
                let place = holder.map(|Holder { pid, .. }| {
                    format!(" (process {pid}, data {})", paths::short(&directory))
                });
                writeln!(out, "Seatrial runs at {}{}", found.url(), place.unwrap_or_default())?;
                writeln!(out, "{}", fleet.told(now))?;
            }
            Form::Json => {
                let pid = holder.map(|holder| holder.pid);
                let data = pid.map(|_| &directory);
                let mut all =
                    json!({"running": true, "url": found.url(), "pid": pid, "data": data});
                if let (Some(all), Value::Object(fleet)) = (all.as_object_mut(), document(&fleet)) {
                    all.extend(fleet);
                }
                writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
            }
        }
        match fleet.calls() {
            0 => Ok(()),
            calls => Err(Attention { calls }.into()),
        }
    })
}

async fn read(cluster: &Cluster) -> Result<Overview, crate::client::ClientError> {
    let machines: Vec<Machine> = cluster.fleet().await?;
    let nodes: Vec<Node> = cluster.list().await?;
    let pools: Vec<NodePool> = cluster.list().await?;
    let incidents: Vec<Incident> = cluster.list().await?;
    let breakers: Vec<Breaker> = cluster.list().await?;
    Ok(overview(Clock::system().now(), &machines, &nodes, &pools, &incidents, &breakers))
}

fn document(fleet: &Overview) -> Value {
    let Overview { states, nodes: [nodes, ready, cordoned], pools, spares, .. } = fleet;
    let pool = |(name, serves, target, why): &(String, u32, u32, String)| json!({"name": name, "serves": serves, "target": target, "why": why});
    let incidents = fleet.incidents.iter().map(|(node, cause, stage, opened)| {
        json!({"node": node, "cause": cause, "stage": stage, "opened": opened})
    });
    let waiting = fleet.waiting.iter();
    json!({
        "machines": states.iter().map(|(state, number)| (state.name().to_owned(), Value::from(*number)))
            .collect::<serde_json::Map<String, Value>>(),
        "nodes": {"total": nodes, "ready": ready, "cordoned": cordoned},
        "pools": pools.iter().map(pool).collect::<Vec<_>>(),
        "spares": {"there": spares[0], "wanted": spares[1]},
        "incidents": incidents.collect::<Vec<_>>(),
        "breakers": fleet.waves,
        "waiting": waiting.map(|(machine, state)| json!({"machine": machine, "state": state.name()}))
            .collect::<Vec<_>>(),
        "calls": fleet.calls(),
    })
}
