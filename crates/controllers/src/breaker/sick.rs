//! Who is sick now, and how many nodes share each part, brought up to date node by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Machine;
use api::breaker::Common;
use k8s_openapi::api::core::v1::Node;
use plan::breaker::Sick;
use plan::catalogue::Catalogue;

use crate::node::seen;

/// How many nodes there are of each leaf, unit, rack and image.
pub(super) type Sizes = BTreeMap<(Common, String), usize>;

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bed {
    machine: String,
    parts: Vec<(Common, String)>,
    sick: Option<Sick>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sickbed {
    catalogue: Arc<Catalogue>,
    beds: BTreeMap<String, Bed>,
    /// The node of each machine.
    nodes: BTreeMap<String, String>,
    sick: BTreeMap<String, Sick>,
    sizes: Arc<Sizes>,
}

/// The image that a machine runs.
pub(super) fn image(machine: &Machine) -> Option<&str> {
    let agent = machine.status.as_ref()?.agent.as_ref()?;
    Some(agent.image.as_str())
}

impl Sickbed {
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            catalogue,
            beds: BTreeMap::new(),
            nodes: BTreeMap::new(),
            sick: BTreeMap::new(),
            sizes: Arc::default(),
        }
    }

    pub(super) fn node_of(&self, machine: &str) -> Option<String> {
        self.nodes.get(machine).cloned()
    }

    /// Every sick node, in the order of names.
    pub(super) fn sick(&self) -> Vec<Sick> {
        self.sick.values().cloned().collect()
    }

    pub(super) fn sizes(&self) -> Arc<Sizes> {
        Arc::clone(&self.sizes)
    }

    /// A node is as it is; says whether it fell ill, recovered or shows something else.
    pub(super) fn see(
        &mut self,
        name: &str,
        node: Option<&Node>,
        machine: Option<&Machine>,
    ) -> bool {
        let fresh = node.map(|node| self.examine(node, machine));
        let old = self.beds.get(name).cloned();
        if old == fresh {
            return false;
        }
        let parts = |bed: &Option<Bed>| bed.as_ref().map(|bed| bed.parts.clone());
        if parts(&old) != parts(&fresh) {
            self.count(old.as_ref(), fresh.as_ref());
        }
        let sick = |bed: &Option<Bed>| bed.as_ref().and_then(|bed| bed.sick.clone());
        let changed = sick(&old) != sick(&fresh);
        match sick(&fresh) {
            Some(sick) => drop(self.sick.insert(name.to_owned(), sick)),
            None => drop(self.sick.remove(name)),
        }
        if let Some(old) = old {
            self.nodes.remove(&old.machine);
        }
        match fresh {
            Some(bed) => {
                self.nodes.insert(bed.machine.clone(), name.to_owned());
                self.beds.insert(name.to_owned(), bed);
            }
            None => drop(self.beds.remove(name)),
        }
        changed
    }

    fn examine(&self, node: &Node, machine: Option<&Machine>) -> Bed {
        let below = seen::machine_of(node);
        let Some(machine) = machine.filter(|machine| machine.name() == below) else {
            return Bed { machine: below, parts: Vec::new(), sick: None };
        };
        // Who wrote what plays no part here.
        let seen = seen::node(node, machine, "");
        let faults = plan::node::faults(&seen, &self.catalogue);
        let worst = faults.iter().find(|fault| fault.acts());
        let place = &machine.spec.place;
        let image = image(machine).map(str::to_owned);
        let parts = [
            (Common::Leaf, place.leaf.clone()),
            (Common::Pdu, place.pdu.clone()),
            (Common::Rack, Some(place.rack.clone())),
            (Common::Image, image),
        ];
        Bed {
            machine: below,
            parts: parts.into_iter().filter_map(|(common, of)| Some((common, of?))).collect(),
            sick: worst.map(|fault| plan::node::sick(fault, &seen, machine)),
        }
    }

    fn count(&mut self, old: Option<&Bed>, fresh: Option<&Bed>) {
        let sizes = Arc::make_mut(&mut self.sizes);
        for part in old.iter().flat_map(|bed| &bed.parts) {
            if let Some(size) = sizes.get_mut(part) {
                *size -= 1;
                if *size == 0 {
                    sizes.remove(part);
                }
            }
        }
        for part in fresh.iter().flat_map(|bed| &bed.parts) {
            *sizes.entry(part.clone()).or_default() += 1;
        }
    }
}
