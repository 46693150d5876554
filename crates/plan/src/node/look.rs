//! One look at a node: the incident's status that is being written, and what all stages share.

use super::facts::{self, Cause, Fault, NodeSeen, Reported};
use super::{Act, Observed, act};
use crate::breaker;
use crate::deed::{Because, Deed, Event, Fence, Plan};
use crate::machine::later;
use api::condition::{self, InService};
use api::incident::{End, IncidentStatus, MAX_MOMENTS, Moment, Stage};
use api::machine::Agent;
use api::names::manager;
use api::request::{Answer, Ask, Outcome, Request};
use api::state::{Role, State};
use jiff::Timestamp;
use std::time::Duration;

/// A kubelet that is not back so long after a boot does not come back by itself.
const NEVER_CAME_BACK: Duration = Duration::from_secs(600);

/// One look: what was observed, the status to be, the plan so far.
pub(super) struct Look<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) status: IncidentStatus,
    pub(super) plan: Plan<Act, IncidentStatus>,
    pub(super) cause: Option<Cause>,
    pub(super) faults: Vec<Fault<'a>>,
    /// What is said about the node's service: reason and sentence.
    service: Option<(InService, String)>,
}

impl<'a> Look<'a> {
    pub(super) fn new(observed: &'a Observed<'a>) -> Self {
        let status = observed.incident.and_then(|i| i.status.clone()).unwrap_or_default();
        let faults = observed.node.map_or_else(Vec::new, |node| {
            facts::faults_with(node, observed.catalogue, observed.past)
        });
        let cause = observed.incident.map(|incident| facts::cause(&incident.spec.cause));
        Self { observed, status, plan: Plan::default(), cause, faults, service: None }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.observed.now
    }

    pub(super) fn after(&self, wait: Duration) -> Timestamp {
        later(self.now(), wait)
    }

