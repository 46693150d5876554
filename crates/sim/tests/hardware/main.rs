//! The simulated hardware from outside: boots, faults, chores, BMCs, and what survives a kill.
#![cfg(feature = "site")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod boot;
mod chores;
mod client;
mod faults;
mod file;
mod layout;
mod redfish;

use jiff::Timestamp;
use kit::clock::Clock;
use plan::catalogue::Catalogue;
use sim::datacentre::{Datacentre, Delays, Demo, Hardware, Layout, Running, Settings};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static CATALOGUE: LazyLock<Arc<Catalogue>> =
    LazyLock::new(|| Arc::new(Catalogue::load(&[]).unwrap()));

/// From a BMC's yes to a running system: 5 s, 150 s, 240 s.
const BOOT: Duration = Duration::from_secs(395);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn settings(seed: u64, file: Option<PathBuf>) -> Settings {
    Settings {
        clock: Clock::simulated(start()),
        delays: Delays::load().unwrap(),
        catalogue: CATALOGUE.clone(),
        seed,
        file,
    }
}

fn demo() -> Layout {
    Layout::demo(&Demo::default()).unwrap()
}

fn site() -> Datacentre {
    Datacentre::start(demo(), settings(1, None)).unwrap()
}

/// The system that runs when one runs.
async fn boots(machine: &Hardware) -> Running {
    let mut running = machine.running();
    running.wait_for(Option::is_some).await.unwrap().clone().unwrap()
}

/// A machine that runs.
async fn booted(site: &Datacentre, name: &str) -> Hardware {
    let machine = site.machine(name).unwrap();
    machine.power(api::request::Power::On, None);
    boots(&machine).await;
    machine
}
