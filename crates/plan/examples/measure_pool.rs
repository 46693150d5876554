//! Measures what a look at a pool costs: of fleets of growing size, at rest, and when every machine
//! is to be taken at once.
//!
//! `cargo run --release -p plan --example measure_pool`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::time::{Duration, Instant};

use api::instance_type::InstanceTypeSpec;
use api::machine::{Assignment, MachineSpec, MachineStatus, Place};
use api::node_pool::NodePoolSpec;
use api::state::{Role, State};
use api::{InstanceType, Machine, NodePool};
use jiff::Timestamp;
use plan::pool::{Observed, Seat, plan};

fn machine(n: usize, pool: Option<&str>) -> Machine {
    let place = Place {
        site: "s".to_owned(),
        rack: format!("r{}", n / 18),
        leaf: Some(format!("l{}", n / 36)),
        ..Place::default()
    };
    let assignment = pool.map(|pool| Assignment {
        pool: pool.to_owned(),
        tenant: "t".to_owned(),
        since: Timestamp::UNIX_EPOCH,
    });
    let spec =
        MachineSpec { instance_type: "k".to_owned(), place, assignment, ..MachineSpec::default() };
    let mut machine = Machine::new(&format!("m{n:05}"), spec);
    machine.status = Some(MachineStatus {
        state: State::Production,
        role: if pool.is_some() { Role::Member } else { Role::Spare },
        pool: pool.map(str::to_owned),
        ..MachineStatus::default()
    });
    machine
}

fn look(machines: &[Machine], target: usize) -> (Duration, usize) {
    let spec = NodePoolSpec {
        instance_type: "k".to_owned(),
        tenant: "t".to_owned(),
        target_nodes: Some(target.try_into().unwrap()),
        ..NodePoolSpec::default()
    };
    let (pool, kind) =
        (NodePool::new("p", spec), InstanceType::new("k", InstanceTypeSpec::default()));
    let seat = |machine| Seat { machine, in_service: true, sick: false, kept: false, idle: true };
    let seats: Vec<Seat<'_>> = machines.iter().map(seat).collect();
    let begin = Instant::now();
    let planned = plan(&Observed {
        now: Timestamp::UNIX_EPOCH,
        pool: &pool,
        kinds: &[kind],
        seats: &seats,
        mean_out: 0.1,
        bring_up: Duration::from_secs(60),
    });
    (begin.elapsed(), planned.deeds.len())
}

fn main() {
    for size in [100, 1_000, 10_000] {
        let members: Vec<Machine> = (0..size).map(|n| machine(n, Some("p"))).collect();
        let spares: Vec<Machine> = (0..size).map(|n| machine(n, None)).collect();
        let (rest, _) = look(&members, size);
        let (all, taken) = look(&spares, size);
        println!("{size} machines: a look at rest {rest:?}; one that takes {taken} {all:?}");
    }
}
