//! A controller: what it has seen, what it has to look at, and the plan that it carries out.
//!
//! The machine controller plans machines; the node controller plans incidents, and breakers. What
//! they decide is the shipped [`plan::machine::plan`], [`plan::node::plan`] and
//! [`plan::breaker::plan`], on what has been seen; a crash loses all that stands here.

use super::bug::Bug;
use super::metal::plus;
use super::store::{Kind, MACHINES, Seen, Store, View, is_open};
use super::world::{World, say};
use api::incident::{IncidentStatus, Stage};
use api::machine::MachineStatus;
use api::request::{Effect, Power};
use api::{Breaker, Incident};
use jiff::Timestamp;
use plan::budget::{Census, Counted};
use plan::deed::{Deed, Plan};
use plan::machine::{Joined, PowerOns, Reading};
use plan::node::{NodeSeen, Ready};
use plan::{breaker, lint, machine, node};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// What a controller is responsible for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Machine,
    Node,
}

/// A status that is to be written.
#[derive(Clone, Debug)]
pub(super) enum Status {
    Machine(Box<MachineStatus>),
    Incident(Box<IncidentStatus>),
}

/// A deed that is to be done.
#[derive(Clone, Debug)]
pub(super) enum AnyDeed {
    Machine(Box<Deed<machine::Act>>),
    Node(Box<Deed<node::Act>>),
    Breaker(Box<Deed<breaker::Act>>),
}

/// A plan that is being carried out.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// The machine it is about; none for breakers.
    pub(super) about: Option<usize>,
    /// The object whose status is written, and the version that the plan was made on.
    pub(super) object: (usize, u64),
    pub(super) status: Option<Status>,
    pub(super) deeds: VecDeque<AnyDeed>,
    /// The Event of the deed that is next has been told.
    pub(super) told: bool,
    /// Deeds that were done before their Event was told.
    pub(super) untold: u32,
    pub(super) wake: Option<Timestamp>,
    /// When what it rests on was seen.
    pub(super) made: Timestamp,
}

/// One instance of a controller.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub(super) role: Role,
    pub(super) up: bool,
    /// It does not reach the API.
    pub(super) cut: bool,
    /// It does not reach the BMCs.
    pub(super) bmc_cut: bool,
    pub(super) seen: Seen,
    /// Which machines are to be looked at.
    pub(super) queue: u16,
    /// Whether waves are to be looked for.
    pub(super) waves: bool,
    pub(super) wakes: [Option<Timestamp>; MACHINES],
    pub(super) readings: Vec<Option<Reading>>,
    pub(super) pass: Option<Pass>,
    pub(super) census: Rc<Census>,
    pub(super) counted: Rc<Vec<Option<Counted>>>,
}

const EVERYTHING: u16 = (1 << MACHINES) - 1;

impl Controller {
    /// One that has just started and has seen nothing.
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            up: true,
            cut: false,
            bmc_cut: false,
            seen: Vec::new(),
            queue: EVERYTHING,
            waves: role == Role::Node,
            wakes: [None; MACHINES],
            readings: vec![None; MACHINES],
            pass: None,
            census: Rc::default(),
            counted: Rc::new(vec![None; MACHINES]),
        }
    }

    pub(super) fn look_at(&mut self, index: usize) {
        self.queue |= 1 << index;
    }

    /// Whether an object has a version that it has not seen.
    pub(super) fn sees_less(&self, store: &Store, id: usize) -> bool {
        self.seen.get(id).copied().unwrap_or(0) < store.versions(id)
    }

    /// Timers that are due.
    pub(super) fn ring(&mut self, now: Timestamp) {
        for index in 0..MACHINES {
            if let Some(wake) = self.wakes.get_mut(index)
                && wake.is_some_and(|at| at <= now)
            {
                *wake = None;
                self.queue |= 1 << index;
            }
        }
    }

    /// Wakes at `at` at the latest.
    pub(super) fn wake(&mut self, index: usize, at: Timestamp) {
        if let Some(wake) = self.wakes.get_mut(index) {
            *wake = Some(wake.map_or(at, |there| there.min(at)));
        }
    }
}

