//! `cargo xtask explore`: plays schedules over tables in memory and prints what they have shown.

mod explorer;

use explorer::Explorer;
use sim::explore::{Bug, explore, hunt, replay};
use std::process::ExitCode;

fn main() -> ExitCode {
    let explorer = Explorer {
        explore: |seed, schedules, jobs, told| explore(seed, schedules, jobs, None, told),
        hunt,
        replay: |number| replay(number, None),
        bugs: &Bug::ALL,
        schedules: 1_000_000,
    };
    explorer.run()
}
