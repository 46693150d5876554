//! One of the two servers under test: started, restarted, and what it takes of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::server::{Ours, Place, Server};
use crate::upstream::{Options, Upstream};

/// A running server.
pub(crate) struct Side {
    kind: Kind,
    kubeconfig: PathBuf,
    /// How to reach it.
    pub(crate) server: Server,
    /// From the start of its first process until it said that it is ready.
    pub(crate) ready: Duration,
}

enum Kind {
    Ours(Ours),
    Upstream(Upstream),
}

/// Which of the two, and where it keeps its data.
pub(crate) enum Which {
    /// `seatrial serve --data-dir`.
    Ours { program: PathBuf, dir: PathBuf, runs: Runs },
    /// etcd, which syncs, and kube-apiserver.
    Upstream { dir: PathBuf, runs: Runs },
}

/// What runs with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The API and nothing else.
    Bare,
    /// The controllers that make a cluster of it: in our process, or kube-controller-manager and
    /// kube-scheduler.
    Cluster,
}

/// What whoever runs thousands of nodes gives kube-apiserver: with its own 400 and 200 it turns most
/// of a herd away.
const FOR_MANY_NODES: [&str; 2] =
    ["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"];
/// The same of the controller manager, which by itself sends 20 requests a second: 6,000 nodes that
/// fall silent would take it ten minutes.
const MANAGER_FOR_MANY_NODES: [&str; 2] = ["--kube-api-qps=200", "--kube-api-burst=400"];

impl Which {
    /// Starts it on what it kept, if it kept anything.
    pub(crate) fn start(&self) -> Result<Side> {
        let began = Instant::now();
        let (kind, kubeconfig, server) = match self {
            Self::Ours { program, dir, runs } => {
                fs::create_dir_all(dir).with_context(|| format!("cannot create {dir:?}"))?;
                let tokens = dir.join("tokens.csv");
                fs::write(&tokens, "bench,admin,1,system:masters\n")?;
                let place = Place::Directory(dir.join("data"));
                let (ours, server) = match runs {
                    Runs::Bare => Ours::start(program, dir, &tokens, &place)?,
                    Runs::Cluster => Ours::start_with(program, dir, &place, &[])?,
                };
                (Kind::Ours(ours), dir.join("ours.kubeconfig"), server)
            }
            Self::Upstream { dir, runs } => {
                let controllers = *runs == Runs::Cluster;
                let mut options = Options { fsync: true, controllers, ..Options::default() };
                if controllers {
                    let flags = |flags: &[&str]| flags.iter().map(ToString::to_string).collect();
                    options.apiserver_flags = flags(&FOR_MANY_NODES);
                    options.manager_flags = flags(&MANAGER_FOR_MANY_NODES);
                }
                let upstream = Upstream::start(dir, &options)?;
                let server = Server::of(&upstream.kubeconfig)?;
                let kubeconfig = upstream.kubeconfig.clone();
                (Kind::Upstream(upstream), kubeconfig, server)
            }
        };
        Ok(Side { kind, kubeconfig, server, ready: began.elapsed() })
    }
}

impl Side {
    /// CPU time that its processes have used, in milliseconds (at the kernel's 100 Hz).
    pub(crate) fn cpu(&self) -> Result<f64> {
        self.pids().iter().map(|pid| cpu(*pid)).sum()
    }

    /// Memory that its processes have resident, in MiB.
    pub(crate) fn memory(&self) -> Result<f64> {
        self.pids().iter().map(|pid| memory(*pid)).sum()
    }

    /// The administrator's token.
    pub(crate) fn token(&self) -> &str {
        self.server.tokens.get("admin").map_or("", String::as_str)
    }

    /// An administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Its processes, etcd first where there is one.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Ours(ours) => vec![ours.pid()],
            Kind::Upstream(upstream) => upstream.pids(),
        }
    }
}

fn cpu(pid: u32) -> Result<f64> {
    let stat = read(pid, "stat")?;
    // The second field is the program's name in brackets, which may hold anything.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>().context("/proc/PID/stat has no times")? * 10.0)
}

fn memory(pid: u32) -> Result<f64> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.context("/proc/PID/status has no VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = Path::new("/proc").join(pid.to_string()).join(file);
    fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}: has it ended?", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_what_it_takes() {
        let pid = std::process::id();
        assert!(memory(pid).unwrap() > 1.0);
        assert!(cpu(pid).unwrap() >= 0.0);
    }
}
