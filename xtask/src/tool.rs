//! Running other programs: one line that says what runs, and an error that says what to do.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    // The manifest lies one level below the root, wherever the repository is.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A `cargo` command in the repository's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = builder(program);
    command.args(args).current_dir(root());
    command
}

/// A program that builds crates, by cargo.
///
/// What the cargo that runs this task has said of this package is not handed on: build scripts that
/// look at it (ring's) would run again, and all above them be built again, whenever somebody builds
/// without this task in between.
pub(crate) fn builder(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let said = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(said)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end; fails if it does.
#[expect(clippy::print_stdout, reason = "a task runner says what it runs")]
pub(crate) fn run(mut command: Command) -> Result<()> {
    let line = line(&command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// The examples that tests and benches run.
const EXAMPLES: [&str; 4] = ["explore", "explore_real", "measure_fleet", "measure_wire"];

/// Builds for release what any task runs, all at once: whoever asks for a part alone would have the
/// crates below it built once more, with other features.
pub(crate) fn release() -> Result<()> {
    let mut build = cargo(&["build", "--release", "--quiet", "-p", "sim", "-p", "seatrial"]);
    build.args(["--bin", "seatrial"]);
    for example in EXAMPLES {
        build.args(["--example", example]);
    }
    run(build)
}

/// The program, as [`release`] builds it.
pub(crate) fn program() -> PathBuf {
    root().join("target/release/seatrial")
}

/// An example that was built for release.
pub(crate) fn example(name: &str) -> Command {
    let mut command = Command::new(root().join("target/release/examples").join(name));
    command.current_dir(root());
    command
}

/// Waits before another program is asked again.
#[expect(clippy::disallowed_methods, reason = "other programs say nothing when they are ready")]
pub(crate) fn pause(poll: Duration) {
    std::thread::sleep(poll);
}

/// Whether a program is there to be run.
pub(crate) fn has(program: &str, version: &str) -> bool {
    let output = Command::new(program).arg(version).output();
    output.is_ok_and(|output| output.status.success())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