impl World {
    /// The first object of which a controller has not seen all.
    pub(super) fn behind(&self, by: usize, from: usize) -> Option<usize> {
        let controller = self.controllers.get(by).filter(|c| c.up && !c.cut)?;
        let count = self.store.len();
        (0..count)
            .map(|offset| (from + offset) % count)
            .find(|id| controller.sees_less(&self.store, *id))
    }

    /// A watch event reaches a controller. Order is kept for each object, not between objects.
    pub(super) fn deliver(&mut self, by: usize, id: usize, all: bool) {
        let versions = self.store.versions(id);
        let count = self.store.len();
        let Some(controller) = self.controllers.get_mut(by) else { return };
        if controller.seen.len() < count {
            controller.seen.resize(count, 0);
        }
        if let Some(seen) = controller.seen.get_mut(id) {
            *seen = if all { versions } else { (*seen + 1).min(versions) };
        }
        self.tale.step(1, by, id);
        self.enqueue(by, id);
    }

    /// What a change of an object calls for.
    pub(super) fn enqueue(&mut self, by: usize, id: usize) {
        let Some(kind) = self.kind(id) else { return };
        let Some(role) = self.controllers.get(by).map(|c| c.role) else { return };
        if let (Role::Node, Kind::Machine(index) | Kind::Node(index)) = (role, kind) {
            self.count(by, index);
        }
        let Some(controller) = self.controllers.get_mut(by) else { return };
        match (role, kind) {
            (Role::Machine, Kind::Machine(index) | Kind::Node(index)) => controller.look_at(index),
            (Role::Machine, _) => {}
            (Role::Node, Kind::Machine(index) | Kind::Node(index)) => {
                controller.look_at(index);
                controller.waves = true;
            }
            (Role::Node, Kind::Pods(index) | Kind::Incident(index)) => controller.look_at(index),
            (Role::Node, Kind::Breaker) => {
                controller.waves = true;
                controller.queue = EVERYTHING;
            }
            (Role::Node, Kind::Ledger) => self.look_at_incidents(by),
        }
    }

    /// Every node with an open incident is to be looked at.
    fn look_at_incidents(&mut self, by: usize) {
        let Some(controller) = self.controllers.get_mut(by) else { return };
        let view = self.store.seen(&controller.seen);
        for (id, _) in view.incidents().filter(|(_, incident)| is_open(incident)) {
            if let Some(Kind::Incident(index)) = self.store.kind(id) {
                controller.queue |= 1 << index;
            }
        }
    }

    /// Counts a node anew in the controller's census.
    fn count(&mut self, by: usize, index: usize) {
        let Some(controller) = self.controllers.get_mut(by) else { return };
        let view = self.store.seen(&controller.seen);
        let fresh = view.node(index).zip(view.machine(index)).map(|(node, machine)| {
            let status = machine.status.as_ref();
            Counted {
                node: node.name.clone(),
                pool: status.and_then(|s| s.pool.clone()),
                rack: machine.spec.place.rack.clone(),
                tenant: status.and_then(|s| s.tenant.clone()),
                out: node.unschedulable || node.ready != Ready::Yes,
            }
        });
        let Some(old) = controller.counted.get(index) else { return };
        if *old == fresh {
            return;
        }
        let census = Rc::make_mut(&mut controller.census);
        if let Some(old) = old {
            census.remove(old);
        }
        if let Some(fresh) = &fresh {
            census.add(fresh);
        }
        if let Some(slot) = Rc::make_mut(&mut controller.counted).get_mut(index) {
            *slot = fresh;
        }
        // Who is out has changed: whoever waits for a budget looks again.
        self.look_at_incidents(by);
    }

    /// A controller looks at one of the machines that it has to look at, and plans.
    pub(super) fn plan(&mut self, by: usize, from: usize) -> bool {
        let Some(controller) = self.controllers.get(by) else { return false };
        if !controller.up || controller.pass.is_some() {
            return false;
        }
        let next = (0..MACHINES)
            .map(|offset| (from + offset) % MACHINES)
            .find(|index| controller.queue & (1 << index) != 0);
        let (role, waves) = (controller.role, controller.waves);
        let Some(index) = next else {
            if waves {
                self.plan_waves(by);
            }
            return waves;
        };
        if let Some(controller) = self.controllers.get_mut(by) {
            controller.queue &= !(1 << index);
            // The plan says anew when to wake.
            if let Some(wake) = controller.wakes.get_mut(index) {
                *wake = None;
            }
        }
        self.tale.step(2, by, index);
        let pass = match role {
            Role::Machine => self.plan_machine(by, index),
            Role::Node => self.plan_node(by, index),
        };
        self.take_up(by, pass);
        true
    }

