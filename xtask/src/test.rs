//! `cargo xtask test`: the whole suite, from lints to the comparison with upstream.
//!
//! The cheap checks come first, so that a slip is known within a minute. Parts that the tests need
//! and that are not there are built or named with their remedy; nothing is skipped in silence.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{alerts, controllers, explore, fuzz, lint, pip, replay, tidy, tool, upstream, wheel};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs real Kubernetes (builds it otherwise: minutes, once)
    #[arg(long)]
    quick: bool,
}

/// Everything.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::default();
    steps.take("tidy", tidy::run)?;
    steps.take("lint", lint::run)?;
    steps.take("parts", || {
        pip::environment(pip::SUSHY)?;
        pip::environment(pip::MOTO)?;
        nginx()
    })?;
    let mut tests = tool::cargo(&["test", "--workspace", "--all-features", "--quiet"]);
    if args.quick {
        return steps.take("tests", || tool::run(tests));
    }
    // The tests call kubectl by name and mean the one that belongs to the reference server.
    let parts = steps.take("upstream", upstream::binaries)?.dir;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(parts).chain(std::env::split_paths(&path));
    tests.env("PATH", std::env::join_paths(paths).context("PATH cannot be extended")?);
    steps.take("tests", || tool::run(tests))?;
    steps.take("controllers", controllers::on_upstream)?;
    // While what others wrote is built as for tests.
    steps.take("fuzz", fuzz::gate)?;
    steps.take("release build", tool::release)?;
    steps.take("alerts", alerts::check)?;
    // After the build, which makes `stream` for it.
    steps.take("wheel", wheel::test)?;
    steps.take("explore", explore::gate)?;
    steps.take("replay", replay::month)?;
    steps.take("clients", || itself(&["clients", "--program", "target/release/seatrial"]))?;
    // The built server against the real one; fails when less matches than corpus/FLOOR says, when an
    // OpenAPI document differs, or when the corpus does not tell a server with a bug from one without.
    for what in ["--floor", "--documents", "--bugs"] {
        steps.take(&format!("corpus {what}"), || itself(&["corpus", what]))?;
    }
    Ok(())
}

/// Another verb of this program, in a process of its own.
fn itself(words: &[&str]) -> Result<()> {
    let mut verb = Command::new(std::env::current_exe().context("cannot find this program")?);
    verb.args(words).current_dir(tool::root());
    tool::run(verb)
}

/// What was done, and how long it took; told at the end, however it ends.
#[derive(Default)]
struct Steps(Vec<(String, Duration)>);

impl Steps {
    fn take<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let done = step();
        self.0.push((name.to_owned(), begin.elapsed()));
        done
    }
}

impl Drop for Steps {
    #[expect(clippy::print_stdout, reason = "a task runner says what it did")]
    fn drop(&mut self) {
        println!();
        for (name, took) in &self.0 {
            println!("{name:<18} {:>7.1} s", took.as_secs_f64());
        }
        let all: Duration = self.0.iter().map(|(_, took)| *took).sum();
        println!("{:<18} {:>7.1} s", "all", all.as_secs_f64());
    }
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
