//! A server, the controllers and the load, each in a process of its own, over TLS.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::side::{Runs, Which};
use crate::tool;

/// Which server it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Embedded,
    Upstream,
}

impl Place {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Embedded => "the embedded server",
            Self::Upstream => "etcd and kube-apiserver",
        }
    }

    pub(super) const fn processes(self) -> &'static str {
        match self {
            Self::Embedded => "server, of controllers",
            Self::Upstream => {
                "etcd, of kube-apiserver, of its controllers, of its scheduler, of ours"
            }
        }
    }
}

/// What happens to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happens {
    /// They fall ill. They have no kubelets, so nothing runs that would miss their heartbeats.
    Cordon,
    /// They lose the server and find it again.
    Return,
}

/// Starts all of it, measures, and ends it.
pub(super) fn measure(what: Happens, nodes: usize, place: Place) -> Result<Value> {
    let (verb, runs) = match what {
        Happens::Cordon => ("cordon", Runs::Bare),
        Happens::Return => ("return", Runs::Cluster),
    };
    let program = tool::program();
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let dir = scratch.path().join("server");
    let which = match place {
        Place::Embedded => Which::Ours { program: program.clone(), dir, runs },
        Place::Upstream => {
            crate::upstream::binaries()?;
            Which::Upstream { dir, runs }
        }
    };
    let side = which.start()?;
    let kubeconfig = side.kubeconfig();
    let seatrial = |verb: &str| {
        let mut command = Command::new(&program);
        command.args([verb, "--kubeconfig"]).arg(&kubeconfig);
        command
    };
    tool::run(seatrial("install"))?;
    let load = |verb: &str| {
        let mut load = tool::example("measure_wire");
        load.args([verb, &kubeconfig.to_string_lossy(), &nodes.to_string()]);
        load.stderr(Stdio::inherit());
        load
    };
    if what == Happens::Cordon {
        // Before the controllers: a fleet that is described bit by bit would be torn down meanwhile.
        tool::run(load("describe"))?;
    }
    let mut run = seatrial("controllers");
    run.args(["--leader-elect=false", "--listen", "127.0.0.1:0"]);
    let controllers = Background::start(run, &scratch.path().join("controllers.log"))?;
    let mut pids = side.pids();
    pids.push(controllers.0.id());
    let mut load = load(verb);
    load.args(pids.iter().map(u32::to_string));
    let output = load.output().context("cannot start measure_wire")?;
    if !output.status.success() {
        let log = std::fs::read_to_string(scratch.path().join("controllers.log"));
        let log = log.unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        bail!("{verb} on {}: the controllers said last:\n{}", place.words(), last.join("\n"));
    }
    serde_json::from_slice(&output.stdout).context("measure_wire printed no JSON")
}

/// Peak memory of each process, in words.
pub(super) fn peaks(found: &Value) -> String {
    let all = found.get("peak_mib").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<String> = all.map(|mib| format!("{mib} MiB")).collect();
    words.join(", ")
}

/// A child that ends with this value.
struct Background(Child);

impl Background {
    fn start(mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot create {log:?}"))?;
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn();
        Ok(Self(child.context("cannot start the controllers")?))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Both fail only if the child is gone already, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
