//! Does what plans say, and what hardware does by itself.

use super::World;
use super::hardware::{Cure, Mode};
use api::evidence::Evidence;
use api::incident::IncidentStatus;
use api::machine::{Agent, MachineStatus};
use api::node_pool::NodePoolStatus;
use api::request::{Chore, Outcome, Report};
use api::state::State;
use api::{Breaker, Incident};
use plan::budget;
use plan::deed::Plan;
use plan::machine::{Heard, Reading};
use plan::node::{NodeSeen, Ready, Reported};
use plan::{breaker, machine, node, pool};
use std::collections::BTreeMap;

impl World {
    pub(super) fn apply_machine(
        &mut self,
        name: &str,
        plan: Plan<machine::Act, MachineStatus>,
    ) -> bool {
        let mut changed = false;
        if let Some(status) = plan.status {
            let old = self.machines[name].status.clone().unwrap_or_default();
            if old.state != status.state || old.since.is_none() {
                self.say(format!("{name} {}: {}", status.state, status.why));
            }
            if status.task.as_ref().map(|t| &t.id) != old.task.as_ref().map(|t| &t.id) {
                self.hardware.get_mut(name).unwrap().task = None;
                if let Some(task) = &status.task {
                    self.say(format!("{name} task {:?}", task.chore));
                    let now = self.now;
                    self.hardware.get_mut(name).unwrap().begin(&task.id, task.chore, now);
                }
            }
            self.machines.get_mut(name).unwrap().status = Some(status);
            changed = true;
        }
        for deed in plan.deeds {
            match deed.act {
                machine::Act::ReadBmc => changed |= self.read_bmc(name),
                machine::Act::Power { power, operation } => {
                    let now = self.now;
                    let hardware = self.hardware.get_mut(name).unwrap();
                    let fresh = deed.fence.last_reset.is_none_or(|l| l == hardware.last_reset());
                    assert!(fresh, "{name}: {operation} would be done twice");
                    let did = hardware.power(power, &operation, now);
                    if !hardware.on || hardware.booting.is_none() || did {
                        self.down(name);
                    }
                    self.say(format!(
                        "{name} BMC {power:?}{}",
                        if did { "" } else { " (ignored)" }
                    ));
                }
                machine::Act::DeleteNode { name: node } => {
                    self.say(format!("{node} node deleted"));
                    self.nodes.remove(&node);
                    self.pods.remove(&node);
                    changed = true;
                }
                machine::Act::Release => {
                    let metadata = &mut self.machines.get_mut(name).unwrap().metadata;
                    metadata.finalizers = None;
                    self.say(format!("{name} released"));
                }
            }
        }
        for event in plan.events.iter().filter(|e| !e.reason.starts_with("Entered")) {
            self.say(format!("{name} {}: {}", event.reason, event.note));
        }
        changed
    }

    fn read_bmc(&mut self, name: &str) -> bool {
        let hardware = &self.hardware[name];
        let heard = match hardware.bmc {
            Mode::Fails => Heard::Error("500 Internal Server Error".to_owned()),
            Mode::Hangs => Heard::Silence,
            _ => Heard::Answer { on: hardware.on, last_reset: Some(hardware.last_reset()) },
        };
        let reading = Reading { at: self.now, heard };
        self.readings.insert(name.to_owned(), reading.clone()) != Some(reading)
    }

    fn down(&mut self, name: &str) {
        let stale = self.hardware[name].stale;
        if let Some(node) = self.nodes.get_mut(name).filter(|_| !stale) {
            node.ready = Ready::Unknown;
        }
    }

