//! The embedded API server and upstream side by side: each step on one, then on the other.
//!
//! Both keep what they acknowledge on disk. The clients run on the same machine and are not
//! counted: CPU is that of the server's own processes, etcd's included.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::load::{self, Burst};
use super::report::Report;
use super::side::{Runs, Side, Which};
use crate::tool;

/// Arguments of `cargo xtask bench apiserver`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program under test [default: built with --release]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How many pods to create
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// How many nodes to create
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// How many watches to hold open at once
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Events that every watcher sees.
const EVENTS: usize = 100;

/// Runs all steps and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => {
            tool::release()?;
            tool::program()
        }
    };
    crate::upstream::binaries()?;
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let which = [
        Which::Ours { program, dir: scratch.path().join("ours"), runs: Runs::Bare },
        Which::Upstream { dir: scratch.path().join("upstream"), runs: Runs::Bare },
    ];
    let mut report = Report::default();
    let sides = start(&which)?;
    report.add("ready after", "s", sides.each(|s| Ok(s.ready.as_secs_f64()))?, "< 0.3 s");
    report.add("memory when ready", "MiB", sides.each(Side::memory)?, "< 60 MiB");
    writes(&mut report, &sides)?;
    watches(&mut report, &sides, args.watchers)?;
    fill(&mut report, &sides, args)?;
    lists(&mut report, &sides)?;
    drop(sides);
    let sides = start(&which)?;
    let objects = args.nodes + args.pods;
    let what = format!("ready after kill -9 with {objects} objects");
    report.add(what, "s", sides.each(|s| Ok(s.ready.as_secs_f64()))?, "< 2 s");
    report.add("memory then", "MiB", sides.each(Side::memory)?, "");
    println!("\n{}", report.markdown());
    Ok(())
}

/// Ours and upstream, in this order everywhere.
struct Sides([Side; 2]);

fn start([ours, upstream]: &[Which; 2]) -> Result<Sides> {
    Ok(Sides([ours.start()?, upstream.start()?]))
}

impl Sides {
    fn each<T>(&self, mut step: impl FnMut(&Side) -> Result<T>) -> Result<[T; 2]> {
        let Self([ours, upstream]) = self;
        Ok([step(ours)?, step(upstream)?])
    }
}

fn writes(report: &mut Report, sides: &Sides) -> Result<()> {
    for (clients, count) in [(1, 1_000), (32, 5_000)] {
        let name = |n| json!({"metadata": {"name": format!("w{clients}-{n}")}, "data": {"k": "v"}});
        let bursts = sides.each(|side| load::create(side, MAPS, clients, count, name))?;
        rate(report, &format!("ConfigMap creates, {clients} clients"), count, &bursts);
        cost(report, &format!("CPU of one, {clients} clients"), &bursts, "<= 1/3");
    }
    Ok(())
}

fn watches(report: &mut Report, sides: &Sides, watchers: usize) -> Result<()> {
    let name = |n| json!({"metadata": {"name": format!("e-{n}")}, "data": {"k": "v"}});
    let path = "/api/v1/namespaces/kube-public/configmaps";
    let done = sides.each(|side| load::fan_out(side, path, watchers, EVENTS, name))?;
    let each = |of: fn(&load::FanOut) -> f64| [of(&done[0]), of(&done[1])];
    let what = format!("{watchers} watchers, CPU per event and watcher");
    report.add(what, "ms", each(|f| f.cpu), "<= 1/4");
    report.add("… delivered after, P50", "ms", each(|f| milliseconds(f.p50)), "");
    report.add("… P99", "ms", each(|f| milliseconds(f.p99)), "");
    Ok(())
}

fn fill(report: &mut Report, sides: &Sides, args: &Args) -> Result<()> {
    // Pods are refused where their service account is not; no controller runs here to make it.
    let account = json!({"metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    sides.each(|side| load::create(side, accounts, 1, 1, |_| account.clone()))?;
    let nodes = sides.each(|side| load::create(side, "/api/v1/nodes", 32, args.nodes, node))?;
    cost(report, "CPU of a Node create", &nodes, "");
    let pods =
        sides.each(|side| load::create(side, PODS, 32, args.pods, |n| pod(n, args.nodes)))?;
    rate(report, "Pod creates, 32 clients", args.pods, &pods);
    cost(report, "CPU of one", &pods, "<= 1/3");
    let what = format!("memory with {} nodes and {} pods", args.nodes, args.pods);
    report.add(what, "MiB", sides.each(Side::memory)?, "< 450 MiB");
    Ok(())
}

fn lists(report: &mut Report, sides: &Sides) -> Result<()> {
    let all = sides.each(|side| load::read(side, PODS))?;
    let size = all.each_ref().map(|(bytes, ..)| *bytes as f64 / 1e6);
    report.add("a list of all pods", "MB", size, "");
    report.add("… takes", "s", all.each_ref().map(|(_, wall, _)| wall.as_secs_f64()), "<= 1/3");
    report.add("… CPU", "ms", all.map(|(_, _, cpu)| cpu), "");
    let one = format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-7");
    let one = sides.each(|side| load::read(side, &one))?;
    report.add("the pods of one node", "ms", one.map(|(_, wall, _)| milliseconds(wall)), "");
    Ok(())
}

fn rate(report: &mut Report, what: &str, count: usize, bursts: &[Burst; 2]) {
    let rates = bursts.each_ref().map(|burst| count as f64 / burst.wall.as_secs_f64());
    report.add(what, "/s", rates, "");
}

fn cost(report: &mut Report, what: &str, bursts: &[Burst; 2], goal: &'static str) {
    report.add(what, "ms", bursts.each_ref().map(|burst| burst.cpu), goal);
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn node(n: usize) -> Value {
    json!({
        "metadata": {"name": format!("node-{n}"), "labels": {
            "kubernetes.io/hostname": format!("node-{n}"),
            "topology.kubernetes.io/zone": format!("rack-{}", n / 18),
        }},
        "spec": {"podCIDR": format!("10.{}.{}.0/24", n / 250 % 250, n % 250)},
    })
}

/// A pod of about 2.5 KB as it comes out of a template: labels, two containers, probes.
fn pod(n: usize, nodes: usize) -> Value {
    let container = |name: &str| {
        json!({
            "name": name,
            "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "args": ["--verbose", format!("--shard={n}")],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "MODE", "value": "production"},
            ],
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"cpu": "1", "memory": "1Gi"},
            },
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
        })
    };
    json!({
        "metadata": {"name": format!("pod-{n}"), "labels": {
            "app": format!("app-{}", n % 100), "tier": "worker", "shard": n.to_string(),
        }},
        "spec": {
            "automountServiceAccountToken": false,
            "nodeName": format!("node-{}", n % nodes.max(1)),
            "containers": [container("main"), container("sidecar")],
        },
    })
}
