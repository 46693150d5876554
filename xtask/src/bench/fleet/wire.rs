//! A server, the controllers and the load, each in a process of its own, over TLS.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::side::Which;
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
            Self::Upstream => "etcd, of kube-apiserver, of controllers",
        }
    }
}

/// Starts all of it, measures, and ends it.
pub(super) fn measure(what: &str, nodes: usize, place: Place) -> Result<Value> {
    let program = tool::root().join("target/release/seatrial");
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let dir = scratch.path().join("server");
    let which = match place {
        Place::Embedded => Which::Ours { program: program.clone(), dir },
        Place::Upstream => {
            crate::upstream::binaries()?;
            Which::Upstream { dir }
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
    let mut run = seatrial("controllers");
    run.args(["--leader-elect=false", "--listen", "127.0.0.1:0", "--controllers", CONTROLLERS]);
    let controllers = Background::start(run, &scratch.path().join("controllers.log"))?;
    let mut pids = side.pids();
    pids.push(controllers.0.id());
    let mut load = tool::example("measure_wire");
    load.args([what, &kubeconfig.to_string_lossy(), &nodes.to_string()]);
    load.args(pids.iter().map(u32::to_string)).stderr(Stdio::inherit());
    let output = load.output().context("cannot start measure_wire")?;
    if !output.status.success() {
        let log = std::fs::read_to_string(scratch.path().join("controllers.log"));
        let log = log.unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        bail!("{what} on {}: the controllers said last:\n{}", place.words(), last.join("\n"));
    }
    serde_json::from_slice(&output.stdout).context("measure_wire printed no JSON")
}

/// Those of the fleet, and those that mark and empty nodes that fall silent.
const CONTROLLERS: &str = "machine-controller,pool-controller,silence-controller,\
                           breaker-controller,node-controller,node-lifecycle-controller,\
                           taint-eviction-controller,pod-garbage-collector-controller";

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
