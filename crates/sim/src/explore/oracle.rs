//! What must never happen, checked where it would, and what must be so at the end.

use super::controller::{AnyDeed, Pass};
use super::metal::{Cure, plus};
use super::store::{MACHINES, is_open};
use super::verdict;
use super::world::World;
use api::machine::MachineStatus;
use api::request::{Effect, Power};
use api::state::State;
use plan::{breaker, node};
use std::time::Duration;

impl World {
    /// A node plan, against what its controller had seen: no work while a breaker is known to be open.
    pub(super) fn check_plan(&mut self, by: usize, index: usize, pass: &Pass) {
        let touches = |deed: &AnyDeed| matches!(deed, AnyDeed::Node(d) if matches!(d.act, node::Act::Ask(_) | node::Act::Evict { .. }));
        let forbidden = self.controllers.get(by).is_some_and(|controller| {
            let view = self.store.seen(&controller.seen);
            view.node(index).is_some_and(|node| node.hands_off.is_some())
        });
        if forbidden && pass.deeds.iter().any(touches) {
            let name = self.name(index).to_owned();
            self.wrong(format!("{name} is worked on although a person forbade it"));
        }
        let works = |deed: &AnyDeed| match deed {
            AnyDeed::Node(deed) => match &deed.act {
                node::Act::Ask(request) => !request.ask.leaves() && request.ask.disrupts(),
                _ => false,
            },
            _ => false,
        };
        if !pass.deeds.iter().any(works) {
            return;
        }
        let Some(controller) = self.controllers.get(by) else { return };
        let view = self.store.seen(&controller.seen);
        let name = self.name(index);
        let Some((_, incident)) =
            view.incidents().find(|(_, i)| i.spec.machine == name && is_open(i))
        else {
            return;
        };
        if incident.spec.cause.starts_with("phase") || incident.spec.cause.starts_with("pool/") {
            return;
        }
        let place =
            view.machine(index).map(|machine| machine.spec.place.clone()).unwrap_or_default();
        let sick = breaker::Sick {
            node: name.to_owned(),
            symptom: incident.spec.cause.clone(),
            since: self.now,
            leaf: place.leaf,
            pdu: place.pdu,
            rack: Some(place.rack),
            image: Some("image-1".to_owned()),
        };
        let breakers: Vec<api::Breaker> =
            view.breakers().map(|(_, b)| api::Breaker::clone(b)).collect();
        if breaker::holding(&breakers, &sick).is_some() {
            let what = format!("{name} is worked on while its breaker is known to be open");
            self.wrong(what);
        }
    }

    /// Work on a node needs a grant in the ledger.
    pub(super) fn check_work(&mut self, index: usize, what: &str) {
        let live = self.store.live();
        let Some(node) = live.node(index) else { return };
        let held = live
            .ledger()
            .and_then(|l| l.status.as_ref())
            .is_some_and(|status| status.grants.iter().any(|grant| grant.node_uid == node.uid));
        if !held {
            let name = node.name.clone();
            self.wrong(format!("{name}: {what} without a grant in the ledger"));
        }
    }

    pub(super) fn check_uncordon(&mut self, index: usize) {
        if self.persons.get(index).copied().unwrap_or_default() {
            let name = self.name(index).to_owned();
            self.wrong(format!("{name}: a person's cordon is undone"));
        }
    }

    /// A machine's status before it is written.
    pub(super) fn check_machine(&mut self, index: usize, new: &MachineStatus) {
        let live = self.store.live();
        let Some(machine) = live.machine(index) else { return };
        let Some(metal) = self.metal.get(index) else { return };
        let old = machine.state();
        let assigned = machine.spec.assignment.as_ref().map(|a| a.pool.as_str());
        let serves = machine.status.as_ref().and_then(|s| s.pool.as_deref());
        let left = old == State::Production && new.state != old;
        let cause = metal.flaw || metal.asked || metal.ill_boot || assigned != serves;
        let mixed = verdict::mixed(metal.data_of.as_deref(), new.tenant.as_deref());
        let name = self.name(index).to_owned();
        if left && !cause {
            self.wrong(format!("{name} leaves Production for {} without a cause", new.state));
        }
        if mixed {
            self.wrong(format!("{name} passes to another tenant without a wipe"));
        }
        if let Some(metal) = self.metal.get_mut(index)
            && new.tenant.is_some()
        {
            metal.data_of.clone_from(&new.tenant);
        }
    }

    /// A BMC that is about to be told.
    pub(super) fn check_power(&mut self, index: usize, power: Power, operation: &str) {
        let live = self.store.live();
        let there = live.machine(index).and_then(|m| m.status.as_ref()?.operation.as_ref());
        let recorded = there.is_some_and(|o| o.id == operation && o.effect == Effect::Power(power));
        let name = self.name(index).to_owned();
        if !recorded {
            self.wrong(format!("{name}: {power:?} is done and no object says so"));
        }
        let Some(metal) = self.metal.get(index) else { return };
        let reason = metal.flaw || metal.asked || metal.ill_boot;
        if self.state(index) == State::Production && !reason {
            self.wrong(format!("{name}: {power:?} is unwanted: nothing is wrong, nobody asked"));
        }
    }

