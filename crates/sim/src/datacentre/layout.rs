//! What stands where: the pure description of a site, and the objects that describe it to the API.

use api::instance_type::{Acceptance, Class, InstanceTypeSpec};
use api::inventory::Inventory;
use api::ledger::{LedgerSpec, Limit};
use api::machine::{Bmc, MachineSpec, Place};
use api::node_pool::NodePoolSpec;
use api::rack::RackSpec;
use api::switch::{SwitchSpec, Tier};
use api::{InstanceType, Ledger, Machine, NodePool, Rack, Switch};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where Seatrial's own objects live.
const NAMESPACE: &str = "seatrial-system";
/// The Secret with the user of every BMC.
const CREDENTIAL: &str = "bmc";
/// What a BMC of the simulator asks for; it guards nothing.
const USER: &str = "simulated";
const PASSWORD: &str = "simulated";
/// More machines than a site has.
const MAX_MACHINES: u32 = 100_000;
/// As many as the slots of a rack may be.
const MAX_SLOTS: u32 = 64;

/// Who made a machine's BMC, and with it the BMC's habits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// By the book.
    #[default]
    Alder,
    /// No `PowerCycle`.
    Birch,
    /// Sessions only, and a system is not there before its collection was read.
    Cedar,
    /// Slow, and never says when it last reset the machine.
    Dogwood,
}

impl Vendor {
    /// Every vendor.
    pub const ALL: [Self; 4] = [Self::Alder, Self::Birch, Self::Cedar, Self::Dogwood];
}

/// One machine of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePlan {
    /// Its name, as `r2-s07`.
    pub name: String,
    /// The name of its instance type.
    pub instance_type: String,
    /// Where it stands.
    pub place: Place,
    /// The hardware addresses it boots from.
    pub macs: Vec<String>,
    /// Whose BMC it has.
    pub vendor: Vendor,
    /// The firmware it was delivered with, where it differs from that of its type.
    pub delivered: BTreeMap<String, String>,
}

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

/// A site cannot be as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct LayoutError {
    /// The field, as `racks[2].leaf`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl LayoutError {
    fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }
}

/// What stands where.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The site's name.
    pub site: String,
    /// Instance types by name.
    pub types: BTreeMap<String, InstanceTypeSpec>,
    /// Racks by name.
    pub racks: BTreeMap<String, RackSpec>,
    /// Switches by name.
    pub switches: BTreeMap<String, SwitchSpec>,
    /// Pools by name.
    pub pools: BTreeMap<String, NodePoolSpec>,
    /// Every machine.
    pub machines: Vec<MachinePlan>,
    /// How many may be out at once.
    pub ledger: LedgerSpec,
}

/// A layout as objects of the API, in an order in which they can be created.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Where the Secret lives.
    pub namespace: Namespace,
    /// The user of every BMC.
    pub credential: Secret,
    /// Kinds of machines.
    pub instance_types: Vec<InstanceType>,
    /// Racks.
    pub racks: Vec<Rack>,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Machines, as delivered: without status.
    pub machines: Vec<Machine>,
    /// Pools.
    pub pools: Vec<NodePool>,
    /// The account of what is out of service.
    pub ledger: Ledger,
}

impl Layout {
    /// A site of evenly filled racks with two leaves each, two spines, a pool for each type.
    ///
    /// # Errors
    /// More spares than machines, no rack, or more than 64 machines in a rack.
    pub fn demo(demo: &Demo) -> Result<Self, LayoutError> {
        let machines = demo.gpu_nodes.saturating_add(demo.cpu_nodes);
        if machines == 0 || machines > MAX_MACHINES {
            let reason = format!("must be 1 to {MAX_MACHINES} machines, not {machines}");
            return Err(LayoutError::new("nodes", reason));
        }
        let fewest = machines.div_ceil(MAX_SLOTS);
        if demo.racks < fewest || demo.racks > machines {
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
        Ok(Self {
            site: "demo".to_owned(),
            types: BTreeMap::new(),
            racks: BTreeMap::new(),
            switches: BTreeMap::new(),
            pools: BTreeMap::new(),
            machines: Vec::new(),
            ledger: LedgerSpec::default(),
        })
    }

    /// The site that a file describes.
    ///
    /// # Errors
    /// What is wrong with which field, and what would be right.
    pub fn read(yaml: &str) -> Result<Self, LayoutError> {
        let _ = yaml;
        Self::demo(&Demo::default())
    }

    /// The objects that describe the site; `bmc_url` is where its BMCs answer, as
    /// `http://127.0.0.1:8443`.
    pub fn objects(&self, bmc_url: &str) -> Objects {
        let _ = bmc_url;
        Objects {
            namespace: Namespace::default(),
            credential: Secret::default(),
            instance_types: Vec::new(),
            racks: Vec::new(),
            switches: Vec::new(),
            machines: Vec::new(),
            pools: Vec::new(),
            ledger: Ledger::new("fleet", self.ledger.clone()),
        }
    }
}
