//! The world: objects, hidden truth, controllers, and the time. What hardware, agents and kubelets do
//! by themselves happens when it is due; everything else is a step that a schedule chooses.

use super::bug::Bug;
use super::controller::{Controller, Role};
use super::draw::Draw;
use super::metal::{Cure, Metal, Mode, Work, plus};
use super::store::{Kind, MACHINES, Store, Value, is_open, node_id, pods_id};
use super::tale::{Coverage, Tale};
use api::evidence::Evidence;
use api::incident::Stage;
use api::inventory::Inventory;
use api::machine::Agent;
use api::names::manager;
use api::request::{Chore, Outcome, Report};
use api::state::State;
use api::{Breaker, Incident, InstanceType, Ledger, Machine, NodePool};
use jiff::Timestamp;
use plan::catalogue::Catalogue;
use plan::node::{NodeSeen, PodSeen, Ready, Reported};
use plan::rules::Rules;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The condition of a node of which nothing is heard.
const SILENT: &str = "NodeSilent";

/// What never changes.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) rules: Rules,
    pub(super) kind: InstanceType,
    pub(super) pools: Vec<NodePool>,
    pub(super) sizes: BTreeMap<(api::breaker::Common, String), usize>,
    pub(super) names: Vec<String>,
}

/// Everything there is.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) start: Timestamp,
    pub(super) store: Store,
    pub(super) metal: Vec<Metal>,
    pub(super) controllers: Vec<Controller>,
    /// Whose cordon is a person's, in truth.
    pub(super) persons: [bool; MACHINES],
    pub(super) mute: [Option<Timestamp>; MACHINES],
    /// When a leaf or power distribution unit that stumbled is repaired.
    pub(super) domains: Vec<(usize, Timestamp)>,
    pub(super) setting: Rc<Setting>,
    pub(super) tale: Tale,
    pub(super) draw: Draw,
    pub(super) bug: Option<Bug>,
    /// Whether replies may be lost and BMCs late.
    pub(super) chaos: bool,
    /// Since when nothing disturbs any more.
    pub(super) calm: Option<Timestamp>,
    pub(super) serial: u64,
}

/// Adds a line for whoever reads the schedule; costs nothing when nobody does.
macro_rules! say {
    ($world:expr, $($format:tt)*) => {
        if $world.tale.lines.is_some() {
            let line = format!($($format)*);
            $world.line(&line);
        }
    };
}
pub(super) use say;

impl World {
    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn line(&mut self, line: &str) {
        let seconds = self.now.duration_since(self.start).as_secs();
        if let Some(lines) = &mut self.tale.lines {
            lines.push(format!("{seconds:>7}s {line}"));
        }
    }

    pub(super) fn wrong(&mut self, what: String) {
        say!(self, "!! {what}");
        if self.tale.wrong.len() < 8 {
            self.tale.wrong.push(what);
        }
    }

    pub(super) fn name(&self, index: usize) -> &str {
        self.setting.names.get(index).map_or("", String::as_str)
    }

    pub(super) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(super) fn state(&self, index: usize) -> State {
        self.store.live().machine(index).map(|m| m.state()).unwrap_or_default()
    }

    /// The stage of the open incident on a machine's node.
    pub(super) fn stage(&self, index: usize) -> Option<Stage> {
        self.open_incident(index).map(|i| i.status.as_ref().map(|s| s.stage).unwrap_or_default())
    }

    pub(super) fn open_incident(&self, index: usize) -> Option<&Rc<Incident>> {
        let name = self.name(index);
        self.store.live().incidents().map(|(_, i)| i).find(|i| i.spec.machine == name && is_open(i))
    }

    /// Changes a machine; `spec` says whether its description is touched.
    pub(super) fn change_machine(
        &mut self,
        index: usize,
        spec: bool,
        change: impl FnOnce(&mut Machine),
    ) {
        let Some(machine) = self.store.live().machine(index) else { return };
        let mut machine = Machine::clone(machine);
        change(&mut machine);
        if spec {
            machine.metadata.generation = machine.metadata.generation.map(|g| g + 1);
        }
        self.store.put(index, Value::Machine(Rc::new(machine)));
        self.hear(index);
    }

    /// Agent and kubelet notice soon.
    pub(super) fn hear(&mut self, index: usize) {
        let soon = plus(self.now, Duration::from_secs(1));
        if let Some(metal) = self.metal.get_mut(index) {
            metal.speaks = Some(metal.speaks.map_or(soon, |at| at.min(soon)));
        }
    }