    /// The name of the open incident.
    pub(super) fn incident(&self) -> &'a str {
        self.observed.incident.and_then(|i| i.metadata.name.as_deref()).unwrap_or_default()
    }

    /// The fault that the incident is about, if the node still shows it.
    pub(super) fn fault(&self) -> Option<&Fault<'a>> {
        let spec = &self.observed.incident?.spec;
        self.faults.iter().find(|f| f.row.id.as_str() == spec.cause && f.part == spec.part)
    }

    /// Ends the incident if what it stands on is gone: the node, the machine's state, a person's leave.
    pub(super) fn interrupted(&mut self) -> bool {
        let Some(incident) = self.observed.incident else { return false };
        let gone = self.observed.machine.state() != State::Production;
        match self.observed.node {
            _ if gone && self.status.stage == Stage::HandingOver => {
                let why = format!("the machine is in {}", self.observed.machine.state());
                // A node that its pool gives back has not failed.
                let released = self.cause == Some(Cause::Release);
                self.close(if released { End::Done } else { End::HandedOver }, why);
            }
            None => self.close(End::NodeGone, "the node ceased to exist".to_owned()),
            Some(node) if node.uid != incident.spec.node_uid => {
                self.close(End::NodeGone, "another node took its name".to_owned());
            }
            Some(_) if gone => {
                let why = format!("the machine went to {}", self.observed.machine.state());
                self.close(End::HandedOver, why);
            }
            Some(node) => return self.taken_over(node),
        }
        true
    }

    /// A person who cordons the node or forbids repair ends our repair of a fault at once. Phases go
    /// on under a person's cordon: a person asked for them.
    fn taken_over(&mut self, node: &NodeSeen) -> bool {
        if let Some(reason) = &node.hands_off {
            // The cordon stays, or new work would land on a node that is known to be sick.
            let why = format!("a person forbade automatic repair: {reason}");
            // Without the grant nothing goes on where it stood: it begins anew when repair may.
            if self.status.stage != Stage::Open {
                // What was asked may have been done: what is asked later has another name.
                self.status.rounds = self.status.rounds.saturating_add(1);
                self.status.tries = 0;
                self.enter(Stage::Open, None, why.clone());
            }
            self.wait(InService::HandsOff, why.clone());
            self.let_go(&why);
            let asked = self.observed.machine.spec.request.as_ref().map(|request| &request.id);
            if self.status.request.as_ref() != asked {
                self.status.request = None;
            }
            return true;
        }
        if node.cordoned_by_person() && matches!(self.cause, Some(Cause::Fault(_))) {
            self.close(End::Withdrawn, "a person cordoned the node; it is left to them".to_owned());
            return true;
        }
        false
    }

    /// The name of what is asked now: for the same incident, step and try always the same, so that
    /// it is asked once, and another after each time that a person broke the repair off.
    pub(super) fn name(&self, what: &str) -> String {
        let (incident, tries) = (self.incident(), self.status.tries);
        match self.status.rounds {
            0 => format!("{incident}-{what}-{tries}"),
            round => format!("{incident}-{what}-{tries}-again-{round}"),
        }
    }

    /// Enters a stage.
    pub(super) fn enter(&mut self, stage: Stage, limit: Option<Duration>, why: String) {
        self.status.stage = stage;
        self.status.since = Some(self.now());
        self.status.deadline = limit.map(|limit| self.after(limit));
        self.note(why);
    }

    /// Adds a moment to the timeline; of a long story the middle is left out.
    pub(super) fn note(&mut self, what: String) {
        self.status.why.clone_from(&what);
        self.status.timeline.push(Moment { at: self.now(), what });
        if self.status.timeline.len() > MAX_MOMENTS {
            self.status.timeline.remove(MAX_MOMENTS / 2);
        }
    }

    /// Says what is waited for.
    pub(super) fn wait(&mut self, reason: InService, why: String) {
        self.status.why.clone_from(&why);
        self.say(reason, why);
    }

    /// Says how the node's service stands.
    pub(super) fn say(&mut self, reason: InService, why: String) {
        self.service = Some((reason, why));
    }

    /// Whether the node is cordoned, for this incident or by a person who asked for a phase.
    pub(super) fn cordoned(&mut self) -> bool {
        let Some(node) = self.observed.node else { return false };
        // Also by what an earlier incident left behind, which is taken back after this one.
        if node.unschedulable {
            return true;
        }
        let reason = self.headline();
        let incident = self.incident().to_owned();
        self.deed(Act::Cordon { incident, reason: reason.clone() }, reason);
        false
    }

    /// What the incident is about, as one sentence.
    pub(super) fn headline(&self) -> String {
        let Some(incident) = self.observed.incident else { return String::new() };
        let spec = &incident.spec;
        match (&self.cause, spec.evidence.first()) {
            (Some(Cause::Phase { phase, .. }), _) => format!("{} asks for {phase}", spec.by),
            (Some(Cause::Release), _) => "the pool gives the node back".to_owned(),
            (_, Some(seen)) => format!("{}: {seen}", spec.cause),
            (_, None) => spec.cause.clone(),
        }
    }

    /// Whether the node holds a grant of the ledger.
    pub(super) fn granted(&self) -> bool {
        let Some(node) = self.observed.node else { return false };
        let grants = self.observed.ledger.status.iter().flat_map(|status| &status.grants);
        grants.into_iter().any(|grant| grant.node_uid == node.uid)
    }

    /// Whether a breaker holds repairs of this fault back; says so.
    pub(super) fn held_by_breaker(&mut self) -> bool {
        let (Some(node), Some(Cause::Fault(row))) = (self.observed.node, &self.cause) else {
            return false;
        };
        let place = &self.observed.machine.spec.place;
        let agent = self.observed.machine.status.as_ref().and_then(|s| s.agent.as_ref());
        let sick = breaker::Sick {
            node: node.name.clone(),
            symptom: row.clone(),
            since: self.now(),
            leaf: place.leaf.clone(),
            pdu: place.pdu.clone(),
            rack: Some(place.rack.clone()),
            image: agent.map(|agent| agent.image.clone()),
        };
        let Some(held) = breaker::holding(self.observed.breakers, &sick) else { return false };
        let name = held.metadata.name.as_deref().unwrap_or_default();
        // Without their number: each node that joins them would be told to all the others.
        let wave = breaker::wave(&held.spec);
        let why = format!("breaker {name} is open: {wave}; a person must acknowledge it");
        self.wait(InService::WaitingForBreaker, why);
        true
    }

    /// The answer of the machine to our request, if it has answered.
    pub(super) fn answer(&self, id: &str) -> Option<&'a Answer> {
        let answer = self.observed.machine.status.as_ref()?.answer.as_ref()?;
        (answer.id == id).then_some(answer)
    }

    /// Asks the machine, unless it was asked already. Another's request that is not answered yet is
    /// waited for. The status must name the request's id.
    pub(super) fn ask(&mut self, id: &str, ask: Ask, target: Option<String>, why: String) {
        let machine = self.observed.machine;
        if self.answer(id).is_some() {
            return;
        }
        if let Some(there) = &machine.spec.request {
            if there.id == id {
                return;
            }
            let answered = self.answer(&there.id).is_some_and(|a| a.outcome != Outcome::Running);
            // A repair does not wait for a test of idle time.
            if !answered && !super::is_idle_test(there) {
                let why =
                    format!("waits for {} to be done, which {} asked for", there.id, there.by);
                return self.wait(InService::Repairing, why);
            }
        }
        let (Some(node), Some(incident)) = (self.observed.node, self.observed.incident) else {
            return;
        };
        let boot = match self.boot_meant(node) {
            Ok(boot) => boot,
            Err((why, until)) => {
                self.plan.wake_at(until);
                return self.wait(InService::Repairing, why);
            }
        };
        let request = Request {
            id: id.to_owned(),
            ask,
            target,
            by: manager::NODE.to_owned(),
            why: why.clone(),
            evidence: incident.spec.evidence.clone(),
            incident: Some(self.incident().to_owned()),
            node_uid: Some(node.uid.clone()),
            boot,
            shown: act::shown(self, ask),
            at: self.now(),
        };
        self.deed(Act::Ask(Box::new(request)), why);
    }

    /// Whether the node speaks of the boot that runs, as far as the machine's agent tells. After a boot
    /// it is the old kubelet's word that stands, Ready or not, until the new one has spoken.
    pub(super) fn of_this_boot(&self, node: &NodeSeen) -> bool {
        let agent = self.agent().map(|agent| agent.boot.as_str());
        agent.is_none() || node.boot.is_none() || agent == node.boot.as_deref()
    }

    fn agent(&self) -> Option<&'a Agent> {
        self.observed.machine.status.as_ref()?.agent.as_ref()
    }

    /// The boot that a request is decided for: the one during which the node showed what it stands on;
    /// none while node and machine speak of two boots. Where one of them never speaks again, the machine
    /// is meant as its agent knew it last, or nothing could be asked of it for ever.
    fn boot_meant(&self, node: &NodeSeen) -> Result<Option<String>, (String, Timestamp)> {
        let Some(agent) = self.agent().filter(|_| !self.of_this_boot(node)) else {
            return Ok(node.boot.clone());
        };
        let until =
            later(agent.since.max(self.status.since.unwrap_or(self.now())), NEVER_CAME_BACK);
        if until <= self.now() {
            return Ok(Some(agent.boot.clone()));
        }
        let why =
            format!("the machine runs boot {}, and its node has not spoken of it", agent.boot);
        Err((why, until))
    }

    /// Closes the incident and undoes what is ours.
    pub(super) fn close(&mut self, end: End, why: String) {
        let headline = self.headline();
        let bad = matches!(end, End::HandedOver | End::NodeGone);
        let event = if bad { Event::warning } else { Event::normal };
        self.plan.events.push(event(format!("{end:?}"), format!("{headline}: {why}")));
        self.enter(Stage::Closed, None, why);
        self.status.end = Some(end);
        self.status.closed = Some(self.now());
        self.tidy();
        self.service = Some(serving(self.observed));
    }

    /// Takes back whatever of ours an incident that is over may have left.
    pub(super) fn tidy(&mut self) {
        let why = self.status.why.clone();
        self.let_go(&why);
        if let Some(condition) = self.cause.as_ref().and_then(Cause::condition)
            && self
                .observed
                .node
                .and_then(|node| node.condition(condition))
                .is_some_and(|c| c.holds)
            && self.status.end != Some(End::Withdrawn)
        {
            self.deed(Act::ClearPhase { condition, why: why.clone() }, why.clone());
        }
        let ours = |node: &NodeSeen| node.cordoned_for.as_deref() == Some(self.incident());
        if self.observed.node.is_some_and(ours) {
            self.deed(Act::Uncordon { incident: self.incident().to_owned() }, why);
        }
    }

    /// Takes back the request that is not answered yet, and the grant.
    fn let_go(&mut self, why: &str) {
        self.take_back(why);
        let Some(incident) = self.observed.incident else { return };
        let node_uid = incident.spec.node_uid.clone();
        let grants = self.observed.ledger.status.iter().flat_map(|status| &status.grants);
        if grants.into_iter().any(|grant| grant.node_uid == node_uid) {
            self.deed(Act::ReturnGrant { node_uid, left_by: None }, why.to_owned());
        }
    }

    /// Takes back the request that is not answered yet.
    pub(super) fn take_back(&mut self, why: &str) {
        if let Some(id) = self.status.request.clone()
            && self.observed.machine.spec.request.as_ref().is_some_and(|there| there.id == id)
            && self.answer(&id).is_none_or(|answer| answer.outcome == Outcome::Running)
        {
            self.deed(Act::Withdraw { id }, why.to_owned());
        }
    }

    /// Adds a deed, fenced with all that is known.
    pub(super) fn deed(&mut self, act: Act, why: String) {
        let incident = self.observed.incident;
        let because = Because {
            who: manager::NODE.to_owned(),
            why,
            evidence: incident.map(|i| i.spec.evidence.clone()).unwrap_or_default(),
            origin: incident.map_or_else(String::new, |i| format!("incident/{}", i.spec.cause)),
        };
        let hardware = matches!(act, Act::Ask(_) | Act::Evict { .. });
        // What is taken back is taken back after the incident is closed, and names what is ours.
        let tidies = matches!(
            act,
            Act::Withdraw { .. }
                | Act::ClearPhase { .. }
                | Act::Uncordon { .. }
                | Act::ReturnGrant { .. }
        );
        let grant = matches!(act, Act::ReturnGrant { .. });
        let machine = &self.observed.machine.metadata;
        let fence = Fence {
            machine_uid: machine.uid.clone(),
            generation: if matches!(act, Act::Ask(_)) { machine.generation } else { None },
            node_uid: self.observed.node.filter(|_| !grant).map(|node| node.uid.clone()),
            boot: if hardware { self.observed.node.and_then(|n| n.boot.clone()) } else { None },
            last_reset: None,
            incident: incident.filter(|_| !tidies).and_then(|i| i.metadata.uid.clone()),
            stage: None,
            shown: None,
        };
        self.plan.deeds.push(Deed { act, fence, because });
    }

    /// Reports the node's service and whether work runs on it, and completes the plan.
    pub(super) fn finish(mut self) -> Plan<Act, IncidentStatus> {
        let active = self.observed.pods.iter().filter(|pod| pod.holds).count();
        let (reason, why) = if active > 0 {
            (condition::Active::Running, format!("{active} pods of users run"))
        } else {
            (condition::Active::Idle, "nothing of a user runs".to_owned())
        };
        self.report(condition::Node::Active, active > 0, reason.name(), why);
        let (reason, why) = self.service.take().unwrap_or_else(|| self.stands());
        let serves = matches!(reason, InService::Serving | InService::Spare);
        self.report(condition::Node::InService, serves, reason.name(), why);
        if let Some(deadline) = self.status.deadline.filter(|deadline| *deadline > self.now()) {
            self.plan.wake_at(deadline);
        }
        self.plan.wake = self.plan.wake.filter(|wake| *wake > self.now());
        // What disturbs is done in the stage that is written before it, or not at all.
        if self.observed.incident.is_some() {
            for deed in &mut self.plan.deeds {
                if matches!(deed.act, Act::Ask(_) | Act::Evict { .. }) {
                    deed.fence.stage = Some(self.status.stage);
                }
            }
        }
        let old = self.observed.incident.map(|i| i.status.clone().unwrap_or_default());
        if old.is_some_and(|old| old != self.status) {
            self.plan.status = Some(self.status);
        }
        self.plan
    }

    /// How the node's service stands when the stage has said nothing more particular.
    fn stands(&self) -> (InService, String) {
        let why = self.status.why.clone();
        match self.status.stage {
            _ if self.observed.incident.is_none() => serving(self.observed),
            Stage::Open => (InService::Cordoned, why),
            Stage::Draining => (InService::Draining, why),
            Stage::Acting => (InService::Repairing, why),
            Stage::Verifying => (InService::Verifying, why),
            Stage::HandingOver => (InService::HandedOver, why),
            Stage::Closed => serving(self.observed),
        }
    }

    fn report(&mut self, kind: condition::Node, holds: bool, reason: &str, message: String) {
        let Some(node) = self.observed.node else { return };
        let known = node.condition(kind.name());
        let same = |c: &Reported| c.holds == holds && c.reason == reason && c.message == message;
        if known.is_some_and(same) {
            return;
        }
        let since = known.filter(|c| c.holds == holds).map_or(self.now(), |c| c.since);
        let reported = Reported {
            kind: kind.name().to_owned(),
            holds,
            reason: reason.to_owned(),
            message: message.clone(),
            by: manager::NODE.to_owned(),
            since,
        };
        self.deed(Act::Report(reported), message);
    }
}

/// How the node's service stands when no incident says otherwise.
fn serving(observed: &Observed<'_>) -> (InService, String) {
    let state = observed.machine.state();
    let Some(node) = observed.node else { return (InService::NotInProduction, String::new()) };
    let status = observed.machine.status.as_ref();
    if state != State::Production {
        return (InService::NotInProduction, format!("the machine is in {state}"));
    }
    if let Some(reason) = &node.hands_off {
        return (InService::HandsOff, format!("a person forbade automatic repair: {reason}"));
    }
    if node.cordoned_by_person() {
        return (InService::CordonedByPerson, "a person cordoned the node".to_owned());
    }
    match status.map(|status| status.role) {
        Some(Role::Member) => {
            let pool = status.and_then(|s| s.pool.as_deref()).unwrap_or_default();
            (InService::Serving, format!("serves pool {pool}"))
        }
        _ => (InService::Spare, "kept free as a spare".to_owned()),
    }
}
