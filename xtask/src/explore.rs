//! `cargo xtask explore`: the schedule explorer of `sim`, built with optimisation and run.

use anyhow::Result;

use crate::tool;

/// Arguments of `cargo xtask explore`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many schedules are played
    #[arg(long, default_value_t = 50_000)]
    schedules: u64,
    /// The number of the first schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell one schedule as a timeline
    #[arg(long, value_name = "NUMBER", conflicts_with = "schedules")]
    replay: Option<u64>,
    /// Look for each planted bug in so many schedules
    #[arg(long, value_name = "SCHEDULES", conflicts_with_all = ["schedules", "replay"])]
    bugs: Option<u64>,
}

/// Builds and runs it; fails when a schedule went wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    // Without the simulated site, which is most of what there is to build.
    let mut command = tool::cargo(&["run", "--release", "--quiet", "-p", "sim"]);
    command.args(["--no-default-features", "--example", "explore", "--"]);
    match (args.replay, args.bugs) {
        (Some(number), _) => command.args(["--replay", &number.to_string()]),
        (None, Some(most)) => {
            command.args(["--seed", &args.seed.to_string(), "--bugs", &most.to_string()])
        }
        (None, None) => command.args([
            "--seed",
            &args.seed.to_string(),
            "--schedules",
            &args.schedules.to_string(),
        ]),
    };
    tool::run(command)
}

/// What `cargo xtask test` plays.
pub(crate) fn gate() -> Result<()> {
    run(&Args { schedules: 50_000, seed: 1, replay: None, bugs: None })?;
    run(&Args { schedules: 50_000, seed: 1, replay: None, bugs: Some(50_000) })
}