    /// A node joins where its machine is in production and runs.
    pub(super) fn join(&mut self) -> bool {
        let mut changed = false;
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            let hardware = &self.hardware[&name];
            let Some(boot) = hardware.boot.filter(|_| hardware.joins) else { continue };
            let stale = hardware.stale && self.nodes.contains_key(&name);
            if stale || self.state(&name) != State::Production {
                continue;
            }
            let boot = format!("b{boot}");
            let ill = hardware.ill.clone();
            if !self.nodes.contains_key(&name) {
                let serial = self.serial();
                let uid = format!("node-{serial}");
                self.nodes.insert(
                    name.clone(),
                    NodeSeen { name: name.clone(), uid, ..NodeSeen::default() },
                );
            }
            let rows: Vec<(String, String, Reported)> = ill
                .iter()
                .map(|ill| {
                    let row = self.catalogue.row(&ill.row).unwrap();
                    let evidence = Evidence {
                        text: format!("{} was seen", ill.row),
                        boot: Some(boot.clone()),
                        part: ill.part.clone(),
                        count: None,
                    };
                    let reported = Reported {
                        kind: row.condition.as_str().to_owned(),
                        holds: true,
                        reason: row.reason.clone(),
                        message: evidence.to_string(),
                        by: "seatrial-agent".to_owned(),
                        since: ill.since,
                    };
                    (row.condition.as_str().to_owned(), row.reason.clone(), reported)
                })
                .collect();
            let node = self.nodes.get_mut(&name).unwrap();
            let before = node.clone();
            node.boot = Some(boot);
            node.ready = Ready::Yes;
            node.conditions
                .retain(|c| c.by != "seatrial-agent" || rows.iter().any(|(k, ..)| *k == c.kind));
            for (kind, _, reported) in rows {
                node.conditions.retain(|c| c.kind != kind);
                node.conditions.push(reported);
            }
            let kinds = |node: &NodeSeen| {
                let mut all = node.conditions.clone();
                all.sort_by(|a, b| a.kind.cmp(&b.kind));
                all
            };
            changed |= kinds(node) != kinds(&before)
                || node.boot != before.boot
                || node.ready != before.ready;
        }
        changed
    }

    /// What hardware does by itself up to now.
    pub(super) fn happen(&mut self) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            self.boot(&name);
            self.finish_task(&name);
        }
        let now = self.now;
        for pods in self.pods.values_mut() {
            pods.retain(|pod| {
                pod.ending.is_none_or(|at| {
                    at.checked_add(pod.grace.min(std::time::Duration::from_secs(30))).unwrap() > now
                })
            });
        }
    }

    fn boot(&mut self, name: &str) {
        let due = self.hardware[name].booting.is_some_and(|at| at <= self.now);
        if !due {
            return;
        }
        let serial = self.serial();
        let now = self.now;
        let hardware = self.hardware.get_mut(name).unwrap();
        hardware.booting = None;
        hardware.boot = Some(serial);
        let agent = Agent {
            boot: format!("b{serial}"),
            image: "image-1".to_owned(),
            kernel: None,
            since: now,
        };
        let machine = self.machines.get_mut(name).unwrap();
        machine.status.get_or_insert_default().agent = Some(agent);
    }

    fn finish_task(&mut self, name: &str) {
        let now = self.now;
        let hardware = self.hardware.get_mut(name).unwrap();
        let Some((id, chore, ends, mode)) = hardware.task.clone() else { return };
        if ends > now || mode == Mode::Hangs {
            return;
        }
        hardware.task = None;
        let Some(boot) = hardware.boot else { return };
        let well = mode == Mode::Well;
        if well && chore == Chore::Firmware {
            hardware.bios = "2.0".to_owned();
        }
        if well && chore == Chore::ResetGpu {
            hardware.ill.retain(|ill| ill.cure != Cure::Reset);
        }
        let sick =
            hardware.ill.iter().any(|ill| ill.cure != Cure::Reset || chore != Chore::ResetGpu);
        let finds = matches!(chore, Chore::TestQuick | Chore::Diagnose) && sick;
        let (inventory, bios) = (hardware.inventory.clone(), hardware.bios.clone());
        let report = Report {
            id,
            boot: format!("b{boot}"),
            outcome: if well && !finds { Outcome::Succeeded } else { Outcome::Failed },
            detail: if well && !finds {
                "all is well".to_owned()
            } else {
                format!("{chore:?} failed")
            },
            part: finds.then(|| "GPU-3".to_owned()),
            figures: BTreeMap::from([("allreduce_gbps".to_owned(), 470.0)]),
            at: now,
        };
        let status = self.machines.get_mut(name).unwrap().status.get_or_insert_default();
        status.report = Some(report);
        if chore == Chore::Inventory && well {
            status.inventory = Some(inventory);
            status.firmware = BTreeMap::from([("bios".to_owned(), bios)]);
        }
    }

    pub(super) fn apply_node(&mut self, name: &str, plan: Plan<node::Act, IncidentStatus>) -> bool {
        let mut changed = false;
        if let Some(status) = plan.status {
            let closed = |i: &Incident| i.status.as_ref().is_some_and(|s| s.closed.is_some());
            let mut said = None;
            let incident = self.incidents.iter_mut().find(|i| i.spec.machine == name && !closed(i));
            if let Some(incident) = incident {
                let stage = incident.status.as_ref().map(|s| s.stage);
                if stage != Some(status.stage) {
                    said = Some(format!("{name} incident {:?}: {}", status.stage, status.why));
                }
                incident.status = Some(status);
                changed = true;
            }
            said.into_iter().for_each(|line| self.say(line));
        }
        for deed in plan.deeds {
            changed |= self.apply_node_act(name, deed.act);
        }
        for event in plan.events {
            self.say(format!("{name} {}: {}", event.reason, event.note));
        }
        changed
    }

    fn apply_node_act(&mut self, name: &str, act: node::Act) -> bool {
        use node::Act;
        match act {
            Act::OpenIncident { name: incident, spec } => {
                if self.incidents.iter().any(|i| i.metadata.name.as_ref() == Some(&incident)) {
                    return false;
                }
                self.say(format!("{name} incident opened: {}", spec.cause));
                let mut object = Incident::new(&incident, spec);
                object.metadata.uid = Some(format!("uid-{}", self.serial()));
                self.incidents.push(object);
            }
            Act::Cordon { incident, reason } => {
                let node = self.nodes.get_mut(name).unwrap();
                if node.unschedulable {
                    return false;
                }
                node.unschedulable = true;
                node.cordoned_for = Some(incident);
                self.say(format!("{name} cordoned: {reason}"));
            }
            Act::Uncordon { incident } => {
                let Some(node) = self.nodes.get_mut(name) else { return false };
                assert_eq!(node.cordoned_for, Some(incident), "{name}: not our cordon");
                node.unschedulable = false;
                node.cordoned_for = None;
                self.say(format!("{name} uncordoned"));
            }
            Act::TakeGrant { grant } => {
                let census = self.census();
                if let Ok(status) = budget::grant(&self.ledger, &census, &grant, None) {
                    self.say(format!("{name} granted: {:?}", grant.kind));
                    self.ledger.status = Some(status);
                }
            }
            Act::ReturnGrant { node_uid, left_by } => {
                let left_by = left_by.as_deref();
                self.ledger.status = Some(budget::give_back(&self.ledger, &node_uid, left_by));
                self.say(format!("{name} grant returned"));
            }
            Act::Evict { name: pod, uid, now: at_once, .. } => {
                let now = self.now;
                if !at_once && pod.starts_with("guarded") {
                    let kept = format!("{name} pod {pod} kept by its budget");
                    if !self.log.iter().any(|line| line.ends_with(&kept)) {
                        self.say(kept);
                    }
                    return false;
                }
                self.say(format!("{name} pod {pod} {}", if at_once { "killed" } else { "ended" }));
                let pods = self.pods.get_mut(name).unwrap();
                if at_once {
                    pods.retain(|there| there.uid != uid);
                } else if let Some(there) = pods.iter_mut().find(|there| there.uid == uid) {
                    there.ending = Some(now);
                }
            }
            Act::Ask(request) => {
                self.say(format!("{name} asks {:?}", request.ask));
                let machine = self.machines.get_mut(name).unwrap();
                machine.spec.request = Some(*request);
                machine.metadata.generation = machine.metadata.generation.map(|g| g + 1);
            }
            Act::Withdraw { id } => {
                let machine = self.machines.get_mut(name).unwrap();
                if machine.spec.request.as_ref().is_some_and(|r| r.id == id) {
                    machine.spec.request = None;
                    self.say(format!("{name} withdraws its request"));
                }
            }
            Act::Report(reported) => {
                let node = self.nodes.get_mut(name).unwrap();
                if reported.kind == "InService" {
                    let line = format!(
                        "{name} InService={} {}: {}",
                        reported.holds, reported.reason, reported.message
                    );
                    node.conditions.retain(|c| c.kind != reported.kind);
                    node.conditions.push(reported);
                    self.say(line);
                } else {
                    node.conditions.retain(|c| c.kind != reported.kind);
                    node.conditions.push(reported);
                }
            }
            Act::ClearPhase { condition, why } => {
                let node = self.nodes.get_mut(name).unwrap();
                node.conditions.retain(|c| c.kind != condition);
                self.say(format!("{name} {condition} cleared: {why}"));
            }
            Act::Dress(clothes) => clothes.put_on(self.nodes.get_mut(name).unwrap()),
        }
        true
    }

    pub(super) fn apply_pool(
        &mut self,
        index: usize,
        plan: Plan<pool::Act, NodePoolStatus>,
    ) -> bool {
        let changed = !plan.is_idle();
        if let Some(status) = plan.status {
            let line = format!(
                "pool {}/{} prefill {} spares {}: {}",
                status.current, status.target, status.prefill, status.spares, status.why
            );
            self.say(line);
            self.pools[index].status = Some(status);
        }
        for deed in plan.deeds {
            let (name, assignment) = match deed.act {
                pool::Act::Assign { machine, assignment } => (machine, Some(assignment)),
                pool::Act::Release { machine } => (machine, None),
            };
            self.say(format!(
                "pool {} {name}: {}",
                if assignment.is_some() { "takes" } else { "releases" },
                deed.because.why
            ));
            let machine = self.machines.get_mut(&name).unwrap();
            machine.spec.assignment = assignment;
            machine.metadata.generation = machine.metadata.generation.map(|g| g + 1);
        }
        changed
    }

    pub(super) fn apply_breaker(&mut self, plan: Plan<breaker::Act, ()>) -> bool {
        let changed = !plan.deeds.is_empty();
        for deed in plan.deeds {
            match deed.act {
                breaker::Act::Create { name, spec } => {
                    self.breakers.push(Breaker::new(&name, spec))
                }
                breaker::Act::Write { name, status } => {
                    let there =
                        self.breakers.iter_mut().find(|b| b.metadata.name.as_ref() == Some(&name));
                    there.unwrap().status = Some(status);
                }
            }
        }
        for event in plan.events {
            self.say(format!("{}: {}", event.reason, event.note));
        }
        changed
    }
}
