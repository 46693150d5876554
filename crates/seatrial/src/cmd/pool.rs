//! `seatrial pool`: how many nodes tenants have, want, and why not more.

use std::io::Write;

use api::{Breaker, Incident, Machine, NodePool};
use clap::Subcommand;
use kit::clock::Clock;
use kube::Resource as _;
use kube::api::Patch;
use serde_json::json;

use super::Outcome;
use crate::client::{Cluster, Where, run as block_on, unknown};
use crate::confirm::{Consent, ask, quoted};
use crate::table::{self, Get};

/// Arguments of `pool`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial pool get\n  seatrial pool why h100\n  seatrial pool scale h100 40"
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List pools as kubectl does
    Get(Get),
    /// Say in one sentence why a pool has as many nodes as it has, and until when
    Why {
        /// The pool
        name: String,
    },
    /// Say how many nodes a pool shall have
    Scale {
        /// The pool
        name: String,
        /// How many nodes
        #[arg(value_parser = clap::value_parser!(u32).range(..=100_000))]
        nodes: u32,
        #[command(flatten)]
        consent: Consent,
    },
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        match &args.verb {
            Verb::Get(get) => {
                table::get(&cluster, &NodePool::url_path(&(), None), "nodepool", get).await
            }
            Verb::Why { name } => why(&cluster, name).await,
            Verb::Scale { name, nodes, consent } => scale(&cluster, name, *nodes, consent).await,
        }
    })
}

async fn pool(cluster: &Cluster, name: &str) -> Result<NodePool, crate::client::ClientError> {
    let pools: Vec<NodePool> = cluster.fleet().await?;
    let named = |pool: &&NodePool| pool.metadata.name.as_deref() == Some(name);
    pools.iter().find(named).cloned().ok_or_else(|| {
        unknown("pool", name, pools.iter().filter_map(|pool| pool.metadata.name.as_deref()))
    })
}

async fn why(cluster: &Cluster, name: &str) -> Outcome {
    let pool = pool(cluster, name).await?;
    let machines: Vec<Machine> = cluster.list().await?;
    let incidents: Vec<Incident> = cluster.list().await?;
    let breakers: Vec<Breaker> = cluster.list().await?;
    let now = Clock::system().now();
    let why = plan::tell::pool(now, &pool, &machines, &incidents, &breakers);
    Ok(writeln!(std::io::stdout(), "{why}")?)
}

async fn scale(cluster: &Cluster, name: &str, nodes: u32, consent: &Consent) -> Outcome {
    let pool = pool(cluster, name).await?;
    let before = pool.spec.target_nodes.unwrap_or_default();
    let body = json!({"spec": {"targetNodes": nodes}});
    let mut out = std::io::stdout().lock();
    if consent.show {
        let body = quoted(&body.to_string());
        return Ok(writeln!(out, "kubectl patch nodepool {name} --type=merge -p {body}")?);
    }
    if nodes == before {
        return Ok(writeln!(out, "Pool {name} wants {nodes} nodes already.")?);
    }
    if nodes < before {
        let leave = match pool.spec.scale_down {
            api::node_pool::ScaleDown::IdleOnly => "once they are idle",
            api::node_pool::ScaleDown::PreferIdle => "idle ones first, then as their pods allow",
        };
        let fewer = before - nodes;
        let disturbs = format!(
            "Pool {name} of tenant {} gives {fewer} of {before} nodes back, {leave}; each is wiped \
             before another tenant has it.",
            pool.spec.tenant
        );
        ask(consent, &disturbs, &format!("Shrink pool {name} to {nodes} nodes?"))?;
    }
    cluster.patch::<NodePool>(name, false, &Patch::Merge(body)).await?;
    let line = format!("Pool {name} wants {nodes} nodes instead of {before}. Follow it:");
    Ok(writeln!(out, "{line} seatrial pool why {name}")?)
}
