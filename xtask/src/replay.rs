//! `cargo xtask replay`: the recorded year, a larger fleet and the ladder, replayed by the built binary.
//!
//! What it prints are the figures of SPECIFICATION.md. It fails when something was done that should not
//! have been, or when a swap with a spare at hand took longer than promised; times on the clock on the
//! wall are printed and never judged.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tool;

const TRACE: &str = "examples/fault-trace/fault_trace.json";
/// The longest swap that is promised at P99, in seconds of simulated time.
const SWAP: f64 = 300.0;
/// Where README looks for the plot.
const PICTURE: &str = "docs/img/replay-spares.svg";

/// Arguments of `cargo xtask replay`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the first 30 days, whose faults are counted
    #[arg(long, conflicts_with = "picture")]
    short: bool,
    /// Put the plot of the whole trace where README shows it
    #[arg(long)]
    picture: bool,
}

/// Builds the binary and replays everything.
pub(crate) fn run(args: &Args) -> Result<()> {
    tool::release()?;
    if args.short {
        return month();
    }
    let year = ["--servers", "400", "--spares", "33"];
    judged(replay("year", &year)?)?;
    judged(replay("large", &["--servers", "2048", "--spares", "96", "--fold", "54"])?)?;
    judged(replay("ladder", &[&year[..], &["--repair", "ladder"]].concat())?)?;
    if args.picture {
        let to = tool::root().join(PICTURE);
        std::fs::create_dir_all(to.with_file_name(""))?;
        std::fs::copy(directory("year").join("spares.svg"), &to)
            .with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// The first 30 days, by the binary as it is built.
pub(crate) fn month() -> Result<()> {
    let report = judged(replay("month", &["--servers", "400", "--spares", "33", "--days", "30"])?)?;
    let count = |key: &str| report["faults"][key].as_u64();
    // What anybody counts in the file.
    if (count("read"), count("injected")) != (Some(11), Some(11)) {
        bail!("the first 30 days have 11 faults, and the replay says {}", report["faults"]);
    }
    Ok(())
}

fn directory(name: &str) -> PathBuf {
    tool::root().join("target").join("replay").join(name)
}

/// Replays the example with these options; the report that it wrote.
fn replay(name: &str, options: &[&str]) -> Result<Value> {
    let directory = directory(name);
    let mut command = Command::new(tool::program());
    command.args(["replay", "--faults", TRACE]).args(options).current_dir(tool::root());
    command.arg("--report").arg(&directory);
    tool::run(command)?;
    let path = directory.join("report.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// The same report, if all that was done was right.
fn judged(report: Value) -> Result<Value> {
    let verdict = &report["verdict"];
    let wrong = |key: &str| verdict[key].as_u64() != Some(0);
    if ["no_evidence", "against_person", "over_budget"].into_iter().any(wrong) {
        bail!("the fleet did what it should not have done: {verdict}");
    }
    if report["swap"]["p99"].as_f64().is_none_or(|p99| p99 > SWAP) {
        bail!("a swap took longer than {SWAP} s: {}", report["swap"]);
    }
    Ok(report)
}
