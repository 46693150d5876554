//! `cargo xtask explore`: plays schedules and prints what they have shown.
#![allow(clippy::print_stdout, reason = "a program that prints a report")]

use sim::explore::{Bug, explore, hunt, replay};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut schedules, mut seed, mut number, mut bugs) = (50_000_u64, 1_u64, None, None);
    let mut jobs = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    while let Some(name) = args.next() {
        let value = args.next().unwrap_or_default();
        let Ok(value) = value.parse() else {
            println!("{name} takes a number, not {value:?}");
            return ExitCode::from(2);
        };
        match name.as_str() {
            "--schedules" => schedules = value,
            "--seed" => seed = value,
            "--replay" => number = Some(value),
            "--jobs" => jobs = value,
            "--bugs" => bugs = Some(value),
            _ => {
                println!(
                    "unknown argument {name}; there are --schedules, --seed, --jobs, --replay and --bugs"
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
    if let Some(most) = bugs {
        return hunt_all(seed, most);
    }
    let begin = Instant::now();
    let summary = explore(seed, schedules, jobs, None);
    let took = begin.elapsed().as_secs_f64();
    print!("{summary}");
    println!("took {took:.1} s on {jobs} threads");
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
