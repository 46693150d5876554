//! Faults of hardware, and what people and tenants do: everything that comes from outside.

use super::controller::{Controller, Role};
use super::metal::{Cure, Ill, Mode, plus};
use super::store::{MACHINES, Value, node_id};
use super::tale::{Disturbance, Fault};
use super::world::{World, say};
use api::condition::Phase;
use api::evidence::Evidence;
use api::machine::Assignment;
use api::request::{Ask, Chore, Outcome, Request};
use api::state::State;
use api::treatment::Treatment;
use plan::node::{PodSeen, Reported};
use std::time::Duration;

const ROWS: [&str; 3] = ["xid/95", "xid/79", "xid/119"];
const CHORES: [Chore; 6] = [
    Chore::Inventory,
    Chore::Sanitise,
    Chore::Firmware,
    Chore::TestQuick,
    Chore::Diagnose,
    Chore::ResetGpu,
];

impl World {
    /// A fault strikes a machine.
    pub(super) fn strike(&mut self, index: usize, fault: Fault) {
        let state = self.state(index);
        self.tale.coverage.fault(state, fault);
        self.tale.step(5, index, fault as usize);
        say!(self, "** {} is struck by {fault:?}", self.name(index));
        let row = self.draw.pick(&ROWS).unwrap_or(ROWS[0]);
        let (part, whole) = (self.draw.below(3), self.draw.once_in(3));
        let times = if whole { 255 } else { u8::try_from(part + 1).unwrap_or(1) };
        let minute = Duration::from_secs(60);
        match fault {
            Fault::App => self.ill(index, "xid/13", Cure::App, Some(minute), 0),
            Fault::GpuReset => self.ill(index, row, Cure::Reset, None, 0),
            Fault::Reboot => self.ill(index, row, Cure::Boot, None, 0),
            Fault::PowerCycle => self.ill(index, row, Cure::Cycle, None, 0),
            Fault::Parts => self.ill(index, row, Cure::Parts, None, 0),
            Fault::Transient => self.ill(index, row, Cure::Boot, Some(minute / 2), 0),
            Fault::Flapping => self.ill(index, row, Cure::Cycle, Some(minute), 3),
            Fault::Leaf | Fault::Pdu => {
                let row = if fault == Fault::Leaf { "ib/link-down" } else { "xid/79" };
                let domain = index / 4;
                for other in domain * 4..domain * 4 + 4 {
                    self.ill(other, row, Cure::Domain, None, 0);
                }
                self.domains.push((domain, plus(self.now, minute * 40)));
            }
            Fault::LateEvidence => self.late_evidence(index, row),
            Fault::NodeDeleted => {
                if self.store.live().node(index).is_some() {
                    self.store.put(node_id(index), Value::Gone);
                }
                self.flaw(index);
                self.hear(index);
            }
            Fault::Mute => {
                if let Some(mute) = self.mute.get_mut(index) {
                    *mute = Some(plus(self.now, minute * 10));
                }
                self.flaw(index);
                self.hear(index);
            }
            _ => self.hardware(index, fault, times),
        }
    }

    fn hardware(&mut self, index: usize, fault: Fault, times: u8) {
        let now = self.now;
        let chore = self.draw.pick(&CHORES).unwrap_or(Chore::TestQuick);
        self.flaw(index);
        let Some(metal) = self.metal.get_mut(index) else { return };
        match fault {
            Fault::BmcSilent => metal.bmc = Mode::Hangs(times),
            Fault::BmcError => metal.bmc = Mode::Fails(times),
            Fault::BmcIgnores => metal.bmc = Mode::Ignores(times),
            Fault::NoBoot => metal.boots = Mode::Fails(times),
            Fault::GpuMissing => metal.gpus = 7,
            Fault::ChoreFails => metal.chore = Some((chore, Mode::Fails(times))),
            Fault::ChoreHangs => metal.chore = Some((chore, Mode::Hangs(times))),
            Fault::NoJoin => metal.joins = times < 3,
            Fault::Panic if metal.on => {
                metal.reset(api::request::Power::ForceRestart, now);
            }
            _ => {}
        }
    }

    fn flaw(&mut self, index: usize) {
        if let Some(metal) = self.metal.get_mut(index) {
            metal.flaw = true;
        }
    }

    fn ill(
        &mut self,
        index: usize,
        row: &'static str,
        cure: Cure,
        lasts: Option<Duration>,
        flaps: u8,
    ) {
        let now = self.now;
        let Some(metal) = self.metal.get_mut(index) else { return };
        metal.ill_boot |= cure != Cure::App;
        metal.ills.retain(|ill| ill.row != row);
        let until = lasts.map(|lasts| plus(now, lasts));
        metal.ills.push(Ill { row, cure, since: now, until, flaps });
        self.hear(index);
    }

