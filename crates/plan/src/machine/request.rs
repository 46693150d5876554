//! What is asked of a machine: accepted, refused, or taken back.
//!
//! A request is answered once. One whose boot or node is no longer there is refused: it was decided
//! upon evidence that has passed.

use super::look::Look;
use super::{may_be_sent, operation, production};
use crate::deed::Event;
use api::machine::Progress;
use api::names::manager;
use api::request::{Answer, Ask, Outcome, Request};
use api::state::State;

/// Looks at the machine's request and answers it, if it is new.
pub(super) fn accept(look: &mut Look<'_>) {
    let Some(request) = &look.observed.machine.spec.request else {
        return withdraw(look);
    };
    if look.status.answer.as_ref().is_some_and(|answer| answer.id == request.id) {
        return;
    }
    withdraw(look);
    if look.status.operation.is_some() {
        return; // what is under way ends first; its deadline bounds the wait
    }
    if let Err(why) = allowed(look, request) {
        look.plan.events.push(Event::warning("RequestRefused", format!("{}: {why}", request.id)));
        return answer(look, request, Outcome::Refused, why);
    }
    if !is_routine(request) {
        look.plan.events.push(Event::normal(
            "RequestAccepted",
            format!("{} asks for {:?}: {}", request.by, request.ask, request.why),
        ));
    }
    if request.ask.leaves() {
        let why = format!("{} asked: {}", request.by, request.why);
        answer(
            look,
            request,
            Outcome::Succeeded,
            format!("the machine leaves {}", look.status.state),
        );
        return look.go(destination(request.ask), why);
    }
    look.status.progress = Progress::default();
    look.status.attempts = 0;
    look.status.retry_at = None;
    answer(look, request, Outcome::Running, request.why.clone());
}

/// Whether a request is the test of an idle node that is made as a matter of course. It is told when it
/// is asked and stands among the results; only a failure is worth more words. Said in the history each
/// hour, it would push out within three days what must survive.
pub(super) fn is_routine(request: &Request) -> bool {
    request.ask == Ask::Test && request.by == manager::NODE && request.incident.is_none()
}

/// Writes the answer to a request.
pub(super) fn answer(look: &mut Look<'_>, request: &Request, outcome: Outcome, why: String) {
    look.status.answer = Some(Answer {
        id: request.id.clone(),
        outcome,
        why,
        boot: look.boot().map(str::to_owned),
        at: look.now(),
    });
}

/// Ends the request that was being carried out and is asked no longer.
fn withdraw(look: &mut Look<'_>) {
    let running = look.status.answer.as_ref().is_some_and(|a| a.outcome == Outcome::Running);
    if !running {
        return;
    }
    operation::cancel(look);
    if look.status.operation.is_some() {
        return; // a machine that is being switched is not left half-way
    }
    let now = look.now();
    if let Some(answer) = &mut look.status.answer {
        answer.outcome = Outcome::Failed;
        "taken back by whoever asked".clone_into(&mut answer.why);
        answer.at = now;
    }
    production::settle(look);
}

fn allowed(look: &Look<'_>, request: &Request) -> Result<(), String> {
    let state = look.status.state;
    if request.ask.leaves() {
        let to = destination(request.ask);
        if !may_be_sent(state, to) {
            return Err(format!("a machine in {state} cannot be sent to {to}"));
        }
    } else if state != State::Production {
        return Err(format!(
            "a machine in {state} is worked on by its lifecycle; only one in Production takes {:?}",
            request.ask
        ));
    }
    let node = look.status.node.as_ref().map(|node| node.uid.as_str());
    if let Some(meant) = &request.node_uid
        && node != Some(meant)
    {
        return Err("it was decided for a node that no longer runs here".to_owned());
    }
    if let Some(meant) = &request.boot
        && look.boot() != Some(meant)
    {
        return Err(format!("it was decided for boot {meant}, and the machine has booted since"));
    }
    Ok(())
}

const fn destination(ask: Ask) -> State {
    match ask {
        Ask::Zap => State::Zap,
        Ask::Debug => State::Debug,
        Ask::Rma => State::Rma,
        Ask::Onboard => State::Onboard,
        // The others do not leave; triage is where a machine is safe.
        _ => State::Triage,
    }
}
