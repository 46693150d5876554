//! One look at a machine: the status that is being written, and what all states share.
//!
//! Deadlines, tries, backoff, history and conditions are kept here once, so that the states cannot
//! differ in them.

use super::{Act, Heard, Observed};
use crate::deed::{Because, Deed, Event, Fence, Plan};
use api::condition;
use api::instance_type::Acceptance;
use api::machine::{Entry, MAX_HISTORY, MachineStatus, NodeReference, Progress};
use api::names::manager;
use api::request::Effect;
use api::state::{Role, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::time::Duration;

/// One look: what was observed, the status to be, the plan so far.
pub(super) struct Look<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) status: MachineStatus,
    pub(super) plan: Plan<Act, MachineStatus>,
    /// The state was left in this look; the next one decides what to do in the new one.
    pub(super) moved: bool,
}

impl<'a> Look<'a> {
    pub(super) fn new(observed: &'a Observed<'a>) -> Self {
        let mut status = observed.machine.status.clone().unwrap_or_default();
        let newborn = status.since.is_none();
        if newborn {
            status.since = Some(observed.now);
            status.onboardings = status.onboardings.max(1);
        }
        status.node = observed
            .node
            .map(|node| NodeReference { name: node.name.clone(), uid: node.uid.clone() });
        match observed.bmc.map(|reading| &reading.heard) {
            Some(Heard::Answer { .. }) => status.bmc_lost = None,
            Some(Heard::Error(_) | Heard::Silence) if status.bmc_lost.is_none() => {
                status.bmc_lost = observed.bmc.map(|reading| reading.at);
            }
            _ => {}
        }
        let mut look = Self { observed, status, plan: Plan::default(), moved: false };
        if newborn {
            look.record("Onboard", "the machine was described");
        }
        look
    }

    pub(super) fn now(&self) -> Timestamp {
        self.observed.now
    }

    pub(super) fn after(&self, wait: Duration) -> Timestamp {
        later(self.now(), wait)
    }

    pub(super) fn acceptance(&self) -> Acceptance {
        self.observed.kind.map(|kind| kind.spec.acceptance).unwrap_or_default()
    }

    /// The boot that runs, as far as its agent has said.
    pub(super) fn boot(&self) -> Option<&str> {
        self.status.agent.as_ref().map(|agent| agent.boot.as_str())
    }

    pub(super) fn overdue(&self) -> bool {
        self.status.deadline.is_some_and(|deadline| deadline <= self.now())
    }

    /// Whether an effect that begins now would end before the state must.
    pub(super) fn has_time_for(&self, effect: Effect) -> bool {
        let until = self.after(self.observed.rules.effect(effect));
        self.status.deadline.is_none_or(|deadline| until <= deadline)
    }

