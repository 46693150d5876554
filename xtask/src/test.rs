//! `cargo xtask test`: the whole suite, from lints to the comparison with upstream.
//!
//! The cheap checks come first, so that a slip is known within a minute. Parts that the tests need
//! and that are not there are built or named with their remedy; nothing is skipped in silence.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{alerts, explore, lint, pip, replay, tidy, tool, upstream, wheel};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs real Kubernetes (builds it otherwise: minutes, once)
    #[arg(long)]
    quick: bool,
}

/// Everything.
pub(crate) fn run(args: &Args) -> Result<()> {
    tidy::run()?;
    lint::run()?;
    pip::environment(pip::SUSHY)?;
    pip::environment(pip::MOTO)?;
    nginx()?;
    let mut tests = tool::cargo(&["test", "--workspace", "--all-features", "--quiet"]);
    if args.quick {
        return tool::run(tests);
    }
    // The tests call kubectl by name and mean the one that belongs to the reference server.
    let parts = upstream::binaries()?.dir;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(parts).chain(std::env::split_paths(&path));
    tests.env("PATH", std::env::join_paths(paths).context("PATH cannot be extended")?);
    tool::run(tests)?;
    tool::release()?;
    alerts::check()?;
    // After the build, which makes `stream` for it.
    wheel::test()?;
    explore::gate()?;
    replay::month()?;
    let mut clients = Command::new(std::env::current_exe().context("cannot find this program")?);
    clients.args(["clients", "--program", "target/release/seatrial"]).current_dir(tool::root());
    tool::run(clients)?;
    // The built server against the real one; fails when less matches than corpus/FLOOR says, when an
    // OpenAPI document differs, or when the corpus does not tell a server with a bug from one without.
    for what in ["--floor", "--documents", "--bugs"] {
        let mut gate = Command::new(std::env::current_exe().context("cannot find this program")?);
        gate.args(["corpus", what]);
        tool::run(gate)?;
    }
    Ok(())
}

/// The web server that models are read from in tests, as the distribution ships it.
fn nginx() -> Result<()> {
    // Not everybody's path leads to where Debian keeps servers.
    if ["nginx", "/usr/sbin/nginx"].into_iter().any(|program| tool::has(program, "-v")) {
        return Ok(());
    }
    if !tool::has("apt-get", "--version") {
        bail!("nginx is absent: install it from your distribution");
    }
    let remedy = "nginx is absent: apt-get install nginx-light (as root)";
    for words in [&["update", "-q"][..], &["install", "-q", "-y", "nginx-light"]] {
        let mut apt = Command::new("apt-get");
        apt.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        tool::run(apt).context(remedy)?;
    }
    Ok(())
}
