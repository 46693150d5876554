//! A site that nobody described, of any size.

use super::{Layout, LayoutError, MAX_MACHINES, MAX_SLOTS, MachinePlan, Vendor, macs};
use api::instance_type::InstanceTypeSpec;
use api::ledger::{LedgerSpec, Limit};
use api::machine::Place;
use api::node_pool::NodePoolSpec;
use api::rack::RackSpec;
use api::switch::{SwitchSpec, Tier};
use std::collections::BTreeMap;

const TYPES: &str = include_str!("../../../data/types.yaml");
const GPU: &str = "gd-8xh100ib-i128";
const CPU: &str = "cd-gp-a192-genoa";
const TENANT: &str = "acme";
/// Ports of the leaf and spine switches: NVIDIA's QM9700 has 64.
const PORTS: u32 = 64;
/// Racks in a row.
const ROW: u32 = 16;
/// As many may be switched on at once in a rack: see `RackSpec::power_ons`.
const POWER_ONS: u32 = 4;

/// A site that nobody described: what `up` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demo {
    /// Machines with GPUs, spares included.
    pub gpu_nodes: u32,
    /// Machines without.
    pub cpu_nodes: u32,
    /// Racks, over which machines are spread evenly.
    pub racks: u32,
    /// How many of the machines with GPUs are kept as spares.
    pub spares: u32,
    /// Decides everything that is drawn.
    pub seed: u64,
}

impl Default for Demo {
    fn default() -> Self {
        Self { gpu_nodes: 32, cpu_nodes: 4, racks: 4, spares: 4, seed: 1 }
    }
}

/// The built-in instance types.
pub(super) fn types() -> Result<BTreeMap<String, InstanceTypeSpec>, LayoutError> {
    serde_saphyr::from_str(TYPES)
        .map_err(|error| LayoutError::new("built-in types", error.to_string()))
}

/// At most a tenth of the fleet and a fifth of a pool or tenant are out on purpose at once.
pub(super) fn ledger() -> LedgerSpec {
    let percent = |percent| Limit { nodes: None, percent: Some(percent) };
    LedgerSpec {
        fleet: percent(10),
        pool: percent(20),
        rack: percent(50),
        tenant: percent(20),
        named: BTreeMap::new(),
    }
}

impl Layout {
    /// A site of evenly filled racks with two leaves each, spines, and a pool for each type.
    ///
    /// # Errors
    /// More spares than machines, no rack, or more than 64 machines in a rack.
    pub fn demo(demo: &Demo) -> Result<Self, LayoutError> {
        check(demo)?;
        let mut layout = Self {
            site: "demo".to_owned(),
            types: types()?,
            racks: BTreeMap::new(),
            switches: BTreeMap::new(),
            pools: pools(demo),
            machines: Vec::new(),
            ledger: ledger(),
        };
        let width = demo.racks.to_string().len();
        for rack in 0..demo.racks {
            fill(&mut layout, demo, rack, width);
        }
        let spines = (demo.racks * 2).div_ceil(PORTS / 2).max(2);
        for spine in 1..=spines {
            let spec = SwitchSpec { tier: Tier::Spine, rack: None, ports: PORTS };
            layout.switches.insert(format!("spine-{spine}"), spec);
        }
        Ok(layout)
    }
}

fn check(demo: &Demo) -> Result<(), LayoutError> {
    let machines = demo.gpu_nodes.saturating_add(demo.cpu_nodes);
    if machines == 0 || machines > MAX_MACHINES {
        let reason = format!("must be 1 to {MAX_MACHINES} machines, not {machines}");
        return Err(LayoutError::new("nodes", reason));
    }
    let fewest = machines.div_ceil(MAX_SLOTS);
    if !(fewest..=machines).contains(&demo.racks) {
        let reason = format!(
            "{machines} machines need {fewest} to {machines} racks of at most {MAX_SLOTS}, not {}",
            demo.racks
        );
        return Err(LayoutError::new("racks", reason));
    }
    if demo.spares > demo.gpu_nodes {
        let reason =
            format!("must be at most the {} GPU nodes, not {}", demo.gpu_nodes, demo.spares);
        return Err(LayoutError::new("spares", reason));
    }
    Ok(())
}

fn pools(demo: &Demo) -> BTreeMap<String, NodePoolSpec> {
    let pool = |kind: &str, target, spares| NodePoolSpec {
        instance_type: kind.to_owned(),
        tenant: TENANT.to_owned(),
        target_nodes: Some(target),
        spares: Some(spares),
        ..NodePoolSpec::default()
    };
    let mut pools = BTreeMap::new();
    if demo.gpu_nodes > 0 {
        let target = demo.gpu_nodes - demo.spares.min(demo.gpu_nodes);
        pools.insert("h100".to_owned(), pool(GPU, target, demo.spares));
    }
    if demo.cpu_nodes > 0 {
        pools.insert("cpu".to_owned(), pool(CPU, demo.cpu_nodes, 0));
    }
    pools
}

/// One rack with its switches and its share of the machines, GPUs below.
fn fill(layout: &mut Layout, demo: &Demo, rack: u32, width: usize) {
    let share = |all: u32| all / demo.racks + u32::from(rack < all % demo.racks);
    // What does not divide evenly goes to the other end, so that racks differ by one at most.
    let other = |all: u32| all / demo.racks + u32::from(demo.racks - 1 - rack < all % demo.racks);
    let (gpus, cpus) = (share(demo.gpu_nodes), other(demo.cpu_nodes));
    let number = rack + 1;
    let name = format!("r{number:0width$}");
    let row = format!("row-{}", rack / ROW + 1);
    let slots = gpus + cpus;
    let spec = RackSpec {
        site: layout.site.clone(),
        row: Some(row.clone()),
        slots: slots.max(1),
        needed: None,
        nvlink_domain: None,
        power_ons: POWER_ONS,
    };
    layout.racks.insert(name.clone(), spec);
    let switch = |tier| SwitchSpec { tier, rack: Some(name.clone()), ports: PORTS };
    for leaf in ["a", "b"] {
        layout.switches.insert(format!("leaf-{number:0width$}{leaf}"), switch(Tier::Leaf));
    }
    layout.switches.insert(format!("mgmt-{number:0width$}"), switch(Tier::Management));
    // Racks are bought whole, so that a rack's BMCs are of one make.
    let vendor = (u64::from(rack).wrapping_add(demo.seed.wrapping_sub(1)) % 4) as usize;
    for slot in 1..=slots {
        let leaf = if slot <= slots.div_ceil(2) { "a" } else { "b" };
        let place = Place {
            site: layout.site.clone(),
            row: Some(row.clone()),
            rack: name.clone(),
            slot: u16::try_from(slot).unwrap_or(u16::MAX),
            leaf: Some(format!("leaf-{number:0width$}{leaf}")),
            pdu: Some(format!("pdu-{number:0width$}")),
            nvlink_domain: None,
        };
        let kind = if slot <= gpus { GPU } else { CPU };
        let plan = MachinePlan {
            name: format!("{name}-s{slot:02}"),
            instance_type: kind.to_owned(),
            place,
            macs: macs(layout.machines.len()),
            vendor: Vendor::ALL.get(vendor).copied().unwrap_or_default(),
            dpu: None,
            delivered: BTreeMap::new(),
        };
        layout.machines.push(plan);
    }
}