    /// A reset that happens.
    pub(super) fn check_reset(&mut self, index: usize, operation: &str, request: Option<&str>) {
        let Some(metal) = self.metal.get(index) else { return };
        let twice = metal.done.iter().any(|done| done.operation == operation);
        let again = request.is_some()
            && metal.done.iter().any(|d| d.request.as_deref() == request && d.booted);
        let name = self.name(index).to_owned();
        if twice {
            self.wrong(format!("{name} is reset twice for {operation}"));
        } else if again {
            self.wrong(format!(
                "{name} is reset again for {} after it came up",
                request.unwrap_or_default()
            ));
        }
    }

    /// No scope of the ledger has more grants than its limit.
    pub(super) fn check_budgets(&mut self) {
        let Some(ledger) = self.store.live().ledger().cloned() else { return };
        let grants = ledger.status.as_ref().map(|s| s.grants.as_slice()).unwrap_or_default();
        if verdict::over_budget(&ledger.spec, grants) {
            self.wrong("more is out than the budgets allow".to_owned());
        }
    }

    /// Nothing is left to do at this instant: whatever was due has been looked at.
    pub(super) fn check_deadlines(&mut self) {
        // A plan that failed is made anew within seconds.
        let Some(calm) = self.calm else { return };
        if plus(calm, Duration::from_secs(60)) > self.now {
            return;
        }
        let now = self.now.checked_sub(Duration::from_secs(60)).unwrap_or(self.now);
        let live = self.store.live();
        let mut late = Vec::new();
        for index in 0..MACHINES {
            let Some(status) = live.machine(index).and_then(|m| m.status.as_ref()) else {
                continue;
            };
            let operation = status.operation.as_ref().map(|operation| operation.deadline);
            for deadline in [status.deadline, operation].into_iter().flatten() {
                if deadline < now {
                    late.push(format!("{} {}: {}", self.name(index), status.state, status.why));
                }
            }
        }
        for (_, incident) in live.incidents().filter(|(_, i)| is_open(i)) {
            let Some(status) = &incident.status else { continue };
            if status.deadline.is_some_and(|deadline| deadline < now) {
                late.push(format!("{} {:?}: {}", incident.spec.node, status.stage, status.why));
            }
        }
        for late in late {
            self.wrong(format!("a deadline passed unseen: {late}"));
        }
    }

    /// Faults have stopped and there was time: every machine and every incident has ended.
    pub(super) fn check_end(&mut self) {
        let live = self.store.live();
        let mut left = Vec::new();
        for index in 0..MACHINES {
            let Some(machine) = live.machine(index) else { continue };
            let Some(metal) = self.metal.get(index) else { continue };
            let name = self.name(index);
            let state = machine.state();
            if let Some(unended) = verdict::unended(machine) {
                left.push(unended);
                continue;
            }
            if verdict::unanswered(machine) {
                left.push(format!("{name}: a request is never answered"));
            }
            let node = live.node(index);
            if state != State::Production {
                if node.is_some() {
                    left.push(format!("{name} is in {state} and its node is there"));
                }
                continue;
            }
            let Some(node) = node else {
                left.push(format!("{name} serves and has no node"));
                continue;
            };
            let shown = metal.ills.iter().any(|ill| ill.cure != Cure::App && ill.since <= self.now);
            let app = |i: &super::metal::Ill| i.row == "xid/13";
            if shown && !metal.ills.iter().any(app) {
                left.push(format!("{name} serves with a fault that nobody works on"));
            }
            if node.unschedulable {
                left.push(format!("{name} is left cordoned for {:?}", node.cordoned_for));
            }
        }
        for (_, incident) in live.incidents().filter(|(_, i)| is_open(i)) {
            let status = incident.status.clone().unwrap_or_default();
            left.push(format!("{} is left {:?}: {}", incident.spec.node, status.stage, status.why));
        }
        let grants = live.ledger().and_then(|l| l.status.as_ref()).map_or(0, |s| s.grants.len());
        if grants > 0 {
            left.push(format!("{grants} grants are left behind"));
        }
        for left in left {
            self.wrong(left);
        }
    }

    /// Whatever is looked at again, nothing more is planned.
    pub(super) fn check_idle(&mut self) {
        for by in 0..2 {
            for index in 0..MACHINES {
                if let Some(controller) = self.controllers.get_mut(by) {
                    controller.queue = 1 << index;
                    controller.waves = false;
                }
                self.plan(by, index);
                let Some(controller) = self.controllers.get_mut(by) else { continue };
                if let Some(pass) = controller.pass.take() {
                    let deed = pass.deeds.front().map(|deed| format!("{deed:?}"));
                    let what = deed.unwrap_or_else(|| "a status".to_owned());
                    let what: String = what.chars().take(160).collect();
                    let name = self.name(index).to_owned();
                    self.wrong(format!("{name} is never at rest: {what}"));
                }
            }
        }
    }
}
