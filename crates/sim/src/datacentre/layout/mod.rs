//! What stands where: the pure description of a site, and the objects that describe it to the API.

mod demo;
mod file;
mod serving;

use api::instance_type::InstanceTypeSpec;
use api::ledger::LedgerSpec;
use api::machine::{Bmc, MachineSpec, Place};
use api::node_pool::NodePoolSpec;
use api::rack::RackSpec;
use api::switch::SwitchSpec;
use api::{InstanceType, Ledger, Machine, NodePool, Rack, Switch, names};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Secret with the user of every BMC.
const CREDENTIAL: &str = "bmc";
/// What every BMC of the simulator asks for; it guards nothing.
pub(super) const USER: &str = "simulated";
pub(super) const PASSWORD: &str = "simulated";
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
    /// The serial number of its data processing unit, where it has one.
    pub dpu: Option<String>,
    /// The firmware it was delivered with, where it differs from that of its type.
    pub delivered: BTreeMap<String, String>,
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

pub use demo::Demo;
pub use serving::Serving;

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
    /// The objects that describe the site; `bmc_url` is where its BMCs answer, as
    /// `http://127.0.0.1:8443`.
    pub fn objects(&self, bmc_url: &str) -> Objects {
        let bmc_url = bmc_url.trim_end_matches('/');
        let own = |name: &str| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(names::NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        };
        let login = [("username", USER), ("password", PASSWORD)];
        let login = login.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Objects {
            namespace: Namespace {
                metadata: ObjectMeta { namespace: None, ..own(names::NAMESPACE) },
                ..Namespace::default()
            },
            credential: Secret {
                metadata: own(CREDENTIAL),
                string_data: Some(login.into()),
                ..Secret::default()
            },
            instance_types: each(&self.types, InstanceType::new),
            racks: each(&self.racks, Rack::new),
            switches: each(&self.switches, Switch::new),
            machines: self.machines.iter().map(|plan| machine(plan, bmc_url)).collect(),
            pools: each(&self.pools, NodePool::new),
            ledger: Ledger::new(names::LEDGER, self.ledger.clone()),
        }
    }

    /// What a machine is expected to be made of, achieve and run.
    pub(super) fn kind(&self, plan: &MachinePlan) -> Option<&InstanceTypeSpec> {
        self.types.get(&plan.instance_type)
    }
}

fn each<S: Clone, K>(specs: &BTreeMap<String, S>, new: impl Fn(&str, S) -> K) -> Vec<K> {
    specs.iter().map(|(name, spec)| new(name, spec.clone())).collect()
}

fn machine(plan: &MachinePlan, bmc_url: &str) -> Machine {
    let spec = MachineSpec {
        instance_type: plan.instance_type.clone(),
        place: plan.place.clone(),
        bmc: Bmc {
            address: format!("{bmc_url}/bmc/{}", plan.name),
            credential: CREDENTIAL.to_owned(),
        },
        macs: plan.macs.clone(),
        dpu: plan.dpu.clone(),
        ..MachineSpec::default()
    };
    Machine::new(&plan.name, spec)
}

/// Locally administered hardware addresses: unique within a site, and the same for each of its lives.
fn macs(index: usize) -> Vec<String> {
    let [.., a, b, c] = (index as u64).to_be_bytes();
    (0..2).map(|port| format!("02:5e:{port:02x}:{a:02x}:{b:02x}:{c:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_site_is_as_it_says() {
        let layout = Layout::demo(&Demo::default()).unwrap();
        let objects = layout.objects("http://127.0.0.1:1/");
        assert_eq!((objects.machines.len(), objects.racks.len()), (36, 4));
        assert_eq!(objects.switches.len(), 2 + 8 + 4);
        let target: u32 = objects.pools.iter().filter_map(|pool| pool.spec.target_nodes).sum();
        let spares: u32 = objects.pools.iter().filter_map(|pool| pool.spec.spares).sum();
        assert_eq!((target, spares), (32, 4));
        let machine = objects.machines.iter().find(|m| m.name() == "r2-s07").unwrap();
        assert_eq!(machine.spec.bmc.address, "http://127.0.0.1:1/bmc/r2-s07");
        let neighbour = objects.machines.iter().find(|m| m.name() == "r2-s08").unwrap();
        assert_eq!(machine.spec.place.leaf, neighbour.spec.place.leaf);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (demo, field) in [
            (Demo { racks: 0, ..Demo::default() }, "racks"),
            (Demo { racks: 37, ..Demo::default() }, "racks"),
            (Demo { gpu_nodes: 400, ..Demo::default() }, "racks"),
            (Demo { spares: 33, ..Demo::default() }, "spares"),
            (Demo { gpu_nodes: 0, cpu_nodes: 0, spares: 0, ..Demo::default() }, "nodes"),
            (Demo { gpu_nodes: u32::MAX, cpu_nodes: u32::MAX, ..Demo::default() }, "nodes"),
        ] {
            assert_eq!(Layout::demo(&demo).unwrap_err().field, field, "{demo:?}");
        }
    }

    #[test]
    fn ten_thousand_machines_have_names_and_addresses_of_their_own() {
        let demo = Demo { gpu_nodes: 9_900, cpu_nodes: 100, racks: 1_250, spares: 100, seed: 3 };
        let layout = Layout::demo(&demo).unwrap();
        assert_eq!(layout.machines.len(), 10_000);
        let names: std::collections::BTreeSet<_> =
            layout.machines.iter().map(|m| &m.name).collect();
        let macs: std::collections::BTreeSet<_> =
            layout.machines.iter().flat_map(|m| &m.macs).collect();
        assert_eq!((names.len(), macs.len()), (10_000, 20_000));
        let leaves = layout.switches.values().filter(|s| s.tier == api::switch::Tier::Leaf).count();
        assert_eq!(leaves, 2_500);
    }
}
