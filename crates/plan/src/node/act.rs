//! Acting and handing over: a step of the ladder is asked of the machine.
//!
//! The status names the request before it is made, so it is made once. A step that fails is tried as
//! often as its rung allows; then the next rung is taken, and after the last the machine is handed
//! over to triage.

use super::facts::Cause;
use super::look::Look;
use crate::catalogue::{Proof, Rung, Step};
use crate::machine::{later, words};
use api::condition::{InService, Phase};
use api::incident::{End, Stage};
use api::request::{Ask, Chore, Effect, Outcome, Power, Shown};
use api::state::State;
use std::time::Duration;

/// How long a machine that would not leave is left alone.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// One step, in the words of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) name: &'static str,
    /// What is asked; none where the drained node is all that is needed.
    pub(super) ask: Option<Ask>,
    pub(super) target: Option<String>,
    tries: u32,
    within: Duration,
    /// Whether a test must prove it.
    pub(super) prove: bool,
}

pub(super) fn plan(look: &mut Look<'_>) {
    if !look.cordoned() {
        return look.wait(InService::Cordoned, "cordons the node again".to_owned());
    }
    if !look.granted() {
        return look.enter(Stage::Open, None, "the grant is gone; asks anew".to_owned());
    }
    let id = look.name(&look.status.rung.to_string());
    if given_up(look, &id) {
        return;
    }
    let Some(next) = current(look) else {
        return hand_over_now(look, "the ladder has no further step".to_owned());
    };
    let Some(ask) = next.ask else {
        look.status.acted = Some(look.now());
        let limit = look.observed.rules.verify;
        return look.enter(Stage::Verifying, Some(limit), format!("{} is done", next.name));
    };
    if ask.leaves() {
        return hand_over_now(look, format!("{} is the next step", next.name));
    }
    if look.status.request.as_deref() != Some(&id) {
        if look.held_by_breaker() {
            return;
        }
        look.status.request = Some(id.clone());
        look.status.step = Some(next.name.to_owned());
        look.status.acted = Some(look.now());
        let why = format!("{}: {}", next.name, look.headline());
        let limit = limit(look, &next, ask);
        look.enter(Stage::Acting, Some(limit), why);
    }
    follow(look, &id, &next, ask);
}

/// Follows a request that was made, or makes it.
fn follow(look: &mut Look<'_>, id: &str, next: &Move, ask: Ask) {
    look.say(InService::Repairing, look.status.why.clone());
    let answer = look.answer(id).map(|answer| (answer.outcome, answer.why.clone()));
    match answer {
        Some((Outcome::Succeeded, why)) => {
            let limit = look.observed.rules.verify;
            look.enter(Stage::Verifying, Some(limit), why);
        }
        Some((Outcome::Failed, _)) if !asked(look, id) => taken_back(look),
        Some((Outcome::Failed | Outcome::Refused, why)) => step_failed(look, &why),
        Some((Outcome::Running, _)) | None if spared(look, id) => {
            let why = "the fault was gone before anything was done about it".to_owned();
            look.close(End::Vanished, why);
        }
        Some((Outcome::Running, _)) if needless(look, ask) => {
            let why = format!("the fault is gone; takes {} back, if it is not done", next.name);
            look.take_back(&why);
            look.wait(InService::Repairing, why);
        }
        None if !asked(look, id) && look.held_by_breaker() => {
            // It opened before the machine was asked: the step has not begun, nor has its time.
            look.status.request = None;
            look.status.deadline = None;
        }
        Some((Outcome::Running, _)) | None if overdue(look) && asked(look, id) => {
            let took = limit(look, next, ask);
            give_up(look, &format!("{} did not end within {}", next.name, words(took)));
        }
        Some((Outcome::Running, _)) => {}
        None => {
            if overdue(look) {
                // What was never asked has not failed.
                look.status.deadline = Some(look.after(limit(look, next, ask)));
            }
            let why = format!("{}: {}", next.name, look.headline());
            look.ask(id, ask, next.target.clone(), why);
        }
    }
}

/// Whether the fault is gone, and nothing was done about it yet: the very first step has not begun,
/// nor was the BMC told. A silent node may speak again while its turn comes.
fn spared(look: &Look<'_>, id: &str) -> bool {
    let status = look.observed.machine.status.as_ref();
    let operation = status.and_then(|status| status.operation.as_ref());
    let begun = operation.filter(|operation| operation.request.as_deref() == Some(id));
    let begun = begun.is_some_and(|operation| {
        operation.told.is_some() || !matches!(operation.effect, Effect::Power(_))
    });
    !begun && went_by_itself(look)
}

/// Whether the fault is gone in the boot in which it was seen, while its first reboot is on its way: a
/// BMC that did not hear of it need not be told again.
fn needless(look: &Look<'_>, ask: Ask) -> bool {
    is_boot(ask) && went_by_itself(look) && same_boot(look)
}

/// Whether the fault is gone, and the very first step has not ended.
fn went_by_itself(look: &Look<'_>) -> bool {
    matches!(look.cause, Some(Cause::Fault(_))) && look.fault().is_none() && is_first(look)
}