    /// A line of the log of an earlier boot is told again.
    fn late_evidence(&mut self, index: usize, row: &'static str) {
        let Some(row) = self.setting.catalogue.row(row) else { return };
        let evidence = Evidence {
            text: format!("{} was seen", row.id),
            boot: Some("b0".to_owned()),
            part: Some("GPU-3".to_owned()),
            count: None,
        };
        let reported = Reported {
            kind: row.condition.as_str().to_owned(),
            holds: true,
            reason: row.reason.clone(),
            message: evidence.to_string(),
            by: api::names::manager::MONITOR.to_owned(),
            since: self.now,
        };
        self.change_node(index, |node| {
            if node.conditions.iter().all(|c| c.kind != reported.kind) {
                node.conditions.push(reported);
            }
        });
    }

    /// A disturbance comes about.
    pub(super) fn disturb(&mut self, index: usize, what: Disturbance) {
        let stage = self.stage(index);
        self.tale.coverage.disturbance(stage, what);
        self.tale.step(6, index, what as usize);
        say!(self, "** {what:?} ({})", self.name(index));
        let role = if self.draw.once_in(2) { Role::Machine } else { Role::Node };
        let by = self.alive(role);
        match what {
            Disturbance::Crash => {
                if let Some(by) = by {
                    self.crash(by);
                }
            }
            Disturbance::Partition => {
                if let Some(controller) = by.and_then(|by| self.controllers.get_mut(by)) {
                    controller.cut = true;
                }
            }
            Disturbance::BmcPartition => {
                if let Some(controller) = by.and_then(|by| self.controllers.get_mut(by)) {
                    controller.bmc_cut = !controller.bmc_cut;
                }
            }
            Disturbance::TwoLeaders => {
                if self.controllers.len() < 4
                    && let Some(old) = by.and_then(|by| self.controllers.get(by)).cloned()
                {
                    // It knows what the first knows, and its deeds reach the BMC as the first's do,
                    // twice; only by a BMC that says when it was reset can the fence tell.
                    let about = old.pass.as_ref().and_then(|pass| pass.about);
                    let says = about.and_then(|index| self.metal.get(index));
                    let pass = old.pass.clone().filter(|_| says.is_none_or(|m| m.says_reset));
                    self.controllers.push(Controller { pass, ..old });
                }
            }
            Disturbance::Duplicate => {
                let id = self.draw.below(self.store.len());
                if let Some(by) = by {
                    self.enqueue(by, id);
                }
            }
            // These two are drawn where a write is made.
            Disturbance::LostReply | Disturbance::LostRequest => {}
            _ => self.person(index, what),
        }
    }

    fn person(&mut self, index: usize, what: Disturbance) {
        match what {
            Disturbance::Cordon => {
                if let Some(node) = self.store.live().node(index) {
                    let fresh = !node.unschedulable;
                    // On a node that is cordoned already, it is taking our mark off that says so.
                    self.change_node(index, |node| {
                        node.unschedulable = true;
                        node.cordoned_for = None;
                    });
                    say!(
                        self,
                        "   a person cordons (it was {})",
                        if fresh { "not" } else { "ours" }
                    );
                    if let Some(persons) = self.persons.get_mut(index) {
                        *persons = true;
                    }
                }
            }
            Disturbance::Uncordon => self.uncordon(index),
            Disturbance::HandsOff => self.change_node(index, |node| {
                node.hands_off = match node.hands_off {
                    Some(_) => None,
                    None => Some("a person works on it".to_owned()),
                };
            }),
            Disturbance::Phase => self.ask_phase(index),
            Disturbance::WithdrawPhase => self.change_node(index, |node| {
                node.conditions.retain(|c| !c.kind.ends_with("Phase"));
            }),
            Disturbance::Ask => self.ask(index),
            Disturbance::Certify => {
                let needed = self
                    .store
                    .live()
                    .machine(index)
                    .and_then(|m| m.status.as_ref())
                    .map(|s| s.onboardings);
                self.change_machine(index, true, |m| m.spec.certified = needed.unwrap_or(1));
            }
            Disturbance::Acknowledge => self.acknowledge(),
            Disturbance::Assign => self.assign(index),
            Disturbance::PodStarts => self.pod(index),
            Disturbance::PodEnds => self.change_pods(index, |pods| {
                pods.pop();
            }),
            _ => {}
        }
    }

    pub(super) fn uncordon(&mut self, index: usize) {
        self.change_node(index, |node| {
            node.unschedulable = false;
            node.cordoned_for = None;
        });
        if let Some(persons) = self.persons.get_mut(index) {
            *persons = false;
        }
    }