    /// Changes a node, if it is there.
    pub(super) fn change_node(&mut self, index: usize, change: impl FnOnce(&mut NodeSeen)) {
        let Some(node) = self.store.live().node(index) else { return };
        let mut node = NodeSeen::clone(node);
        change(&mut node);
        self.store.put(node_id(index), Value::Node(Rc::new(node)));
    }

    /// Changes the pods on a node.
    pub(super) fn change_pods(&mut self, index: usize, change: impl FnOnce(&mut Vec<PodSeen>)) {
        let mut pods = self.store.live().pods(index).to_vec();
        change(&mut pods);
        self.store.put(pods_id(index), Value::Pods(Rc::new(pods)));
    }

    /// Changes an incident by its id.
    pub(super) fn change_incident(&mut self, id: usize, change: impl FnOnce(&mut Incident)) {
        let found = self.store.live().incidents().find(|(there, _)| *there == id);
        let Some((_, incident)) = found else { return };
        let mut incident = Incident::clone(incident);
        change(&mut incident);
        self.store.put(id, Value::Incident(Rc::new(incident)));
    }

    /// Changes a breaker by its id.
    pub(super) fn change_breaker(&mut self, id: usize, change: impl FnOnce(&mut Breaker)) {
        let found = self.store.live().breakers().find(|(there, _)| *there == id);
        let Some((_, breaker)) = found else { return };
        let mut breaker = Breaker::clone(breaker);
        change(&mut breaker);
        self.store.put(id, Value::Breaker(Rc::new(breaker)));
    }

    /// Writes the ledger.
    pub(super) fn put_ledger(&mut self, ledger: Ledger) {
        self.store.put(super::store::LEDGER, Value::Ledger(Rc::new(ledger)));
    }