    fn take_up(&mut self, by: usize, pass: Option<Pass>) {
        let no_timers = self.has(Bug::NoTimers);
        let Some(pass) = pass else { return };
        let Some(controller) = self.controllers.get_mut(by) else { return };
        if let (Some(index), Some(at), false) = (pass.about, pass.wake, no_timers) {
            controller.wake(index, at);
        }
        if pass.status.is_some() || !pass.deeds.is_empty() {
            controller.pass = Some(pass);
        }
    }

    fn plan_machine(&mut self, by: usize, index: usize) -> Option<Pass> {
        let controller = self.controllers.get(by)?;
        let view = self.store.seen(&controller.seen);
        let mut seen = Cow::Borrowed(&**view.machine(index)?);
        spoil_machine(self.bug, &mut seen);
        let node =
            view.node(index).map(|node| Joined { name: node.name.clone(), uid: node.uid.clone() });
        let pool = seen.spec.assignment.as_ref().map(|assigned| assigned.pool.as_str());
        let observed = machine::Observed {
            now: self.now,
            machine: &seen,
            kind: Some(&self.setting.kind),
            pool: self.setting.pools.iter().find(|p| p.metadata.name.as_deref() == pool),
            bmc: controller.readings.get(index).and_then(Option::as_ref),
            node: node.as_ref(),
            power_ons: power_ons(view, index),
            rules: &self.setting.rules,
        };
        let plan = machine::plan(&observed);
        let wrong = lint::machine(&observed, &plan);
        let pass = Pass {
            about: Some(index),
            object: (index, view.number(index)),
            status: plan.status.map(|status| Status::Machine(Box::new(status))),
            deeds: plan.deeds.into_iter().map(|deed| AnyDeed::Machine(Box::new(deed))).collect(),
            told: false,
            untold: 0,
            wake: plan.wake,
            made: self.now,
        };
        self.lint(by, index, wrong);
        Some(pass)
    }

    fn lint(&mut self, by: usize, index: usize, wrong: Vec<String>) {
        for wrong in wrong {
            let name = self.name(index).to_owned();
            self.wrong(format!("lint: {name} by controller {by}: {wrong}"));
        }
    }

    fn plan_node(&mut self, by: usize, index: usize) -> Option<Pass> {
        let (pass, wrong) = self.with_node(by, index, |observed, object| {
            let plan: Plan<node::Act, IncidentStatus> = node::plan(observed);
            let wrong = lint::node(observed, &plan);
            let pass = Pass {
                about: Some(index),
                object,
                status: plan.status.map(|status| Status::Incident(Box::new(status))),
                deeds: plan.deeds.into_iter().map(|deed| AnyDeed::Node(Box::new(deed))).collect(),
                told: false,
                untold: 0,
                wake: plan.wake,
                made: observed.now,
            };
            (pass, wrong)
        })?;
        self.lint(by, index, wrong);
        self.check_plan(by, index, &pass);
        Some(pass)
    }

