//! A world in memory: objects, hardware behind them, and an apply that does what plans say and
//! refuses what their fences forbid. Time moves only from one event to the next.

mod apply;
mod hardware;
mod step;

use api::breaker::Common;
use api::instance_type::{Acceptance, InstanceTypeSpec};
use api::inventory::Inventory;
use api::ledger::{LedgerSpec, Limit};
use api::machine::{Bmc, MachineSpec, Place};
use api::{Breaker, Incident, InstanceType, Ledger, Machine, NodePool};
use jiff::Timestamp;
use plan::catalogue::Catalogue;
use plan::machine::Reading;
use plan::node::{NodeSeen, PodSeen};
use plan::rules::Rules;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use hardware::{Cure, Hardware, Ill, Mode};

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(&[]).unwrap());

/// Everything there is.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) machines: BTreeMap<String, Machine>,
    pub(crate) nodes: BTreeMap<String, NodeSeen>,
    pub(crate) pods: BTreeMap<String, Vec<PodSeen>>,
    pub(crate) incidents: Vec<Incident>,
    pub(crate) pools: Vec<NodePool>,
    pub(crate) ledger: Ledger,
    pub(crate) breakers: Vec<Breaker>,
    pub(crate) hardware: BTreeMap<String, Hardware>,
    pub(crate) readings: BTreeMap<String, Reading>,
    pub(crate) kind: InstanceType,
    pub(crate) catalogue: &'static Catalogue,
    pub(crate) rules: Rules,
    /// What happened, as lines.
    pub(crate) log: Vec<String>,
    /// What was wrong with plans.
    pub(crate) wrong: Vec<String>,
    pub(crate) sizes: BTreeMap<(Common, String), usize>,
    serial: u64,
}

impl World {
    /// Machines `m01`… in two racks, each on its leaf.
    pub(crate) fn new(count: usize) -> Self {
        let expected =
            Inventory { gpus: 8, gpu_model: Some("H100".to_owned()), ..Inventory::default() };
        let kind = InstanceTypeSpec {
            expected: expected.clone(),
            acceptance: Acceptance::Quick,
            image: "image-1".to_owned(),
            firmware: BTreeMap::from([("bios".to_owned(), "2.0".to_owned())]),
            floors: BTreeMap::from([("allreduce_gbps".to_owned(), 460.0)]),
            ..InstanceTypeSpec::default()
        };
        let bound = |nodes| Limit { nodes: Some(nodes), percent: None };
        let limits = LedgerSpec { fleet: bound(2), ..LedgerSpec::default() };
        let mut world = Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            incidents: Vec::new(),
            pools: Vec::new(),
            ledger: Ledger::new("fleet", limits),
            breakers: Vec::new(),
            hardware: BTreeMap::new(),
            readings: BTreeMap::new(),
            kind: InstanceType::new("h100", kind),
            catalogue: &CATALOGUE,
            // Hourly tests would drown everything else; a script that is about them turns them on.
            rules: Rules { idle_test_every: None, ..Rules::default() },
            log: Vec::new(),
            wrong: Vec::new(),
            sizes: BTreeMap::new(),
            serial: 0,
        };
        for index in 1..=count {
            world.add(index, &expected);
        }
        world
    }

    fn add(&mut self, index: usize, inventory: &Inventory) {
        let name = format!("m{index:02}");
        let rack = format!("r{}", (index - 1) / 4 + 1);
        let spec = MachineSpec {
            instance_type: "h100".to_owned(),
            place: Place {
                site: "demo".to_owned(),
                leaf: Some(format!("{rack}-l1")),
                rack,
                slot: u16::try_from((index - 1) % 4 + 1).unwrap(),
                ..Place::default()
            },
            bmc: Bmc { address: format!("https://bmc/{name}"), credential: "bmc".to_owned() },
            macs: vec![format!("02:00:00:00:00:{index:02x}")],
            certified: 1,
            ..MachineSpec::default()
        };
        let mut machine = Machine::new(&name, spec);
        machine.metadata.uid = Some(format!("uid-{name}"));
        machine.metadata.generation = Some(1);
        self.machines.insert(name.clone(), machine);
        self.hardware.insert(name, Hardware::new(inventory.clone()));
    }

    pub(crate) fn say(&mut self, line: String) {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let seconds = self.now.duration_since(start).as_secs();
        self.log.push(format!("{seconds:>6}s {line}"));
    }

    pub(crate) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The machine's lifecycle state.
    pub(crate) fn state(&self, name: &str) -> api::state::State {
        self.machines[name].state()
    }
}
