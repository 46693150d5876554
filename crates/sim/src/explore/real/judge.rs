//! What must never happen, looked at where it would, and what must be so at the end.
//!
//! The rules are those of the explorer over tables ([`super::super::verdict`]); here they read the
//! record of what was written through the API and of what the datacentre did.

use super::super::verdict;
use super::record::{CORDONER, PERSON, Seen, controller, stage};
use crate::datacentre::{Cure, Reset};
use api::incident::Stage;
use api::names::{CORDONED_FOR, HANDS_OFF};
use api::request::{Chore, Effect, Operation, Outcome, Request};
use api::state::State;
use api::{Breaker, Incident, Ledger, Machine};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use plan::breaker::{Sick, holding};
use std::time::Duration;

/// By then whoever lives has heard of everything: longer than any cut or delay of a schedule.
const HEARD: Duration = Duration::from_secs(15 * 60);
/// No answer is on its way for longer.
const ON_ITS_WAY: Duration = Duration::from_secs(30);

impl Seen {
    /// A machine's object was written.
    pub(super) fn machine(&mut self, user: &str, new: Machine) {
        let name = new.name().to_owned();
        let old = self.machines.insert(name.clone(), new.clone());
        let status = new.status.clone().unwrap_or_default();
        self.say(|| format!("   {name} {}: {}", status.state, status.why));
        let was = old.as_ref().map(Machine::state).unwrap_or_default();
        if user == controller("machine") && was == State::Production && status.state != was {
            let serves = old.as_ref().and_then(|o| o.status.as_ref()?.pool.as_deref());
            let assigned = new.spec.assignment.as_ref().map(|a| a.pool.as_str());
            if assigned == serves && !self.has_cause(&name) {
                self.wrong(format!(
                    "{name} leaves Production for {} without a cause",
                    status.state
                ));
            }
        }
        if user == controller("machine") {
            let data = &mut self.truth(&name).data_of;
            let mixed = verdict::mixed(data.as_deref(), status.tenant.as_deref());
            if status.tenant.is_some() {
                data.clone_from(&status.tenant);
            }
            if mixed {
                self.wrong(format!("{name} passes to another tenant without a wipe"));
            }
        }
        let wiped =
            status.task.as_ref().zip(status.report.as_ref()).is_some_and(|(task, report)| {
                let ours = task.id == report.id && report.outcome == Outcome::Succeeded;
                ours && task.chore == Chore::Sanitise
            });
        if wiped {
            self.truth(&name).data_of = None;
        }
        if let Some(was) = old.as_ref().and_then(switching)
            && switching(&new).is_none_or(|is| is.id != was.id)
        {
            self.truth(&name).ended = Some((was.clone(), self.clock.now()));
        }
        let before = old.as_ref().and_then(|old| old.spec.request.as_ref());
        let asked = new.spec.request.as_ref();
        if let Some(asked) = asked.filter(|asked| before.is_none_or(|old| old.id != asked.id)) {
            self.asked(user, &name, asked);
        }
    }

    /// Something new is asked of a machine.
    fn asked(&mut self, user: &str, machine: &str, request: &Request) {
        if user == PERSON {
            self.truth(machine).asked = true;
        }
        if user != controller("node") {
            return;
        }
        self.say(|| format!("   {machine} is asked {:?} as {}", request.ask, request.id));
        self.needs_grant(machine, "asks");
        let now = self.clock.now();
        let forbidden = self.truth(machine).hands_off.is_some_and(|since| since + HEARD < now);
        if forbidden && request.by != PERSON {
            self.wrong(format!("{machine} is worked on although a person forbade it"));
        }
        if request.ask.disrupts() && !request.ask.leaves() && self.held(machine) {
            self.wrong(format!("{machine} is worked on while its breaker is known to be open"));
        }
    }

    /// Whether an open breaker that everybody has heard of holds this machine's node.
    fn held(&self, machine: &str) -> bool {
        let Some(incident) = self.open_incident(machine) else { return false };
        if incident.spec.cause.starts_with("phase") || incident.spec.cause.starts_with("pool/") {
            return false;
        }
        let Some(place) = self.machines.get(machine).map(|m| m.spec.place.clone()) else {
            return false;
        };
        let now = self.clock.now();
        let sick = Sick {
            node: incident.spec.node.clone(),
            symptom: incident.spec.cause.clone(),
            since: now,
            leaf: place.leaf,
            pdu: place.pdu,
            rack: Some(place.rack),
            image: None,
        };
        let known = |breaker: &&Breaker| {
            let since = breaker.status.as_ref().and_then(|status| status.since);
            breaker.is_open() && since.is_some_and(|since| since + HEARD < now)
        };
        let known: Vec<Breaker> = self.breakers.values().filter(known).cloned().collect();
        holding(&known, &sick).is_some()
    }