    /// Everything that a node controller sees of one node.
    pub(super) fn with_node<T>(
        &self,
        by: usize,
        index: usize,
        then: impl FnOnce(&node::Observed<'_>, (usize, u64)) -> T,
    ) -> Option<T> {
        let controller = self.controllers.get(by)?;
        let view = self.store.seen(&controller.seen);
        let machine = view.machine(index)?;
        let name = self.name(index);
        let mut open: Option<(usize, &Rc<Incident>)> = None;
        let mut past: Vec<Incident> = Vec::new();
        for (id, incident) in view.incidents().filter(|(_, i)| i.spec.machine == name) {
            if is_open(incident) {
                open = open.or(Some((id, incident)));
            } else {
                past.push(Incident::clone(incident));
            }
        }
        let object = open.map_or((usize::MAX, 0), |(id, _)| (id, view.number(id)));
        let breakers: Vec<Breaker> = if self.has(Bug::IgnoreBreakers) {
            Vec::new()
        } else {
            view.breakers().map(|(_, breaker)| Breaker::clone(breaker)).collect()
        };
        let mut node = view.node(index).map(|node| Cow::Borrowed(&**node));
        if let Some(node) = &mut node {
            spoil_node(self.bug, node, open.map(|(_, i)| &**i));
        }
        let mut machine = Cow::Borrowed(&**machine);
        let mut incident = open.map(|(_, incident)| Cow::Borrowed(&**incident));
        if self.has(Bug::TrustAnyAnswer) {
            trust(&mut machine, incident.as_deref());
        }
        if self.has(Bug::IgnoreDeadlines)
            && let Some(status) = incident.as_mut().and_then(|i| i.to_mut().status.as_mut())
        {
            status.deadline = None;
        }
        let mut ledger = Cow::Borrowed(&**view.ledger()?);
        if self.has(Bug::ForgetGrant)
            && let Some(node) = node.as_deref()
        {
            pretend_grant(&mut ledger, node, machine.spec.place.rack.clone());
        }
        let pool = machine.status.as_ref().and_then(|s| s.pool.as_deref());
        let pool = self.setting.pools.iter().find(|p| p.metadata.name.as_deref() == pool);
        let observed = node::Observed {
            now: self.now,
            node: node.as_deref(),
            machine: &machine,
            incident: incident.as_deref(),
            past: &past,
            pods: view.pods(index),
            ledger: &ledger,
            census: &controller.census,
            pool,
            breakers: &breakers,
            catalogue: &self.setting.catalogue,
            rules: &self.setting.rules,
        };
        Some(then(&observed, object))
    }

    fn plan_waves(&mut self, by: usize) {
        self.tale.step(3, by, 0);
        if let Some(controller) = self.controllers.get_mut(by) {
            controller.waves = false;
        }
        let sick: Vec<_> = (0..MACHINES)
            .filter_map(|index| self.with_node(by, index, |o, _| node::symptom(o)).flatten())
            .collect();
        let Some(controller) = self.controllers.get(by) else { return };
        let view = self.store.seen(&controller.seen);
        let breakers: Vec<Breaker> = view.breakers().map(|(_, b)| Breaker::clone(b)).collect();
        if sick.is_empty() && breakers.is_empty() {
            return;
        }
        let observed = breaker::Observed {
            now: self.now,
            sick: &sick,
            sizes: &self.setting.sizes,
            breakers: &breakers,
            rules: &self.setting.rules,
        };
        let plan = breaker::plan(&observed);
        let pass = Pass {
            about: None,
            object: (usize::MAX, 0),
            status: None,
            deeds: plan.deeds.into_iter().map(|deed| AnyDeed::Breaker(Box::new(deed))).collect(),
            told: false,
            untold: 0,
            wake: None,
            made: self.now,
        };
        self.take_up(by, Some(pass));
    }

    /// A controller dies: all that it knew is lost, and what it did not tell stays untold.
    pub(super) fn crash(&mut self, by: usize) {
        let Some(controller) = self.controllers.get_mut(by) else { return };
        let untold = controller.pass.take().map_or(0, |pass| pass.untold);
        controller.up = false;
        say!(self, "## controller {by} dies");
        if untold > 0 {
            self.wrong("an effect has no Event and no audit record".to_owned());
        }
    }

    /// A controller starts: it lists everything, and looks at everything.
    pub(super) fn restart(&mut self, by: usize) {
        let count = self.store.len();
        let idle = self.has(Bug::NoFirstLook);
        let Some(controller) = self.controllers.get_mut(by) else { return };
        let mut fresh = Controller::new(controller.role);
        fresh.seen = (0..count).map(|id| self.store.versions(id)).collect();
        if idle {
            fresh.queue = 0;
        }
        *controller = fresh;
        say!(self, "## controller {by} starts");
        for index in 0..MACHINES {
            self.count(by, index);
        }
    }
}

/// Switching on in a machine's rack, as far as the statuses say.
fn power_ons(view: View<'_>, index: usize) -> PowerOns {
    let rack = view.machine(index).map(|machine| machine.spec.place.rack.as_str());
    let on = |other: &usize| {
        view.machine(*other).is_some_and(|machine| {
            let operation = machine.status.as_ref().and_then(|s| s.operation.as_ref());
            let power = operation.map(|operation| operation.effect);
            Some(machine.spec.place.rack.as_str()) == rack
                && matches!(power, Some(Effect::Power(power)) if power != Power::Off)
        })
    };
    let others = (0..MACHINES).filter(|other| *other != index).filter(on).count();
    PowerOns { under_way: u32::try_from(others).unwrap_or(u32::MAX), allowed: 4 }
}

fn spoil_machine(bug: Option<Bug>, machine: &mut Cow<'_, api::Machine>) {
    match bug {
        Some(Bug::SkipZap) => {
            let assigned = machine.spec.assignment.clone();
            let status = machine.status.as_ref();
            let moved = assigned.as_ref().map(|a| &a.pool) != status.and_then(|s| s.pool.as_ref());
            if assigned.is_some()
                && moved
                && status.is_some_and(|s| s.pool.is_some())
                && let Some(status) = machine.to_mut().status.as_mut()
            {
                (status.pool, status.tenant) = (None, None);
            }
        }
        Some(Bug::IgnoreDeadlines) => {
            if let Some(status) = machine.to_mut().status.as_mut() {
                status.deadline = None;
                if let Some(operation) = &mut status.operation {
                    operation.deadline = Timestamp::MAX;
                }
            }
        }
        Some(Bug::AnyBoot) => {
            let boot =
                machine.status.as_ref().and_then(|s| s.agent.as_ref()).map(|a| a.boot.clone());
            if machine.spec.request.as_ref().is_some_and(|r| r.boot.is_some() && r.boot != boot)
                && let Some(request) = machine.to_mut().spec.request.as_mut()
            {
                request.boot = boot;
            }
        }
        _ => {}
    }
}

fn spoil_node(bug: Option<Bug>, node: &mut Cow<'_, NodeSeen>, incident: Option<&Incident>) {
    match bug {
        Some(Bug::AnyBoot) if node.boot.is_some() => {
            let boot = node.boot.clone();
            for condition in &mut node.to_mut().conditions {
                let mut evidence = api::evidence::Evidence::read(&condition.message);
                if evidence.boot.is_some() {
                    evidence.boot.clone_from(&boot);
                    condition.message = evidence.to_string();
                }
            }
        }
        Some(Bug::AnyCordonIsOurs) if node.unschedulable && node.cordoned_for.is_none() => {
            let name = incident.and_then(|i| i.metadata.name.clone());
            node.to_mut().cordoned_for = Some(name.unwrap_or_else(|| "forgotten".to_owned()));
        }
        Some(Bug::IgnoreHandsOff) if node.hands_off.is_some() => node.to_mut().hands_off = None,
        _ => {}
    }
}

fn trust(machine: &mut Cow<'_, api::Machine>, incident: Option<&Incident>) {
    let request = incident.and_then(|i| i.status.as_ref()).and_then(|status| {
        let asks = matches!(status.stage, Stage::Acting | Stage::Verifying);
        status.request.clone().filter(|_| asks)
    });
    if let Some(request) = request
        && machine.status.as_ref().is_some_and(|s| s.answer.is_some())
        && let Some(answer) = machine.to_mut().status.as_mut().and_then(|s| s.answer.as_mut())
    {
        answer.id = request;
    }
}

fn pretend_grant(ledger: &mut Cow<'_, api::Ledger>, node: &NodeSeen, rack: String) {
    let grant = api::ledger::Grant {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        incident: String::new(),
        kind: api::ledger::Kind::Repair,
        pool: None,
        rack,
        tenant: None,
        since: Timestamp::UNIX_EPOCH,
    };
    ledger.to_mut().status.get_or_insert_default().grants.push(grant);
}

/// When a pass that failed is taken up again.
pub(super) fn again(now: Timestamp) -> Timestamp {
    plus(now, Duration::from_secs(5))
}
