//! Where schedules begin: a fleet brought up from bare metal by the controllers themselves, then one
//! world for each lifecycle state and each stage of an incident.

use super::controller::{Controller, Role};
use super::draw::Draw;
use super::metal::{Metal, Mode};
use super::schedule::fair;
use super::store::{Kind, MACHINES, Store, Value};
use super::tale::{Fault, Tale};
use super::world::{Setting, World};
use api::incident::Stage;
use api::instance_type::{Acceptance, InstanceTypeSpec};
use api::inventory::Inventory;
use api::ledger::{LedgerSpec, Limit};
use api::machine::{Assignment, Bmc, MachineSpec, Place};
use api::node_pool::NodePoolSpec;
use api::request::{Ask, Chore};
use api::state::State;
use api::{InstanceType, Ledger, Machine, NodePool};
use jiff::Timestamp;
use plan::catalogue::Catalogue;
use plan::rules::Rules;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Every beginning; the first has all machines in production.
pub(super) fn worlds() -> Vec<World> {
    let base = production();
    let mut all = vec![base.clone()];
    for state in State::ALL {
        if let Some(world) = in_state(&base, state) {
            all.push(world);
        }
    }
    let stages =
        [Stage::Open, Stage::Draining, Stage::Acting, Stage::Verifying, Stage::HandingOver];
    for stage in stages {
        let mut world = base.clone();
        let fault = if stage == Stage::HandingOver { Fault::Parts } else { Fault::Reboot };
        world.strike(0, fault);
        if fair(&mut world, |world| world.stage(0) == Some(stage)) && world.stage(0) == Some(stage)
        {
            world.fresh();
            all.push(world);
        }
    }
    all
}

/// All machines in production.
pub(super) fn production() -> World {
    let mut base = bare();
    fair(&mut base, |_| false);
    base.fresh();
    base
}

fn in_state(base: &World, state: State) -> Option<World> {
    let mut world = base.clone();
    let ask = match state {
        State::Onboard | State::SeaTrial | State::Test => Ask::Onboard,
        State::Zap | State::ZapFailed => Ask::Zap,
        State::Triage => Ask::Triage,
        State::Debug => Ask::Debug,
        State::Rma => Ask::Rma,
        State::Production => return None,
    };
    if state == State::ZapFailed
        && let Some(metal) = world.metal.get_mut(0)
    {
        metal.chore = Some((Chore::Sanitise, Mode::Fails(2)));
        metal.flaw = true;
    }
    world.request(0, ask);
    fair(&mut world, |world| world.state(0) == state);
    if world.state(0) != state {
        return None;
    }
    world.fresh();
    Some(world)
}

/// Eight machines in two racks, each on its leaf and its power; two tenants' pools, and a spare.
fn bare() -> World {
    let expected =
        Inventory { gpus: 8, gpu_model: Some("H100".to_owned()), ..Inventory::default() };
    let kind = InstanceTypeSpec {
        expected,
        acceptance: Acceptance::Quick,
        image: "image-1".to_owned(),
        firmware: BTreeMap::from([("bios".to_owned(), "2.0".to_owned())]),
        floors: BTreeMap::from([("allreduce_gbps".to_owned(), 460.0)]),
        ..InstanceTypeSpec::default()
    };
    let pool = |name: &str, tenant: &str| {
        let spec = NodePoolSpec {
            instance_type: "h100".to_owned(),
            tenant: tenant.to_owned(),
            max_unavailable: Some(2),
            ..NodePoolSpec::default()
        };
        NodePool::new(name, spec)
    };
    let setting = Setting {
        catalogue: Catalogue::built_in(),
        // They would be most of what happens, and need no grant.
        rules: Rules { idle_test_every: None, ..Rules::default() },
        kind: InstanceType::new("h100", kind),
        pools: vec![pool("train", "acme"), pool("infer", "birch")],
        sizes: BTreeMap::new(),
        names: (0..MACHINES).map(|index| format!("m{index}")).collect(),
    };
    let now = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut store = Store::default();
    for index in 0..MACHINES {
        let machine = machine(index, &setting, now);
        store.add(Kind::Machine(index), Value::Machine(Rc::new(machine)));
    }
    for index in 0..MACHINES {
        store.add(Kind::Node(index), Value::Gone);
    }
    for index in 0..MACHINES {
        store.add(Kind::Pods(index), Value::Pods(Rc::default()));
    }
    let bound = |nodes| Limit { nodes: Some(nodes), percent: None };
    let limits = LedgerSpec { fleet: bound(2), rack: bound(1), ..LedgerSpec::default() };
    store.add(Kind::Ledger, Value::Ledger(Rc::new(Ledger::new("fleet", limits))));
    World {
        now,
        start: now,
        store,
        // Some BMCs never say when they last reset their machine.
        metal: (0..MACHINES).map(|index| Metal::new(now, index != 3)).collect(),
        controllers: vec![Controller::new(Role::Machine), Controller::new(Role::Node)],
        persons: [false; MACHINES],
        mute: [None; MACHINES],
        domains: Vec::new(),
        setting: Rc::new(setting),
        tale: Tale::default(),
        draw: Draw::new(0),
        bug: None,
        chaos: false,
        calm: None,
        serial: 0,
    }
}

fn machine(index: usize, setting: &Setting, now: Timestamp) -> Machine {
    let rack = format!("r{}", index / 4 + 1);
    let assignment = match index {
        0..=4 => setting.pools.first(),
        5 | 6 => setting.pools.get(1),
        _ => None,
    };
    let spec = MachineSpec {
        instance_type: "h100".to_owned(),
        place: Place {
            site: "demo".to_owned(),
            leaf: Some(format!("{rack}-l1")),
            pdu: Some(format!("{rack}-p1")),
            rack,
            slot: u16::try_from(index % 4 + 1).unwrap_or(1),
            ..Place::default()
        },
        bmc: Bmc { address: format!("https://bmc/m{index}"), credential: "bmc".to_owned() },
        macs: vec![format!("02:00:00:00:00:{index:02x}")],
        certified: 1,
        assignment: assignment.map(|pool| Assignment {
            pool: pool.metadata.name.clone().unwrap_or_default(),
            tenant: pool.spec.tenant.clone(),
            since: now,
        }),
        ..MachineSpec::default()
    };
    let mut machine = Machine::new(&format!("m{index}"), spec);
    machine.metadata.uid = Some(format!("uid-m{index}"));
    machine.metadata.generation = Some(1);
    machine
}
