//! Real programs against the embedded server, `seatrial serve`, as the programs' authors know a
//! Kubernetes API; and our own against upstream's.
//!
//! Guarantees: each client gets a server and a directory of its own; whatever it started is gone
//! when it ends; a program that is absent is built from its pinned module or named with its remedy,
//! never skipped. What a client checks stands in its own file. The corpus compares answers; of the
//! clients only kubectl is also typed into the reference, and its words compared.

mod client_go;
mod control_plane;
mod helm;
mod install;
mod kubectl;
mod kwok;
mod python;
mod session;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use self::session::Session;
use crate::tool;

/// Arguments of `cargo xtask clients`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these (see the error for an unknown one)
    names: Vec<String>,
    /// The server's program; built for debugging by default
    #[arg(long)]
    program: Option<PathBuf>,
    /// Keep data and logs in this directory, which must be empty or absent
    #[arg(long)]
    dir: Option<PathBuf>,
}

struct Client {
    name: &'static str,
    on: On,
    check: fn(&mut Session) -> Result<()>,
}

/// What it runs on.
enum On {
    /// The embedded server, with what that takes for `--controllers`.
    Ours(&'static str),
    /// etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
    Upstream,
}

const CLIENTS: &[Client] = &[
    Client { name: "control-plane", on: On::Ours("-*"), check: control_plane::check },
    Client { name: "kwok", on: On::Ours("-*"), check: kwok::check },
    // These two tell every event that they see; a scheduler's would be among them.
    Client { name: "client-go", on: On::Ours("*,-scheduler"), check: client_go::check },
    Client { name: "kubectl", on: On::Ours("-*"), check: kubectl::check },
    Client { name: "helm", on: On::Ours("*"), check: helm::check },
    Client { name: "python", on: On::Ours("*,-scheduler"), check: python::check },
    Client { name: "install", on: On::Upstream, check: install::check },
];

/// Runs the clients one after the other; the first that fails ends it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    if let Some(name) = args.names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no client {name}; there are {}", known.join(", "));
    }
    let program = if let Some(program) = &args.program {
        program.clone()
    } else {
        tool::run(tool::cargo(&["build", "--quiet", "-p", "seatrial"]))?;
        tool::root().join("target/debug/seatrial")
    };
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let root = args.dir.as_deref().unwrap_or(scratch.path());
    for client in CLIENTS {
        if !args.names.is_empty() && !args.names.iter().any(|name| name == client.name) {
            continue;
        }
        let dir = root.join(client.name);
        ensure!(!dir.exists(), "{} exists: choose an empty --dir", dir.display());
        let began = Instant::now();
        let mut session = match client.on {
            On::Ours(controllers) => Session::start(&program, &dir, controllers)?,
            On::Upstream => Session::start_upstream(&program, &dir, true)?,
        };
        let done = (client.check)(&mut session);
        done.with_context(|| format!("client {}\n{}", client.name, session.tails()))?;
        let seconds = began.elapsed().as_secs_f32();
        writeln!(io::stdout(), "client {}: {seconds:.1} s", client.name)?;
    }
    Ok(())
}