    fn ask_phase(&mut self, index: usize) {
        let phase = self.draw.pick(Phase::ALL).unwrap_or(Phase::Reboot);
        let now = self.draw.once_in(2);
        self.request_phase(index, phase, now);
    }

    /// A person asks for a phase.
    pub(super) fn request_phase(&mut self, index: usize, phase: Phase, at_once: bool) {
        let kind = if at_once { "ImmediatePhase" } else { "PendingPhase" };
        let reported = Reported {
            kind: kind.to_owned(),
            holds: true,
            reason: phase.name().to_owned(),
            message: "a person wants it".to_owned(),
            by: "ada".to_owned(),
            since: self.now,
        };
        if let Some(metal) = self.metal.get_mut(index) {
            metal.asked = true;
        }
        self.change_node(index, |node| {
            node.conditions.retain(|c| c.kind != kind);
            node.conditions.push(reported);
        });
    }

    fn ask(&mut self, index: usize) {
        let all =
            [Ask::Reboot, Ask::Triage, Ask::Onboard, Ask::Debug, Ask::Rma, Ask::Test, Ask::Zap];
        let ask = self.draw.pick(&all).unwrap_or(Ask::Test);
        self.request(index, ask);
    }

    /// A person asks the machine directly.
    pub(super) fn request(&mut self, index: usize, ask: Ask) {
        // One at a time: whoever overwrites a request takes its answer from whoever asked.
        let stands = self.store.live().machine(index).is_some_and(|machine| {
            let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
            machine.spec.request.as_ref().is_some_and(|request| {
                answer.is_none_or(|a| a.id != request.id || a.outcome == Outcome::Running)
            })
        });
        if stands {
            return;
        }
        let id = format!("ada-{}", self.serial());
        let at = self.now;
        if let Some(metal) = self.metal.get_mut(index) {
            metal.asked = true;
        }
        self.change_machine(index, true, |machine| {
            machine.spec.request = Some(Request {
                id,
                ask,
                target: None,
                by: "ada".to_owned(),
                why: "a person wants it".to_owned(),
                evidence: Vec::new(),
                incident: None,
                node_uid: None,
                boot: None,
                shown: None,
                at,
            });
        });
    }

    /// The operator acknowledges every breaker that is open.
    pub(super) fn acknowledge(&mut self) {
        let open: Vec<usize> =
            self.store.live().breakers().filter(|(_, b)| b.is_open()).map(|(id, _)| id).collect();
        for id in open {
            self.change_breaker(id, |breaker| {
                breaker.spec.acknowledged = breaker.status.as_ref().map_or(0, |s| s.openings);
                breaker.spec.by = Some("ada".to_owned());
            });
        }
    }

    fn assign(&mut self, index: usize) {
        let to = self.draw.below(3);
        let since = self.now;
        let pool = self.setting.pools.get(to).map(|pool| Assignment {
            pool: pool.metadata.name.clone().unwrap_or_default(),
            tenant: pool.spec.tenant.clone(),
            since,
        });
        self.change_machine(index, true, |machine| machine.spec.assignment = pool);
    }

    fn pod(&mut self, index: usize) {
        let treatment = self.draw.pick(&Treatment::ALL).unwrap_or_default();
        // Some tolerate a cordon, or are bound to the node by name.
        let tolerates = self.draw.once_in(2);
        let takes = self.store.live().node(index).is_some_and(|n| tolerates || !n.unschedulable)
            && self.state(index) == State::Production
            && self.store.live().pods(index).len() < 2;
        if !takes {
            return;
        }
        let uid = format!("p{}", self.serial());
        self.change_pods(index, |pods| {
            let name = if pods.is_empty() { "train-0" } else { "train-1" };
            pods.push(PodSeen {
                namespace: "acme".to_owned(),
                name: name.to_owned(),
                uid,
                treatment,
                holds: true,
                grace: Duration::from_secs(20),
                ending: None,
            });
        });
    }

    /// Faults stop, people come back, everything is reachable again.
    pub(super) fn calm(&mut self) {
        self.chaos = false;
        self.calm = Some(self.now);
        self.controllers.truncate(2);
        for by in 0..2 {
            let Some(controller) = self.controllers.get_mut(by) else { continue };
            controller.bmc_cut = false;
            controller.cut = false;
            if !controller.up {
                self.restart(by);
            }
        }
        for metal in &mut self.metal {
            for ill in &mut metal.ills {
                ill.flaps = 0;
            }
        }
        for index in 0..MACHINES {
            self.hear(index);
        }
    }
}