/// What the node must still show when the BMC is told to do what is asked: the fault, as long as
/// nothing was done about it. What was done may have made it vanish.
pub(super) fn shown(look: &Look<'_>, ask: Ask) -> Option<Shown> {
    let row = look.fault().filter(|_| is_boot(ask) && is_first(look))?.row;
    Some(Shown { condition: row.condition.as_str().to_owned(), reason: row.reason.clone() })
}

const fn is_boot(ask: Ask) -> bool {
    matches!(ask, Ask::Reboot | Ask::PowerCycle)
}

/// Whether this is the very first step.
fn is_first(look: &Look<'_>) -> bool {
    (look.status.rung, look.status.tries, look.status.rounds) == (0, 0, 0)
}

fn same_boot(look: &Look<'_>) -> bool {
    let seen = look.observed.incident.and_then(|incident| incident.spec.boot.as_ref());
    seen.is_some() && look.observed.node.is_some_and(|node| node.boot.as_ref() == seen)
}

/// What was taken back has not failed: it was needless, or done after all, or is asked for anew.
fn taken_back(look: &mut Look<'_>) {
    if !same_boot(look) {
        let limit = look.observed.rules.verify;
        let why = "the machine has booted since it was asked".to_owned();
        return look.enter(Stage::Verifying, Some(limit), why);
    }
    if went_by_itself(look) {
        let why = "the fault was gone before anything was done about it".to_owned();
        return look.close(End::Vanished, why);
    }
    look.status.request = None;
    look.status.rounds = look.status.rounds.saturating_add(1);
    look.enter(Stage::Acting, None, "the fault is seen again; asks anew".to_owned());
}

/// Whether the machine has been asked.
pub(super) fn asked(look: &Look<'_>, id: &str) -> bool {
    look.observed.machine.spec.request.as_ref().is_some_and(|there| there.id == id)
}

/// What was given up for taking too long may end well after all: its answer is waited for before
/// anything else is done to the machine, and then it is proven.
fn given_up(look: &mut Look<'_>, id: &str) -> bool {
    if let Some(there) = &look.observed.machine.spec.request
        && there.id != id
        && there.incident.as_deref() == Some(look.incident())
        && look.answer(&there.id).is_none_or(|answer| answer.outcome == Outcome::Running)
    {
        look.status.request = Some(there.id.clone());
    }
    let Some(old) = look.status.request.clone().filter(|old| old != id) else { return false };
    if !asked(look, &old) {
        return false;
    }
    match look.answer(&old).map(|answer| answer.outcome) {
        Some(Outcome::Failed | Outcome::Refused) => return false,
        Some(Outcome::Succeeded) => {
            back(look);
            let limit = look.observed.rules.verify;
            look.enter(Stage::Verifying, Some(limit), format!("{old} ended late"));
        }
        Some(Outcome::Running) | None => {
            let why = format!("waits for {old}, which takes too long, to end");
            look.wait(InService::Repairing, why);
        }
    }
    true
}

/// Goes back to the try before this one.
fn back(look: &mut Look<'_>) {
    if look.status.tries == 0 {
        look.status.rung = look.status.rung.saturating_sub(1);
        look.status.tries = current(look).map_or(1, |current| current.tries);
    }
    look.status.tries = look.status.tries.saturating_sub(1);
}

/// Takes the same step again, or the next one; the request that failed is done with.
pub(super) fn step_failed(look: &mut Look<'_>, why: &str) {
    look.status.request = None;
    give_up(look, why);
}

/// Takes the same step again, or the next one, while the request may still be carried out.
pub(super) fn give_up(look: &mut Look<'_>, why: &str) {
    let tries = current(look).map_or(1, |current| current.tries);
    look.status.tries = look.status.tries.saturating_add(1);
    if look.status.tries >= tries {
        look.status.rung = look.status.rung.saturating_add(1);
        look.status.tries = 0;
    }
    let next = current(look).map_or("handing over", |next| next.name);
    let step = look.status.step.clone().unwrap_or_default();
    let note = format!("{step} did not help ({why}); next is {next}");
    look.plan.events.push(crate::deed::Event::warning("StepFailed", note.clone()));
    look.say(InService::Repairing, note.clone());
    look.enter(Stage::Acting, None, note);
}

fn hand_over_now(look: &mut Look<'_>, why: String) {
    look.status.tries = 0;
    look.status.request = None;
    let limit = look.observed.rules.hand_over;
    look.say(InService::HandedOver, why.clone());
    look.enter(Stage::HandingOver, Some(limit), why);
}

