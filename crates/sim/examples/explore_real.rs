//! `cargo xtask explore --real`: plays schedules through the embedded server and prints what they have
//! shown.

mod explorer;

use explorer::Explorer;
use mimalloc::MiMalloc;
use sim::explore::real::{Sabotage, explore, hunt, replay};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let explorer = Explorer {
        explore: |seed, schedules, jobs, told| explore(seed, schedules, jobs, None, told),
        hunt,
        replay: |number| replay(number, None),
        bugs: &Sabotage::ALL,
        schedules: 2_000,
    };
    explorer.run()
}
