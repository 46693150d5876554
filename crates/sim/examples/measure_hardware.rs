//! Measures the simulated hardware: `cargo run --release -p sim --example measure_hardware -- 10000`.
//!
//! All machines boot at once and each takes a test, in virtual time and without controllers; printed
//! are simulated time, CPU time and memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use api::request::{Chore, Power, Task};
use kit::clock::Clock;
use plan::catalogue::Catalogue;
use sim::datacentre::{Datacentre, Delays, Demo, Layout, Settings};
use tokio::time::Instant;

/// Resident memory in MiB and CPU seconds of this process, as Linux has them.
fn used() -> (f64, f64) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = pages.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or_default();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let times = stat.rsplit(')').next().unwrap_or_default().split(' ');
    let ticks: f64 = times.skip(12).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    (pages / 256.0, ticks / 100.0)
}

async fn measure(machines: u32, file: Option<std::path::PathBuf>) {
    let (memory, cpu) = used();
    let racks = machines.div_ceil(8);
    let demo = Demo { gpu_nodes: machines, cpu_nodes: 0, racks, spares: 0, seed: 1 };
    let settings = Settings {
        clock: Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
        delays: Delays::load().unwrap(),
        catalogue: Catalogue::built_in(),
        seed: 1,
        file,
    };
    let before = Instant::now();
    let site = Datacentre::start(Layout::demo(&demo).unwrap(), settings).unwrap();
    for machine in site.machines() {
        machine.power(Power::On, None);
    }
    let mut tests = tokio::task::JoinSet::new();
    for machine in site.machines() {
        let mut running = machine.running();
        let boot = running.wait_for(Option::is_some).await.unwrap().clone().unwrap().boot;
        let id = "quick".to_owned();
        let task = Task { id, chore: Chore::TestQuick, target: None, boot, why: String::new() };
        tests.spawn(async move { machine.perform(&task).await.unwrap() });
    }
    let passed = tests.join_all().await.len();
    let (then, cpu_then) = used();
    println!(
        "{machines} machines: {passed} tested after {} s of simulated time, {:.2} s of CPU, {:.0} MiB",
        before.elapsed().as_secs(),
        cpu_then - cpu,
        then - memory,
    );
}

fn main() {
    let machines = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let file = std::env::args().nth(2).map(Into::into);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(measure(machines, file));
}