    /// When anything happens by itself: hardware, pods, domains, timers of controllers.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let metal = self.metal.iter().filter_map(Metal::next);
        let live = self.store.live();
        let pods = (0..MACHINES).flat_map(|index| live.pods(index)).filter_map(|pod| {
            pod.ending.map(|at| plus(at, pod.grace.min(Duration::from_secs(30))))
        });
        let domains = self.domains.iter().map(|(_, at)| *at);
        let timers =
            self.controllers.iter().filter(|c| c.up).flat_map(|c| c.wakes.iter().flatten());
        metal.chain(pods).chain(domains).chain(timers.copied()).min()
    }

    /// Goes on to `at` and lets happen what is due.
    pub(super) fn pass_time(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
        for index in 0..MACHINES {
            self.happen(index);
        }
        let now = self.now;
        for (domain, _) in self.domains.iter().filter(|(_, at)| *at <= now) {
            let of = domain % 2;
            for metal in self.metal.iter_mut().skip(of * 4).take(4) {
                metal.ills.retain(|ill| ill.cure != Cure::Domain);
                metal.speaks = Some(now);
            }
        }
        self.domains.retain(|(_, at)| *at > now);
        for controller in &mut self.controllers {
            controller.ring(now);
        }
    }

    fn happen(&mut self, index: usize) {
        let now = self.now;
        let due = self.metal.get(index).and_then(Metal::next).is_some_and(|at| at <= now);
        if due {
            if let Some(accepted) = self.metal.get_mut(index).and_then(|metal| {
                let due = metal.accepted.as_ref().is_some_and(|a| a.at <= now);
                if due { metal.accepted.take() } else { None }
            }) {
                self.reset(index, accepted.power, &accepted.operation);
            }
            if self.metal.get(index).is_some_and(|m| m.boots_at.is_some_and(|at| at <= now)) {
                let boot = self.serial();
                if let Some(metal) = self.metal.get_mut(index) {
                    metal.up(boot, now);
                }
                say!(self, "   {} boots as b{boot}", self.name(index));
            }
            self.ills_end(index);
            let speaks = self.metal.get(index).is_some_and(|metal| {
                let work = metal.work.as_ref().and_then(|work| work.ends);
                [metal.speaks, work].into_iter().flatten().any(|at| at <= now)
            });
            if speaks {
                self.speak(index);
            }
        }
        let grace = |pod: &PodSeen| {
            pod.ending.is_some_and(|at| plus(at, pod.grace.min(Duration::from_secs(30))) <= now)
        };
        if self.store.live().pods(index).iter().any(grace) {
            self.change_pods(index, |pods| pods.retain(|pod| !grace(pod)));
        }
    }

    fn ills_end(&mut self, index: usize) {
        let now = self.now;
        let Some(metal) = self.metal.get_mut(index) else { return };
        let mut ended = false;
        for ill in &mut metal.ills {
            let Some(until) = ill.until.filter(|until| *until <= now) else { continue };
            ended = true;
            if ill.since > now || ill.flaps == 0 {
                continue;
            }
            // It comes back later: until then it is not there.
            ill.flaps -= 1;
            ill.since = plus(until, Duration::from_secs(120));
            ill.until = Some(plus(until, Duration::from_secs(180)));
        }
        metal.ills.retain(|ill| ill.until.is_none_or(|until| until > now));
        if ended {
            metal.speaks = Some(now);
        }
    }

    /// What agent, kubelet and lease monitor say now.
    fn speak(&mut self, index: usize) {
        let now = self.now;
        if let Some(until) = self.mute.get(index).copied().flatten() {
            if until > now {
                if let Some(metal) = self.metal.get_mut(index) {
                    metal.speaks = Some(until);
                    if let Some(ends) = metal.work.as_mut().and_then(|work| work.ends.as_mut()) {
                        *ends = until.max(*ends);
                    }
                }
                return self.silent(index);
            }
            if let Some(mute) = self.mute.get_mut(index) {
                *mute = None;
            }
        }
        let Some(metal) = self.metal.get_mut(index) else { return };
        metal.speaks = None;
        let Some(boot) = metal.boot else { return self.silent(index) };
        let boot = format!("b{boot}");
        self.agent(index, &boot);
        self.kubelet(index, &boot);
    }

    /// The lease monitor finds that nothing is heard.
    fn silent(&mut self, index: usize) {
        let heard = self.store.live().node(index).filter(|node| node.ready == Ready::Yes);
        let Some(row) = self.setting.catalogue.row("node/heartbeat-lost") else { return };
        let Some(node) = heard else { return };
        let evidence = Evidence {
            text: "the Lease was not renewed".to_owned(),
            boot: node.boot.clone(),
            part: None,
            count: None,
        };
        let reported = Reported {
            kind: row.condition.as_str().to_owned(),
            holds: true,
            reason: row.reason.clone(),
            message: evidence.to_string(),
            by: manager::MONITOR.to_owned(),
            since: self.now,
        };
        self.change_node(index, |node| {
            node.ready = Ready::Unknown;
            node.conditions.retain(|c| c.kind != SILENT);
            node.conditions.push(reported);
        });
    }

    fn agent(&mut self, index: usize, boot: &str) {
        let now = self.now;
        let Some(machine) = self.store.live().machine(index).cloned() else { return };
        let status = machine.status.as_ref();
        if status.and_then(|s| s.agent.as_ref()).is_none_or(|agent| agent.boot != boot) {
            let agent = Agent {
                boot: boot.to_owned(),
                image: "image-1".to_owned(),
                kernel: None,
                since: now,
            };
            self.change_machine(index, false, |machine| {
                machine.status.get_or_insert_default().agent = Some(agent);
            });
        }
        let task = status.and_then(|s| s.task.clone()).filter(|task| task.boot == boot);
        let reported = status.and_then(|s| s.report.as_ref()).map(|report| report.id.clone());
        let Some(metal) = self.metal.get_mut(index) else { return };
        match (&task, &metal.work) {
            (None, _) => metal.work = None,
            (Some(task), Some(work)) if task.id == work.id => {}
            (Some(task), _) if reported.as_ref() == Some(&task.id) => metal.work = None,
            (Some(task), _) => {
                let mode = match &mut metal.chore {
                    Some((chore, mode)) if *chore == task.chore => mode.take(),
                    _ => Mode::Well,
                };
                let ends = plus(now, Metal::takes(task.chore));
                metal.work = Some(Work {
                    id: task.id.clone(),
                    chore: task.chore,
                    ends: (!matches!(mode, Mode::Hangs(_))).then_some(ends),
                    fails: !matches!(mode, Mode::Well | Mode::Hangs(_)),
                });
            }
        }
        let ended = |work: &mut Work| work.ends.is_some_and(|at| at <= now);
        if let Some(work) = metal.work.take_if(ended) {
            self.report(index, boot, &work);
        }
    }

    /// The agent has ended its work.
    fn report(&mut self, index: usize, boot: &str, work: &Work) {
        let now = self.now;
        let Some(metal) = self.metal.get_mut(index) else { return };
        if !work.fails {
            match work.chore {
                Chore::Firmware => metal.flashed = true,
                Chore::Sanitise => metal.data_of = None,
                Chore::ResetGpu => {
                    metal.ills.retain(|ill| !matches!(ill.cure, Cure::Reset | Cure::App))
                }
                _ => {}
            }
        }
        let sick = metal.ills.iter().any(|ill| ill.cure != Cure::App && ill.since <= now);
        let finds = sick && plan::verify::is_test(work.chore);
        let well = !work.fails && !finds;
        let (gpus, flashed) = (metal.gpus, metal.flashed);
        let report = Report {
            id: work.id.clone(),
            boot: boot.to_owned(),
            outcome: if well { Outcome::Succeeded } else { Outcome::Failed },
            detail: if well { "all is well" } else { "it failed" }.to_owned(),
            part: finds.then(|| "GPU-3".to_owned()),
            figures: BTreeMap::from([("allreduce_gbps".to_owned(), 470.0)]),
            at: now,
        };
        say!(self, "   {} agent ends {:?}: {:?}", self.name(index), work.chore, report.outcome);
        let expected = self.setting.kind.spec.expected.clone();
        let inventory = work.chore == Chore::Inventory && well;
        self.change_machine(index, false, |machine| {
            let status = machine.status.get_or_insert_default();
            status.report = Some(report);
            if inventory {
                status.inventory = Some(Inventory { gpus, ..expected });
                let bios = if flashed { "2.0" } else { "1.0" };
                status.firmware = BTreeMap::from([("bios".to_owned(), bios.to_owned())]);
            }
        });
    }

    /// The kubelet joins and is ready; detectors say what they see.
    fn kubelet(&mut self, index: usize, boot: &str) {
        let now = self.now;
        if self.state(index) != State::Production {
            return;
        }
        let Some(metal) = self.metal.get(index) else { return };
        let catalogue = &self.setting.catalogue;
        let later = metal.ills.iter().map(|ill| ill.since).filter(|since| *since > now).min();
        let shown: Vec<Reported> = metal
            .ills
            .iter()
            .filter(|ill| ill.since <= now)
            .filter_map(|ill| {
                let row = catalogue.row(ill.row)?;
                let evidence = Evidence {
                    text: format!("{} was seen", ill.row),
                    boot: Some(boot.to_owned()),
                    part: Some("GPU-3".to_owned()),
                    count: None,
                };
                Some(Reported {
                    kind: row.condition.as_str().to_owned(),
                    holds: true,
                    reason: row.reason.clone(),
                    message: evidence.to_string(),
                    by: manager::AGENT.to_owned(),
                    since: ill.since,
                })
            })
            .collect();
        let joins = metal.joins;
        if let Some(at) = later
            && let Some(metal) = self.metal.get_mut(index)
        {
            metal.speaks = Some(at);
        }
        let Some(node) = self.store.live().node(index) else {
            if joins {
                self.join(index, boot, shown);
            }
            return;
        };
        let told = node.conditions.iter().filter(|c| c.by == manager::AGENT);
        let same = node.boot.as_deref() == Some(boot)
            && node.ready == Ready::Yes
            && told.clone().count() == shown.len()
            && told.clone().all(|c| shown.contains(c));
        if same {
            return;
        }
        let boot = boot.to_owned();
        self.change_node(index, |node| {
            node.boot = Some(boot);
            node.ready = Ready::Yes;
            node.conditions.retain(|c| {
                c.by != manager::AGENT
                    && c.kind != SILENT
                    && shown.iter().all(|shown| shown.kind != c.kind)
            });
            node.conditions.extend(shown);
        });
    }

    fn join(&mut self, index: usize, boot: &str, conditions: Vec<Reported>) {
        let uid = format!("n{}", self.serial());
        let node = NodeSeen {
            name: self.name(index).to_owned(),
            uid,
            boot: Some(boot.to_owned()),
            ready: Ready::Yes,
            conditions,
            ..NodeSeen::default()
        };
        say!(self, "   {} joins as {}", node.name, node.uid);
        self.store.put(node_id(index), Value::Node(Rc::new(node)));
        if let Some(persons) = self.persons.get_mut(index) {
            *persons = false;
        }
    }

    /// Starts the counts anew, for a schedule that begins here.
    pub(super) fn fresh(&mut self) {
        let behind: Vec<Vec<usize>> = self
            .controllers
            .iter()
            .map(|c| (0..self.store.len()).filter(|id| c.sees_less(&self.store, *id)).collect())
            .collect();
        self.store.compact();
        self.tale = Tale { coverage: Coverage::default(), ..Tale::default() };
        for metal in &mut self.metal {
            metal.done.clear();
        }
        let count = self.store.len();
        for controller in &mut self.controllers {
            controller.seen = vec![1; count];
        }
        for (by, ids) in behind.into_iter().enumerate() {
            for id in ids {
                self.enqueue(by, id);
            }
        }
    }

    /// A controller of this role that lives.
    pub(super) fn alive(&self, role: Role) -> Option<usize> {
        self.controllers.iter().position(|c| c.up && c.role == role)
    }

    /// What kind of object this is.
    pub(super) fn kind(&self, id: usize) -> Option<Kind> {
        self.store.kind(id)
    }
}