    /// Work on a node needs a grant in the ledger.
    pub(super) fn needs_grant(&mut self, node: &str, what: &str) {
        let status = self.ledger.as_ref().and_then(|ledger| ledger.status.as_ref());
        let held = status.is_some_and(|s| s.grants.iter().any(|grant| grant.node == node));
        if !held {
            self.wrong(format!("{node}: {what} without a grant in the ledger"));
        }
    }

    /// The ledger was written.
    pub(super) fn ledger(&mut self, new: Ledger) {
        let grants = new.status.as_ref().map(|s| s.grants.clone()).unwrap_or_default();
        self.say(|| {
            let names: Vec<&str> = grants.iter().map(|grant| grant.node.as_str()).collect();
            format!("   grants: {}", names.join(" "))
        });
        if verdict::over_budget(&new.spec, &grants) {
            self.wrong("more is out than the budgets allow".to_owned());
        }
        self.ledger = Some(new);
    }

    /// A node was written.
    pub(super) fn node(&mut self, user: &str, new: Node) {
        let name = new.name_any();
        let (now, cordoned) = (self.clock.now(), is_cordoned(&new));
        let forbidden = new.annotations().contains_key(HANDS_OFF);
        let truth = self.truth(&name);
        let undone = truth.cordoned && !cordoned && user != CORDONER;
        truth.cordoned = cordoned && (truth.cordoned || user == CORDONER);
        truth.hands_off = forbidden.then(|| truth.hands_off.unwrap_or(now));
        if undone {
            self.wrong(format!("{name}: a person's cordon is undone"));
        }
        let for_what = new.annotations().get(CORDONED_FOR).cloned();
        self.say(|| format!("   node {name} cordoned {cordoned} for {for_what:?}"));
        self.nodes.insert(name, new);
    }

    /// A node is gone; what a person said of it is gone with it.
    pub(super) fn node_deleted(&mut self, user: &str, name: &str) {
        let told = self.told.contains_key(&(name.to_owned(), "NodeDeleted".to_owned()));
        if user == controller("machine") && !told {
            self.wrong(format!("node {name} is deleted and no Event says so"));
        }
        self.nodes.remove(name);
        let truth = self.truth(name);
        (truth.cordoned, truth.hands_off) = (false, None);
    }

    /// A command to a BMC sets out.
    pub(super) fn sends(&self, name: &str) -> Sent {
        let operation = self.machines.get(name).and_then(switching).cloned().or_else(|| {
            // Another leader may have ended it while this one's last look was on its way.
            let (operation, at) = self.truth.get(name)?.ended.as_ref()?;
            (*at + ON_ITS_WAY > self.clock.now()).then(|| operation.clone())
        });
        Sent { operation, caused: self.has_cause(name) }
    }

    /// A BMC is about to be told; says for which operation.
    pub(super) fn commanded(&mut self, name: &str, sent: Sent) -> Option<String> {
        self.look(name);
        self.step(true, &["bmc", name]);
        self.say(|| format!("   the BMC of {name} is told"));
        let Some(operation) = sent.operation else {
            self.wrong(format!("{name}: its BMC is told and no object says so"));
            return None;
        };
        let told = self.told.get(&(name.to_owned(), "Power".to_owned()));
        if told.is_none_or(|at| *at < operation.since) {
            self.wrong(format!("{name}: its BMC is told and no Event says so"));
        }
        if self.audited.get(&operation.id).is_none_or(|at| *at < operation.since) {
            self.wrong(format!("{name}: its BMC is told and the audit log does not say so"));
        }
        let caused = sent.caused || self.has_cause(name);
        if self.state(name) == State::Production && !caused {
            let effect = operation.effect;
            self.wrong(format!("{name}: {effect:?} is unwanted: nothing is wrong, nobody asked"));
        }
        self.truth(name).requests.insert(operation.id.clone(), operation.request.clone());
        Some(operation.id)
    }

