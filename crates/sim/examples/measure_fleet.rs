//! Measures how a fleet comes up, in virtual time and with all delays of its hardware:
//! `cargo run --release -p sim --example measure_fleet -- 4500`.
//!
//! Printed is one line of JSON: simulated seconds from power-off until every machine serves, CPU
//! seconds and peak memory of this process, and the requests to the API. A second number says how
//! many machines stand in a rack: four as a rule, since four of eight GPUs are what most halls can cool.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use sim::replay::run::{BringUp, bring_up};

/// As the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Peak memory in MiB and CPU seconds of this process, as Linux has them.
fn used() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let times = stat.rsplit(')').next().unwrap_or_default().split(' ');
    let ticks: f64 = times.skip(12).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    (kib.unwrap_or_default() / 1024.0, ticks / 100.0)
}

fn main() {
    let argument = |n| std::env::args().nth(n).map(|text| text.parse().unwrap());
    let machines = argument(1).unwrap_or(450);
    let per_rack = argument(2).unwrap_or(4);
    let up = bring_up(BringUp { machines, per_rack: per_rack as u32, seed: 1 }).unwrap();
    let (peak_mib, cpu_seconds) = used();
    let line = serde_json::json!({
        "machines": machines,
        "per_rack": per_rack,
        "seconds": up.took.as_secs_f64(),
        "cpu_seconds": cpu_seconds,
        "peak_mib": peak_mib,
        "requests": up.requests,
    });
    println!("{line}");
}
