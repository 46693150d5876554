//! What a decision about a machine rests on.

use std::sync::Arc;

use api::{InstanceType, Machine, NodePool};
use jiff::Timestamp;
use kit::controller::ObjectKey;
use plan::Rules;
use plan::machine::{Joined, PowerOns, Reading};

use super::Machines;

/// How many machines of a rack may be switched on at once where no Rack says so: its own default.
const POWER_ONS: u32 = 4;

/// What there is to know about a machine.
pub struct Observed {
    pub(super) now: Timestamp,
    pub(super) machine: Arc<Machine>,
    pub(super) node: Option<Joined>,
    pub(super) power_ons: PowerOns,
    pub(super) rules: Arc<Rules>,
    kind: Option<Arc<InstanceType>>,
    pool: Option<Arc<NodePool>>,
    bmc: Option<Reading>,
}

impl Observed {
    /// The same, as the decision takes it.
    pub(super) fn facts(&self) -> plan::machine::Observed<'_> {
        plan::machine::Observed {
            now: self.now,
            machine: &self.machine,
            kind: self.kind.as_deref(),
            pool: self.pool.as_deref(),
            bmc: self.bmc.as_ref(),
            node: self.node.as_ref(),
            power_ons: self.power_ons,
            rules: &self.rules,
        }
    }
}

impl Machines {
    /// Nothing, if there is no such machine or no way to its BMC.
    pub(super) fn look(&self, now: Timestamp, key: &ObjectKey) -> Option<Observed> {
        self.bmcs.as_ref()?;
        let machine = self.machines.get(key)?;
        let (spec, status) = (&machine.spec, machine.status.as_ref());
        let assigned = spec.assignment.as_ref().map(|assigned| &assigned.pool);
        let pool = assigned.or_else(|| status?.pool.as_ref());
        let known = status.and_then(|status| status.node.as_ref()).map(|node| node.uid.as_str());
        let rack = self.racks.get(&ObjectKey::cluster(&spec.place.rack));
        let allowed = rack.map_or(POWER_ONS, |rack| rack.spec.power_ons);
        let mut memory = self.memory();
        Some(Observed {
            now,
            node: memory.node(&key.name, known),
            power_ons: memory.power_ons(&key.name, &spec.place.rack, allowed),
            bmc: memory.reading(&key.name),
            kind: self.kinds.get(&ObjectKey::cluster(&spec.instance_type)),
            pool: pool.and_then(|pool| self.pools.get(&ObjectKey::cluster(pool))),
            rules: Arc::clone(&self.rules),
            machine: Arc::clone(&machine),
        })
    }
}