    /// What the BMC said, if it is recent enough to act upon; else it is asked.
    pub(super) fn fresh_bmc(&self) -> Option<&'a Heard> {
        let reading = self.observed.bmc?;
        let fresh = later(reading.at, self.observed.rules.fresh) > self.now();
        fresh.then_some(&reading.heard)
    }

    /// Writes down what is being waited for.
    pub(super) fn wait(&mut self, stage: &str, why: String, until: Option<Timestamp>) {
        stage.clone_into(&mut self.status.stage);
        self.status.why = why;
        if let Some(until) = until {
            self.plan.wake_at(until);
        }
    }

    /// Tries again after a while, from the start of the state.
    pub(super) fn retry(&mut self, why: &str) {
        let wait = self.observed.rules.backoff(self.status.attempts);
        let until = self.after(wait);
        self.status.retry_at = Some(until);
        self.status.progress = Progress::default();
        let again = format!("{why}; tried again after {}", words(wait));
        self.plan.events.push(Event::warning("TriesAgain", again.clone()));
        self.wait("waiting to try again", again, Some(until));
    }

    /// Leaves the state for another.
    pub(super) fn go(&mut self, to: State, why: String) {
        let from = self.status.state;
        let now = self.now();
        if matches!(from, State::Debug | State::Rma) && to == State::Onboard {
            self.status.onboardings = self.status.onboardings.saturating_add(1);
        }
        if from == State::ZapFailed && to == State::Triage || to == State::Test {
            self.status.zap_failures = 0;
        }
        if to == State::ZapFailed {
            self.status.zap_failures = self.status.zap_failures.saturating_add(1);
        }
        let limit = self.observed.rules.state(to, self.acceptance());
        let status = &mut self.status;
        status.state = to;
        status.since = Some(now);
        status.deadline = limit.map(|limit| later(now, limit));
        status.attempts = 0;
        status.retry_at = None;
        status.progress = inherited(from, to, &status.progress);
        status.operation = None;
        status.task = None;
        if to != State::Production {
            status.role = Role::None;
            status.pool = None;
        }
        status.stage = String::new();
        status.why.clone_from(&why);
        self.moved = true;
        self.record(to.name(), &why);
        let reason = format!("Entered{to}");
        let note = format!("{from} to {to}: {why}");
        let bad = matches!(to, State::ZapFailed | State::Triage | State::Debug | State::Rma);
        let event = if bad { Event::warning } else { Event::normal };
        self.plan.events.push(event(reason, note));
    }

    /// Adds a line to the history.
    pub(super) fn record(&mut self, what: &str, why: &str) {
        let entry = Entry { at: self.now(), what: what.to_owned(), why: why.to_owned() };
        self.status.history.insert(0, entry);
        self.status.history.truncate(MAX_HISTORY);
    }

    /// Adds a deed, fenced with all that is known.
    pub(super) fn deed(&mut self, act: Act, why: &str) {
        let last_reset = match (&act, &self.status.operation) {
            (Act::Power { .. }, Some(operation)) => operation.reset_before.clone(),
            _ => None,
        };
        let power = matches!(act, Act::Power { .. });
        let boot = self.boot().filter(|_| power).map(str::to_owned);
        let machine = self.observed.machine;
        let request = self.status.operation.as_ref().and_then(|o| o.request.clone());
        let asked = machine.spec.request.as_ref().filter(|r| Some(&r.id) == request.as_ref());
        let because = Because {
            who: asked.map_or_else(|| manager::MACHINE.to_owned(), |asked| asked.by.clone()),
            why: why.to_owned(),
            evidence: asked.map_or_else(
                || vec![format!("{}: {}", self.status.state, self.status.why)],
                |asked| asked.evidence.clone(),
            ),
            origin: request.unwrap_or_else(|| format!("state/{}", self.status.state)),
        };
        let fence = Fence {
            machine_uid: Some(machine.uid().to_owned()),
            generation: machine.metadata.generation,
            node_uid: self.status.node.as_ref().map(|node| node.uid.clone()),
            boot,
            last_reset,
            incident: asked.and_then(|asked| asked.incident.clone()),
            stage: None,
            shown: asked.and_then(|asked| asked.shown.clone()).filter(|_| power),
        };
        self.plan.deeds.push(Deed { act, fence, because });
    }

    /// Completes conditions and the plan.
    pub(super) fn finish(mut self) -> Plan<Act, MachineStatus> {
        if self.status.state != State::Production
            && let Some(node) = self.status.node.clone()
        {
            let why = format!("the machine is in {}, so nothing may run on it", self.status.state);
            self.deed(Act::DeleteNode { name: node.name }, &why);
        }
        self.status.observed_generation = self.observed.machine.metadata.generation;
        self.conditions();
        if let Some(deadline) = self.status.deadline.filter(|deadline| *deadline > self.now()) {
            self.plan.wake_at(deadline);
        }
        self.plan.wake = self.plan.wake.filter(|wake| *wake > self.now());
        if self.observed.machine.status.as_ref() != Some(&self.status) {
            self.plan.status = Some(self.status);
        }
        self.plan
    }

    fn conditions(&mut self) {
        use condition::{Machine as Kind, MachineReason as Reason, Stalled};
        let certified = self.observed.machine.spec.certified >= self.status.onboardings;
        let stalled = match self.status.state {
            _ if self.observed.machine.hands_off().is_some() => Stalled::HandsOff,
            State::Onboard if !certified => Stalled::WaitingForTechnician,
            State::Rma => Stalled::WaitingForVendor,
            State::Debug => Stalled::WaitingForPerson,
            _ => Stalled::Moving,
        };
        let production = self.status.state == State::Production;
        let mut all = vec![
            (
                Kind::Certified,
                certified,
                if certified { Reason::AsExpected } else { Reason::Unknown }.name(),
            ),
            (
                Kind::InProduction,
                production,
                match self.status.state {
                    State::Production => Reason::AsExpected,
                    State::Triage | State::Debug | State::Rma => Reason::Left,
                    _ => Reason::Underway,
                }
                .name(),
            ),
            (Kind::Stalled, stalled != Stalled::Moving, stalled.name()),
        ];
        if let Some(reading) = self.observed.bmc {
            let reason = match reading.heard {
                Heard::Answer { .. } => Reason::AsExpected,
                Heard::Error(_) => Reason::BadAnswer,
                Heard::Silence => Reason::NoAnswer,
            };
            all.push((Kind::BmcReachable, reason == Reason::AsExpected, reason.name()));
        }
        if let (Some(found), Some(kind)) = (&self.status.inventory, self.observed.kind) {
            let same = found.differences(&kind.spec.expected).is_empty();
            let reason = if same { Reason::AsExpected } else { Reason::Mismatch };
            all.push((Kind::AsDescribed, same, reason.name()));
        }
        for (kind, holds, reason) in all {
            let why = if holds == (kind == Kind::Stalled) {
                self.status.why.clone()
            } else {
                String::new()
            };
            set(&mut self.status.conditions, self.observed.now, kind.name(), holds, reason, why);
        }
    }
}

/// What counts in a state of what was accomplished in the one before: what boots on the first voyage
/// belongs to nobody, as Zap wants it, so that a new machine boots once and not twice.
fn inherited(from: State, to: State, progress: &Progress) -> Progress {
    let booted = match (from, to) {
        (State::SeaTrial, State::Zap) => progress.booted.clone(),
        _ => None,
    };
    Progress { booted, ..Progress::default() }
}

/// Sets one condition; its time moves only when its status does.
fn set(
    all: &mut Vec<Condition>,
    now: Timestamp,
    kind: &str,
    holds: bool,
    reason: &str,
    message: String,
) {
    let status = if holds { "True" } else { "False" };
    let known = all.iter_mut().find(|condition| condition.type_ == kind);
    let fresh = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(now),
        observed_generation: None,
    };
    match known {
        Some(condition) => {
            let last_transition_time = if condition.status == status {
                condition.last_transition_time.clone()
            } else {
                fresh.last_transition_time.clone()
            };
            *condition = Condition { last_transition_time, ..fresh };
        }
        None => all.push(fresh),
    }
}

/// A time later, or the end of the calendar.
pub(crate) fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// A duration as people say it.
pub(crate) fn words(wait: Duration) -> String {
    let seconds = wait.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
