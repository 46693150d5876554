//! Measures a control plane over the network, as `cargo xtask bench fleet` does with servers and
//! controllers in processes of their own. `measure_wire WHAT KUBECONFIG NODES [PID..]`, where WHAT is
//! - `describe`: puts a fleet into the cluster as it stands in production, before its controllers run;
//! - `cordon`: that fleet in production whose nodes fall ill one after another, then 750 at one instant;
//! - `return`: nodes whose kubelets all lose the server, and all find it again at one instant.
//!
//! But for `cordon` the cluster must be empty. Printed is one line of JSON; how far it is goes to standard error. Of the
//! processes that are named, the server's and the controllers', memory and CPU time are told.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, reason = "a tool")]

use serde_json::json;

mod cluster;
mod cordon;
mod returns;
mod seen;
mod usage;

/// What goes wrong ends the measurement.
type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, kubeconfig, nodes, pids @ ..] = &words[..] else {
        return Err("usage: measure_wire describe|cordon|return KUBECONFIG NODES [PID..]".into());
    };
    let nodes: usize = nodes.parse()?;
    let pids = pids.iter().map(|pid| pid.parse()).collect::<Result<Vec<u32>, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let line = runtime.block_on(async {
        let cluster = cluster::Cluster::open(kubeconfig).await?;
        match what.as_str() {
            "describe" => cordon::describe(&cluster, nodes).await.map(|()| json!({"nodes": nodes})),
            "cordon" => cordon::measure(&cluster, nodes, &pids).await,
            "return" => returns::measure(&cluster, nodes, &pids).await,
            other => Err(format!("there is nothing called {other:?}").into()),
        }
    })?;
    println!("{line}");
    Ok(())
}
