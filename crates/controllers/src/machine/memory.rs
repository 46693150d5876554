//! What the controller remembers beside its caches: who stands where, who is being switched on, which
//! node runs on which machine, what each BMC last said. All of it follows from objects or is asked
//! for again, so a restart loses nothing that matters.

use std::collections::{BTreeMap, BTreeSet};

use api::Machine;
use api::machine::{Bmc, MachineStatus};
use api::names::MACHINE;
use api::request::{Effect, Power};
use k8s_openapi::api::core::v1::Node;
use kit::controller::Change;
use kube::ResourceExt;
use plan::machine::{Joined, PowerOns, Reading};

/// Names of machines, by the name of what they have in common.
type Index = BTreeMap<String, BTreeSet<String>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory {
    by_rack: Index,
    by_kind: Index,
    by_pool: Index,
    /// Machines that are being switched on, by rack: as written, or about to be written.
    switching: Index,
    /// Machines that were looked at while their rack had no room, by rack.
    waiting: Index,
    /// UIDs of nodes by their names, by machine.
    nodes: BTreeMap<String, BTreeMap<String, String>>,
    readings: BTreeMap<String, Reading>,
}

impl Memory {
    /// A machine has changed; says which others have room to be switched on now.
    pub(super) fn see_machine(&mut self, change: &Change<Machine>) -> Vec<String> {
        let name = &change.key.name;
        for (object, now) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let assigned = object.spec.assignment.as_ref();
            let serves = object.status.as_ref().and_then(|status| status.pool.as_ref());
            let pools = assigned.map(|assigned| &assigned.pool).into_iter().chain(serves);
            note(&mut self.by_rack, &object.spec.place.rack, name, now);
            note(&mut self.by_kind, &object.spec.instance_type, name, now);
            pools.for_each(|pool| note(&mut self.by_pool, pool, name, now));
        }
        if of_reading(change.old.as_deref()) != of_reading(change.new.as_deref()) {
            self.readings.remove(name);
        }
        self.settle(
            name,
            change.latest().map(|m| m.spec.place.rack.as_str()),
            change.new.as_deref(),
        )
    }

    /// Counts a machine as its object says, and no longer as it was about to be.
    fn settle(&mut self, name: &str, rack: Option<&str>, machine: Option<&Machine>) -> Vec<String> {
        let Some(rack) = rack else { return Vec::new() };
        let switches = machine.and_then(|m| m.status.as_ref()).is_some_and(switches_on);
        let before = self.switching.get(rack).is_some_and(|all| all.contains(name));
        note(&mut self.switching, rack, name, switches);
        if !before || switches {
            return Vec::new();
        }
        self.waiting.remove(rack).into_iter().flatten().collect()
    }

    /// A node has come, gone, or changed its machine.
    pub(super) fn see_node(&mut self, change: &Change<Node>) {
        let machine = |node: &Node| node.labels().get(MACHINE).cloned();
        if let Some(old) = change.old.as_deref().and_then(machine)
            && let Some(nodes) = self.nodes.get_mut(&old)
        {
            nodes.remove(&change.key.name);
            if nodes.is_empty() {
                self.nodes.remove(&old);
            }
        }
        if let Some(node) = change.new.as_deref()
            && let (Some(machine), Some(uid)) = (machine(node), node.uid())
        {
            self.nodes.entry(machine).or_default().insert(change.key.name.clone(), uid);
        }
    }

    /// The node that runs on a machine: the one it is known to have, else the first that says so.
    pub(super) fn node(&self, machine: &str, known: Option<&str>) -> Option<Joined> {
        let nodes = self.nodes.get(machine)?;
        let found = nodes.iter().find(|(_, uid)| Some(uid.as_str()) == known);
        let (name, uid) = found.or_else(|| nodes.first_key_value())?;
        Some(Joined { name: name.clone(), uid: uid.clone() })
    }

    /// How many others of a rack are being switched on. One who finds no room is told when there is.
    pub(super) fn power_ons(&mut self, machine: &str, rack: &str, allowed: u32) -> PowerOns {
        let under_way = self.others(machine, rack);
        if under_way >= allowed {
            note(&mut self.waiting, rack, machine, true);
        }
        PowerOns { under_way, allowed }
    }

    /// Takes a place among those that are switched on, if one is left: plans are made side by side.
    pub(super) fn claim(&mut self, machine: &str, rack: &str, allowed: u32) -> bool {
        let room = self.others(machine, rack) < allowed;
        if room {
            note(&mut self.switching, rack, machine, true);
        }
        room
    }

    /// Gives a place back that was taken for nothing; says who has room now.
    pub(super) fn unclaim(
        &mut self,
        machine: &str,
        is: Option<&Machine>,
        rack: &str,
    ) -> Vec<String> {
        self.settle(machine, Some(rack), is)
    }

    fn others(&self, machine: &str, rack: &str) -> u32 {
        let all = self.switching.get(rack).into_iter().flatten();
        u32::try_from(all.filter(|name| *name != machine).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn reading(&self, machine: &str) -> Option<Reading> {
        self.readings.get(machine).cloned()
    }

    pub(super) fn heard(&mut self, machine: &str, reading: Reading) {
        self.readings.insert(machine.to_owned(), reading);
    }

    /// What the BMC said is no longer so: it is told something.
    pub(super) fn forget(&mut self, machine: &str) {
        self.readings.remove(machine);
    }

    pub(super) fn of_rack(&self, rack: &str) -> Vec<String> {
        members(&self.by_rack, rack)
    }

    pub(super) fn of_kind(&self, kind: &str) -> Vec<String> {
        members(&self.by_kind, kind)
    }

    pub(super) fn of_pool(&self, pool: &str) -> Vec<String> {
        members(&self.by_pool, pool)
    }
}

/// Whether a machine is being switched on, as its status says.
pub(super) fn switches_on(status: &MachineStatus) -> bool {
    let effect = status.operation.as_ref().map(|operation| operation.effect);
    matches!(effect, Some(Effect::Power(power)) if power != Power::Off)
}

/// What an answer of a BMC holds for: another machine, BMC or boot, and it is asked anew. Without
/// that, a machine that boots fast would be reset by what was said before its last reset.
fn of_reading(machine: Option<&Machine>) -> Option<(&str, &Bmc, Option<&str>)> {
    let machine = machine?;
    let agent = machine.status.as_ref().and_then(|status| status.agent.as_ref());
    Some((machine.uid(), &machine.spec.bmc, agent.map(|agent| agent.boot.as_str())))
}

fn members(index: &Index, of: &str) -> Vec<String> {
    index.get(of).into_iter().flatten().cloned().collect()
}

fn note(index: &mut Index, of: &str, name: &str, there: bool) {
    if there {
        index.entry(of.to_owned()).or_default().insert(name.to_owned());
    } else if let Some(names) = index.get_mut(of) {
        names.remove(name);
        if names.is_empty() {
            index.remove(of);
        }
    }
}