    /// Looks at the resets that have happened since.
    pub(super) fn look(&mut self, name: &str) {
        let Some(hardware) = self.hardware(name) else { return };
        let (resets, log) = (hardware.resets(), hardware.reset_log());
        let new = resets.saturating_sub(self.truth(name).resets);
        self.truth(name).resets = resets;
        let new = usize::try_from(new).unwrap_or(usize::MAX);
        for reset in log.iter().skip(log.len().saturating_sub(new)) {
            self.reset(name, reset);
        }
    }

    fn reset(&mut self, name: &str, reset: &Reset) {
        self.say(|| format!("   {name} is reset: {reset:?}"));
        let asked = self.truth(name).asked;
        let truth = self.truth(name);
        let Some(operation) = reset.operation.clone() else {
            let own = truth.own_resets.checked_sub(1);
            truth.own_resets = own.unwrap_or(0);
            if own.is_none() {
                self.wrong(format!("{name} is reset and no object says why"));
            }
            return;
        };
        let twice = truth.done.iter().any(|(done, r)| *done == operation && r.power == reset.power);
        let request = truth.requests.get(&operation).cloned().flatten();
        // It came up in between if another boot ran by then than the one that was ended before.
        let again = request.is_some()
            && truth.done.iter().any(|(done, before)| {
                let same = truth.requests.get(done).cloned().flatten() == request;
                same && *done != operation && reset.ended.is_some() && reset.ended != before.ended
            });
        truth.done.push((operation.clone(), reset.clone()));
        let flaw = truth.flaw;
        if twice && !flaw {
            self.wrong(format!("{name} is reset twice for {operation}"));
        } else if again && !flaw {
            let request = request.unwrap_or_default();
            self.wrong(format!("{name} is reset again for {request} after it came up"));
        } else if reset.cut_off && !flaw && !asked {
            self.wrong(format!("{name} is reset while it boots"));
        }
    }

    /// Looks at the resets of all machines.
    pub(super) fn look_at_all(&mut self) {
        for name in self.names() {
            self.look(&name);
        }
    }

    /// Faults have stopped and there was time: every machine and every incident has ended.
    pub(super) fn end(&mut self) {
        let mut left = Vec::new();
        for name in self.names() {
            self.end_of(&name, &mut left);
        }
        for incident in self.incidents.values().filter(|i| stage(i) != Stage::Closed) {
            left.push(unclosed(incident));
        }
        let status = self.ledger.as_ref().and_then(|ledger| ledger.status.as_ref());
        let grants = status.map_or(0, |status| status.grants.len());
        if grants > 0 {
            left.push(format!("{grants} grants are left behind"));
        }
        left.into_iter().for_each(|left| self.wrong(left));
    }

    fn end_of(&self, name: &str, left: &mut Vec<String>) {
        let Some(machine) = self.machines.get(name) else { return };
        left.extend(verdict::unended(machine));
        if verdict::unanswered(machine) {
            left.push(format!("{name}: a request is never answered"));
        }
        let (node, state) = (self.nodes.get(name), machine.state());
        match node {
            Some(_) if state != State::Production => {
                left.push(format!("{name} is in {state} and its node is there"));
            }
            None if state == State::Production => {
                left.push(format!("{name} serves and has no node"));
            }
            _ => {}
        }
        let (Some(node), Some(hardware)) = (node, self.hardware(name)) else { return };
        if state == State::Production {
            let faults = hardware.faults();
            let worst = faults.iter().find(|(_, fault)| fault.cure != Cure::App && !fault.latent);
            if let Some((_, fault)) = worst {
                left.push(format!("{name} serves with {} that nobody works on", fault.word));
            }
        }
        if is_cordoned(node) {
            let reason = node.annotations().get(CORDONED_FOR);
            left.push(format!("{name} is left cordoned for {reason:?}"));
        }
    }
}

/// The power operation that a machine's object names.
fn switching(machine: &Machine) -> Option<&Operation> {
    let operation = machine.status.as_ref()?.operation.as_ref()?;
    matches!(operation.effect, Effect::Power(_)).then_some(operation)
}

/// What stood when a command to a BMC set out: nobody can call it back on its way, which may be long.
pub(super) struct Sent {
    operation: Option<Operation>,
    caused: bool,
}

pub(super) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn unclosed(incident: &Incident) -> String {
    let status = incident.status.clone().unwrap_or_default();
    format!("{} is left {:?}: {}", incident.spec.node, status.stage, status.why)
}
