//! `cargo xtask explore`: plays schedules and prints what they have shown.
#![allow(clippy::print_stdout, reason = "a program that prints a report")]

use api::incident::Stage;
use api::state::State;
use sim::explore::{Bug, Disturbance, Fault, Summary, explore, hunt, replay};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut schedules, mut seed, mut number) = (50_000_u64, 1_u64, None);
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        let Ok(value) = value.parse() else {
            println!("{name} takes a number, not {value:?}");
            return ExitCode::from(2);
        };
        match name.as_str() {
            "--schedules" => schedules = value,
            "--seed" => seed = value,
            "--replay" => number = Some(value),
            "--bugs" => return hunt_all(seed, value),
            _ => {
                println!(
                    "unknown argument {name}; there are --schedules, --seed, --replay and --bugs"
                );
                return ExitCode::from(2);
            }
        }
    }
    if let Some(number) = number {
        let (lines, wrong) = replay(number, None);
        println!("{}", lines.join("\n"));
        println!("{} wrong", wrong.len());
        return if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let begin = Instant::now();
    let summary = explore(seed, schedules, u64::try_from(threads).unwrap_or(1), None);
    let took = begin.elapsed().as_secs_f64();
    print(&summary);
    println!("took {took:.1} s on {threads} threads");
    if summary.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many schedules it takes to find each planted bug.
fn hunt_all(seed: u64, most: u64) -> ExitCode {
    let mut missed = 0;
    let found = std::thread::scope(|scope| {
        let hunts: Vec<_> = Bug::ALL
            .into_iter()
            .map(|(bug, invariant)| (bug, invariant, scope.spawn(move || hunt(seed, most, bug))))
            .collect();
        let all = hunts.into_iter().map(|(b, i, hunt)| (b, i, hunt.join().ok().flatten()));
        all.collect::<Vec<_>>()
    });
    for (bug, invariant, found) in found {
        match found {
            Some((schedules, how)) => {
                println!("{:<20} {schedules:>6}  {invariant}: {how}", format!("{bug:?}"));
            }
            None => {
                missed += 1;
                println!("{:<20} missed  {invariant}", format!("{bug:?}"));
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(summary: &Summary) {
    println!("schedules {}  seed-independent hash {:016x}", summary.schedules, summary.hash);
    println!("steps: median {}  P99 {}", summary.percentile(50), summary.percentile(99));
    println!("\nfaults by lifecycle state");
    print!("{:<14}", "");
    for state in State::ALL {
        print!("{:>11}", state.name());
    }
    println!();
    for (column, fault) in Fault::ALL.iter().enumerate() {
        print!("{:<14}", format!("{fault:?}"));
        for row in &summary.coverage.faults {
            print!("{:>11}", row.get(column).copied().unwrap_or(0));
        }
        println!();
    }
    println!("\ndisturbances by stage of the node's incident (lost writes are not told apart)");
    print!("{:<14}", "");
    for stage in Stage::ALL {
        print!("{:>13}", format!("{stage:?}"));
    }
    println!("{:>13}", "none");
    for (column, what) in Disturbance::ALL.iter().enumerate() {
        print!("{:<14}", format!("{what:?}"));
        for row in &summary.coverage.disturbances {
            print!("{:>13}", row.get(column).copied().unwrap_or(0));
        }
        println!();
    }
    println!("\nviolations: {}", summary.wrong.len());
    for (number, wrong) in summary.wrong.iter().take(20) {
        println!("  --replay {number}: {wrong}");
    }
}