/// Asks the machine to leave production, until it does.
pub(super) fn hand_over(look: &mut Look<'_>) {
    look.say(InService::HandedOver, look.status.why.clone());
    if !look.cordoned() {
        return;
    }
    let ask = match (&look.cause, current(look).and_then(|current| current.ask)) {
        (Some(Cause::Release), _) => Ask::Zap,
        (_, Some(ask)) if ask.leaves() => ask,
        _ => Ask::Triage,
    };
    let id = look.name("leave");
    let answer = look.answer(&id).map(|answer| (answer.outcome, answer.why.clone(), answer.at));
    let failed = match answer {
        Some((Outcome::Failed | Outcome::Refused, why, at)) => {
            // Whoever refuses at once would refuse at once again, for as long as the cause lasts.
            let again = later(at, ASKED_AGAIN);
            if again > look.now() {
                look.plan.wake_at(again);
                return look.wait(InService::HandedOver, format!("asks again soon: {why}"));
            }
            Some(why)
        }
        _ if overdue(look) => Some(format!("the machine is still in {}", State::Production)),
        _ => None,
    };
    if let Some(why) = failed {
        look.status.tries = look.status.tries.saturating_add(1);
        let limit = look.observed.rules.hand_over;
        return look.enter(Stage::HandingOver, Some(limit), format!("asks again: {why}"));
    }
    if look.observed.node.is_some() && !look.granted() {
        return look.enter(Stage::Open, None, "the grant is gone; asks anew".to_owned());
    }
    if look.status.request.as_deref() != Some(&id) {
        look.status.request = Some(id.clone());
        look.status.step = Some(format!("{ask:?}"));
    }
    let why = look.headline();
    look.ask(&id, ask, None, why);
}

/// The step that is due; none after the last.
pub(super) fn current(look: &Look<'_>) -> Option<Move> {
    let rung = usize::try_from(look.status.rung).unwrap_or(usize::MAX);
    match look.cause.as_ref()? {
        Cause::Fault(row) => {
            let catalogue = look.observed.catalogue;
            let named = look.status.policy.as_deref().and_then(|name| catalogue.policy(name));
            let policy = named.or_else(|| catalogue.policy(&catalogue.row(row)?.policy))?;
            let part = look.observed.incident.and_then(|incident| incident.spec.part.clone());
            policy.ladder.get(rung).map(|rung| of_rung(rung, part))
        }
        Cause::Phase { phase, .. } => {
            let asks: &[Ask] = match phase {
                Phase::Reboot => &[Ask::Reboot, Ask::PowerCycle, Ask::Triage],
                Phase::PowerReset => &[Ask::PowerCycle, Ask::Triage],
                Phase::Reconfigure => &[Ask::Reconfigure, Ask::Triage],
                Phase::Test => &[Ask::Test, Ask::Triage],
                Phase::Triage => &[Ask::Triage],
            };
            asks.get(rung).map(|ask| of_phase(*ask))
        }
        Cause::Release => (rung == 0).then(|| of_phase(Ask::Zap)),
    }
}

fn of_rung(rung: &Rung, part: Option<String>) -> Move {
    let (ask, target) = match rung.step {
        Step::RestartApp => (None, None),
        Step::ResetGpu => (Some(Ask::ResetGpu), part),
        Step::RestartService => (Some(Ask::RestartService), rung.service.clone()),
        Step::Reboot => (Some(Ask::Reboot), None),
        Step::PowerCycle => (Some(Ask::PowerCycle), None),
        Step::Diagnose => (Some(Ask::Test), Some("diagnose".to_owned())),
        Step::Triage => (Some(Ask::Triage), None),
        // A leak: RMA switches the machine off first.
        Step::PowerOff | Step::Rma => (Some(Ask::Rma), None),
    };
    Move {
        name: rung.step.as_str(),
        ask,
        target,
        tries: rung.tries.max(1),
        within: rung.within,
        prove: rung.passed == Proof::Verified,
    }
}

fn of_phase(ask: Ask) -> Move {
    let name = match ask {
        Ask::Reboot => "Reboot",
        Ask::PowerCycle => "PowerReset",
        Ask::Reconfigure => "Reconfigure",
        Ask::Test => "Test",
        Ask::Zap => "Zap",
        _ => "Triage",
    };
    let prove = matches!(ask, Ask::Reboot | Ask::PowerCycle | Ask::Reconfigure);
    Move { name, ask: Some(ask), target: None, tries: 1, within: Duration::ZERO, prove }
}

/// How long a step may take: what its rung says, but never less than the machine needs for two
/// tries, or it would be given up while it is being done.
fn limit(look: &Look<'_>, next: &Move, ask: Ask) -> Duration {
    let rules = look.observed.rules;
    let effects: &[Effect] = match ask {
        Ask::ResetGpu => &[Effect::Chore(Chore::ResetGpu)],
        Ask::RestartService => &[Effect::Chore(Chore::RestartService)],
        Ask::Reconfigure => &[Effect::Chore(Chore::Firmware), Effect::Power(Power::Cycle)],
        Ask::Test if next.target.is_some() => &[Effect::Chore(Chore::Diagnose)],
        Ask::Test => &[Effect::Chore(Chore::TestQuick)],
        _ => &[Effect::Power(Power::Cycle)],
    };
    let once: Duration = effects.iter().map(|effect| rules.effect(*effect)).sum();
    next.within.max(once * 2 + rules.backoff_max)
}

/// Whether the stage took longer than allowed.
pub(super) fn overdue(look: &Look<'_>) -> bool {
    look.status.deadline.is_some_and(|deadline| deadline <= look.now())
}
