//! `cargo xtask explore`: the schedule explorers of `sim`, built with optimisation and run.

use anyhow::Result;

use crate::tool;

/// Arguments of `cargo xtask explore`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many schedules are played over tables in memory
    #[arg(long, default_value_t = 1_000_000)]
    schedules: u64,
    /// Play so many through the embedded server instead, with the shipped controllers whole
    #[arg(long, value_name = "SCHEDULES", conflicts_with = "schedules")]
    real: Option<u64>,
    /// The number of the first schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many are played at once; as many as there are cores if not given
    #[arg(long)]
    jobs: Option<u64>,
    /// Tell one schedule as a timeline; with --real one through the embedded server
    #[arg(long, value_name = "NUMBER", conflicts_with = "schedules")]
    replay: Option<u64>,
    /// Look for each planted bug in so many schedules; with --real for each sabotage
    #[arg(long, value_name = "SCHEDULES", conflicts_with_all = ["schedules", "replay"])]
    bugs: Option<u64>,
}

/// Builds and runs it; fails when a schedule went wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = if args.real.is_some() {
        tool::release()?;
        tool::example(REAL)
    } else {
        // Without the simulated site, which is most of what there is to build.
        let mut command = tool::cargo(&["run", "--release", "--quiet", "-p", "sim"]);
        command.args(["--no-default-features", "--example", TABLES, "--"]);
        command
    };
    let schedules = args.real.unwrap_or(args.schedules);
    let (what, number) = match (args.replay, args.bugs) {
        (Some(number), _) => ("--replay", number),
        (None, Some(most)) => ("--bugs", most),
        (None, None) => ("--schedules", schedules),
    };
    command.args(["--seed", &args.seed.to_string(), what, &number.to_string()]);
    if let Some(jobs) = args.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    tool::run(command)
}

/// The example that plays schedules over tables.
const TABLES: &str = "explore";

/// The example that plays schedules through the embedded server.
const REAL: &str = "explore_real";

/// What `cargo xtask test` plays, with the examples that it has built beside the program: alone they
/// would be a second build of everything, with other features.
pub(crate) fn gate() -> Result<()> {
    for (example, what, number) in [
        (TABLES, "--schedules", "50000"),
        (TABLES, "--bugs", "50000"),
        (REAL, "--schedules", "2000"),
    ] {
        let mut command = tool::example(example);
        command.args(["--seed", "1", what, number]);
        tool::run(command)?;
    }
    Ok(())
}
