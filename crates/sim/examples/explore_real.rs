//! `cargo xtask explore --real`: plays schedules through the embedded server and prints what they have
//! shown.
#![allow(clippy::print_stdout, reason = "a program that prints a report")]

use mimalloc::MiMalloc;
use sim::explore::real::{Sabotage, explore, hunt, replay};
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut schedules, mut seed, mut number, mut bugs) = (2_000_u64, 1_u64, None, None);
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
            "--jobs" => jobs = value,
            "--replay" => number = Some(value),
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
        println!("{}\n{} wrong", lines.join("\n"), wrong.len());
        return if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(most) = bugs {
        return hunt_all(seed, most, jobs);
    }
    let begin = Instant::now();
    let summary = explore(seed, schedules, jobs, None);
    print!("{summary}");
    println!("took {:.1} s on {jobs} threads", begin.elapsed().as_secs_f64());
    if summary.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many schedules it takes to find each sabotage.
fn hunt_all(seed: u64, most: u64, jobs: u64) -> ExitCode {
    let jobs = usize::try_from(jobs.max(1)).unwrap_or(1);
    let mut missed = 0;
    for some in Sabotage::ALL.chunks(jobs) {
        let found = std::thread::scope(|scope| {
            let hunts: Vec<_> = some
                .iter()
                .map(|(what, judge)| (what, judge, scope.spawn(move || hunt(seed, most, *what))))
                .collect();
            let all = hunts.into_iter().map(|(w, j, hunt)| (w, j, hunt.join().ok().flatten()));
            all.collect::<Vec<_>>()
        });
        for (what, judge, found) in found {
            let name = format!("{what:?}");
            match found {
                Some((schedules, how)) => println!("{name:<20} {schedules:>6}  {judge}: {how}"),
                None => {
                    missed += 1;
                    println!("{name:<20} missed  {judge}");
                }
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
