//! The lifecycle of a machine: the only decision that leads to a BMC or a boot.
//!
//! Every effect is written down as the status's operation before it is done, and an operation that
//! was cut short is taken up again: the BMC's own word about its last reset tells whether it
//! happened. Each state has its file and answers one question: what next, when nothing is under
//! way ([`Next`]). Deadlines, tries and backoff are the same for all and stand in [`look`].
//!
//! It never decides whether a node may be disturbed: whoever asks for that has a grant (see
//! [`crate::node`]), or is a person.

mod debug;
mod look;
mod onboard;
mod operation;
mod production;
mod release;
mod request;
mod rma;
mod sea_trial;
mod test;
mod triage;
mod zap;
mod zap_failed;

use crate::deed::Plan;
use crate::rules::Rules;
use api::machine::MachineStatus;
use api::request::{Effect, Power};
use api::state::State;
use api::{InstanceType, Machine, NodePool};
use jiff::Timestamp;
use look::Look;
pub(crate) use look::{later, words};

/// Everything that a decision about a machine rests on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The time, from the controller's clock.
    pub now: Timestamp,
    /// The machine.
    pub machine: &'a Machine,
    /// Its type, if there is one of that name.
    pub kind: Option<&'a InstanceType>,
    /// The pool that it serves or shall serve, if there is one of that name.
    pub pool: Option<&'a NodePool>,
    /// What its BMC last said, if it was asked since the controller started.
    pub bmc: Option<&'a Reading>,
    /// The node that runs on it.
    pub node: Option<&'a Joined>,
    /// Switching on in its rack.
    pub power_ons: PowerOns,
    /// Times and bounds.
    pub rules: &'a Rules,
}

/// What a BMC said, or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub at: Timestamp,
    /// What.
    pub heard: Heard,
}

/// What a BMC said, or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It answered.
    Answer {
        /// Whether the machine is switched on.
        on: bool,
        /// When it last reset the machine, in its own words. Some never say.
        last_reset: Option<String>,
    },
    /// It answered with an error.
    Error(String),
    /// It did not answer.
    Silence,
}

/// The node that runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Switching on in one rack: too many at once trip its breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOns {
    /// How many other machines of the rack are being switched on.
    pub under_way: u32,
    /// How many may be.
    pub allowed: u32,
}

/// What is done about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask the BMC how things stand. Disturbs nothing; the answer is the next [`Reading`].
    ReadBmc,
    /// Tell the BMC, for the operation of this id.
    Power {
        /// What.
        power: Power,
        /// The operation that stands in the status.
        operation: String,
    },
    /// Delete the node: its machine is not in production.
    DeleteNode {
        /// The node's name.
        name: String,
    },
    /// Take our finalizer off the machine: nothing is left to undo.
    Release,
}

/// What comes next when nothing is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing, for this reason; again at the time given, or when something changes.
    Wait { stage: &'static str, why: String, until: Option<Timestamp> },
    /// Do this.
    Do { stage: &'static str, effect: Effect, target: Option<String>, why: String },
    /// This try has failed.
    Fail { why: String },
    /// Go on to this state.
    Go { to: State, why: String },
    /// All is as it should be.
    Rest { why: String },
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// What happened, as one sentence.
    why: String,
    /// Whether a test or diagnosis ran to its end and found something: trying again proves nothing.
    verdict: bool,
}

/// What is to be done about a machine now.
pub fn plan(observed: &Observed<'_>) -> Plan<Act, MachineStatus> {
    let mut look = Look::new(observed);
    if observed.machine.metadata.deletion_timestamp.is_some() {
        release::plan(&mut look);
    } else if let Some(reason) = observed.machine.hands_off() {
        look.wait("hands off", format!("a person forbade automatic action: {reason}"), None);
    } else {
        request::accept(&mut look);
        if look.status.operation.is_some() {
            operation::advance(&mut look);
        }
        if look.status.operation.is_none() && !look.moved {
            decide(&mut look);
        }
    }
    look.finish()
}

/// The next step of a machine with which nothing is under way.
fn decide(look: &mut Look<'_>) {
    if look.overdue() {
        return out_of_time(look, "did not end in time");
    }
    if let Some(until) = look.status.retry_at.filter(|until| *until > look.now()) {
        return look.plan.wake_at(until);
    }
    let next = match look.status.state {
        State::Onboard => onboard::next(look),
        State::SeaTrial => sea_trial::next(look),
        State::Zap => zap::next(look),
        State::ZapFailed => zap_failed::next(look),
        State::Test => test::next(look),
        State::Production => production::next(look),
        State::Triage => triage::next(look),
        State::Debug => debug::next(look),
        State::Rma => rma::next(look),
    };
    match next {
        Next::Wait { stage, why, until } => look.wait(stage, why, until),
        // What is under way is not broken off, so what could outlast the state is not begun.
        Next::Do { effect, .. } if !look.has_time_for(effect) => {
            out_of_time(look, "has no time left for what comes next")
        }
        Next::Do { stage, effect, target, why } => {
            operation::begin(look, stage, effect, target, why)
        }
        Next::Fail { why } => failed(look, &Failure { why, verdict: false }),
        Next::Go { to, why } => look.go(to, why),
        Next::Rest { why } => look.wait("", why, None),
    }
}

/// Goes where the state ends.
fn out_of_time(look: &mut Look<'_>, how: &str) {
    let last = if look.status.why.is_empty() { "nothing" } else { &look.status.why };
    let why = format!("{} {how}; last: {last}", look.status.state);
    let to = exhausted(look);
    look.go(to, why);
}

/// What follows from a failure: the state's own answer to a verdict, another try, or the end.
fn failed(look: &mut Look<'_>, failure: &Failure) {
    let own = match look.status.state {
        State::Production => return production::failed(look, failure),
        State::Test => test::failed(failure),
        State::Triage => triage::failed(failure),
        _ => None,
    };
    if let Some((to, why)) = own {
        return look.go(to, why);
    }
    look.status.attempts = look.status.attempts.saturating_add(1);
    let tries = look.observed.rules.tries(look.status.state);
    if look.status.attempts >= tries && !look.status.state.waits_for_people() {
        let to = exhausted(look);
        return look.go(to, format!("{} (tried {tries} times)", failure.why));
    }
    look.retry(&failure.why);
}

/// Where a state ends when it cannot reach its goal.
fn exhausted(look: &Look<'_>) -> State {
    match look.status.state {
        State::SeaTrial | State::ZapFailed | State::Test | State::Production => State::Triage,
        State::Zap => State::ZapFailed,
        State::Triage => triage::exhausted(look),
        people @ (State::Onboard | State::Debug | State::Rma) => people,
    }
}

/// Whether a machine may pass from one state to the other without a person.
pub fn may_follow(from: State, to: State) -> bool {
    use State::{Debug, Onboard, Production, Rma, SeaTrial, Test, Triage, Zap, ZapFailed};
    matches!(
        (from, to),
        (Onboard, SeaTrial)
            | (SeaTrial, Zap | Triage)
            | (Zap, Test | ZapFailed)
            | (ZapFailed, Zap | Triage)
            | (Test, Production | Triage)
            | (Production, Zap | Triage)
            | (Triage, Onboard | Debug | Rma)
    )
}

/// Whether a person, or a request that a person may make, can move a machine so.
pub fn may_be_sent(from: State, to: State) -> bool {
    use State::{Debug, Onboard, Production, Rma, Triage, Zap};
    match to {
        Triage => !matches!(from, Triage),
        Debug | Rma => from != to,
        Onboard => matches!(from, Debug | Rma | Triage | Production),
        Zap => from == Production,
        _ => false,
    }
}
