//! One effect on a machine: begun, followed, ended.
//!
//! It is written down before it is done. Whether a power operation has happened is told by the boot
//! that runs and by the BMC's word about its last reset, never by our memory; so one that a crash
//! cut off before its deed is done now, and one that was done is never done again.

use super::look::{Look, later, words};
use super::{Act, Failure, Heard, failed, production};
use crate::deed::Event;
use crate::verify;
use api::machine::{Progress, TestResult};
use api::request::{Chore, Effect, Operation, Outcome, Power, Report, Task};
use jiff::Timestamp;

/// Begins an effect, once everything that it needs is there.
pub(super) fn begin(
    look: &mut Look<'_>,
    stage: &str,
    effect: Effect,
    target: Option<String>,
    why: String,
) {
    let reset_before = match effect {
        Effect::Chore(_) => None,
        Effect::Power(power) => match ready_for(look, stage, power, &why) {
            Some(reset_before) => reset_before,
            None => return,
        },
    };
    if matches!(effect, Effect::Chore(_)) && look.boot().is_none() {
        return failed(look, &failure("no agent runs on the machine"));
    }
    let now = look.now();
    let operation = Operation {
        id: id(look, effect),
        effect,
        target: target.clone(),
        request: current_request(look),
        boot: look.boot().map(str::to_owned),
        reset_before,
        told: None,
        why: why.clone(),
        since: now,
        deadline: later(now, look.observed.rules.effect(effect)),
    };
    look.status.retry_at = None;
    look.plan.wake_at(operation.deadline);
    if let (Effect::Chore(chore), Some(boot)) = (effect, operation.boot.clone()) {
        look.status.task =
            Some(Task { id: operation.id.clone(), chore, target, boot, why: why.clone() });
    }
    look.status.operation = Some(operation);
    look.wait(stage, why.clone(), None);
    if let Effect::Power(power) = effect {
        carry_out(look, power, &why);
        let accept = look.after(look.observed.rules.accept);
        look.plan.wake_at(accept);
    }
}

/// Follows the operation that is under way.
pub(super) fn advance(look: &mut Look<'_>) {
    let Some(operation) = look.status.operation.clone() else { return };
    let progress = match operation.effect {
        Effect::Power(power) => power_progress(look, &operation, power),
        Effect::Chore(chore) => chore_progress(look, &operation, chore),
    };
    match progress {
        Some(Ok(())) => done(look, &operation),
        Some(Err(failure)) => {
            end(look);
            failed(look, &failure);
        }
        None if operation.deadline <= look.now() => {
            end(look);
            let took = words(look.observed.rules.effect(operation.effect));
            failed(
                look,
                &failure(&format!("{} did not end within {took}", name(operation.effect))),
            );
        }
        None => look.plan.wake_at(operation.deadline),
    }
}

/// Takes back an operation that may be broken off: a test at any moment, and power that the BMC was told
/// to switch and, by its own word, has not.
pub(super) fn cancel(look: &mut Look<'_>) {
    let Some(operation) = &look.status.operation else { return };
    let cancellable = match operation.effect {
        Effect::Chore(chore) => chore != Chore::Diagnose && verify::is_test(chore),
        Effect::Power(power) => {
            let (told, accept) = (told_at(operation), look.observed.rules.accept);
            let heard = look.fresh_bmc().filter(|_| later(told, accept) <= look.now());
            heard.is_some_and(|heard| undone(operation, power, heard))
        }
    };
    if cancellable {
        end(look);
    }
}

fn told_at(operation: &Operation) -> Timestamp {
    operation.told.unwrap_or(operation.since)
}

/// Whether the BMC's own word is that it has not done what it was told.
fn undone(operation: &Operation, power: Power, heard: &Heard) -> bool {
    match (power, heard) {
        (Power::Off, Heard::Answer { on, .. }) => *on,
        (_, Heard::Answer { on, last_reset }) => {
            let known = operation.reset_before.is_some() && last_reset.is_some();
            let unmoved = known && *last_reset == operation.reset_before;
            unmoved || (power == Power::On && !on)
        }
        (_, Heard::Error(_) | Heard::Silence) => false,
    }
}

/// What the BMC says about its last reset, or nothing and the reason why power must wait.
fn ready_for(look: &mut Look<'_>, stage: &str, power: Power, why: &str) -> Option<Option<String>> {
    let room = look.observed.power_ons;
    if power != Power::Off && room.under_way >= room.allowed {
        let why = format!(
            "{} machines of the rack are being switched on, {} may be; waits for one to finish",
            room.under_way, room.allowed
        );
        let until = look.after(look.observed.rules.accept);
        look.wait(stage, why, Some(until));
        return None;
    }
    match look.fresh_bmc() {
        Some(Heard::Answer { last_reset, .. }) => Some(last_reset.clone()),
        Some(Heard::Silence) => lost(look, stage, "the BMC does not answer"),
        Some(Heard::Error(error)) => {
            lost(look, stage, &format!("the BMC answers with an error: {error}"))
        }
        None => {
            look.wait(stage, format!("asks the BMC how things stand, to {why}"), None);
            look.deed(Act::ReadBmc, why);
            let until = look.after(look.observed.rules.fresh);
            look.plan.wake_at(until);
            None
        }
    }
}

/// Waits for a BMC that may come back; gives up after a while.
fn lost(look: &mut Look<'_>, stage: &str, why: &str) -> Option<Option<String>> {
    let rules = look.observed.rules;
    let since = look.status.bmc_lost.unwrap_or(look.now());
    if later(since, rules.bmc_patience) <= look.now() {
        // Another try begins with patience anew.
        look.status.bmc_lost = None;
        failed(look, &failure(why));
    } else {
        look.wait(stage, format!("{why}; asks again every {}", words(rules.accept)), None);
        let until = look.after(rules.accept);
        look.plan.wake_at(until);
    }
    None
}

fn power_progress(
    look: &mut Look<'_>,
    operation: &Operation,
    power: Power,
) -> Option<Result<(), Failure>> {
    let booted = look.boot().is_some() && look.boot() != operation.boot.as_deref();
    if power != Power::Off && booted {
        return Some(Ok(()));
    }
    let accepted = later(told_at(operation), look.observed.rules.accept);
    // An answer of the same instant counts: asked again at once it would say the same for ever.
    let heard = look.observed.bmc.filter(|reading| reading.at >= operation.since);
    if let (Power::Off, Some(Heard::Answer { on: false, .. })) = (power, heard.map(|r| &r.heard)) {
        return Some(Ok(()));
    }
    if look.now() < accepted {
        look.plan.wake_at(accepted);
        if power == Power::Off && heard.is_none() {
            look.deed(Act::ReadBmc, "see whether the machine is off");
        }
        return None;
    }
    if operation.deadline <= look.now() {
        // It ends in this look, whatever the BMC would say.
        return None;
    }
    let Some(heard) = look.fresh_bmc() else {
        look.deed(Act::ReadBmc, "see whether the BMC did what it was told");
        let until = look.after(look.observed.rules.fresh);
        look.plan.wake_at(until);
        return None;
    };
    if undone(operation, power, heard) {
        look.plan.events.push(Event::warning(
            "NothingHappened",
            format!(
                "the BMC was told to {} and has not done it; told again",
                name(operation.effect)
            ),
        ));
        carry_out(look, power, &operation.why.clone());
    }
    let until = look.after(look.observed.rules.accept);
    look.plan.wake_at(until);
    None
}

fn chore_progress(
    look: &Look<'_>,
    operation: &Operation,
    chore: Chore,
) -> Option<Result<(), Failure>> {
    if look.boot() != operation.boot.as_deref() {
        return Some(Err(failure(&format!(
            "the machine booted during {}",
            name(operation.effect)
        ))));
    }
    let report = look.status.report.as_ref().filter(|report| report.id == operation.id)?;
    match report.outcome {
        Outcome::Running => None,
        Outcome::Succeeded => {
            let verdict = verify::judge(chore, report, look.observed.kind);
            Some(if verdict.passed {
                Ok(())
            } else {
                Err(Failure { why: verdict.detail, verdict: true })
            })
        }
        Outcome::Failed | Outcome::Refused => {
            Some(Err(Failure { why: told(report), verdict: verify::is_test(chore) }))
        }
    }
}

fn told(report: &Report) -> String {
    match &report.part {
        Some(part) => format!("{} ({part})", report.detail),
        None => report.detail.clone(),
    }
}

/// Ends an operation that did what it should.
fn done(look: &mut Look<'_>, operation: &Operation) {
    let id = Some(operation.id.clone());
    end(look);
    let progress = &mut look.status.progress;
    match operation.effect {
        Effect::Power(Power::Off) => *progress = Progress { cycled: id, ..Progress::default() },
        Effect::Power(Power::Cycle) => {
            progress.cycled.clone_from(&id);
            progress.booted = id;
        }
        Effect::Power(Power::On | Power::GracefulRestart | Power::ForceRestart) => {
            progress.booted = id;
        }
        Effect::Chore(Chore::Inventory) => progress.inventoried = id,
        Effect::Chore(Chore::Sanitise) => {
            progress.sanitised = id;
            look.status.tenant = None;
        }
        Effect::Chore(Chore::Firmware) => {
            // What was flashed counts after a boot, and is looked at again.
            progress.flashed = id;
            progress.cycled = None;
            progress.inventoried = None;
        }
        Effect::Chore(Chore::ResetGpu | Chore::RestartService) => progress.mended = id,
        Effect::Chore(
            Chore::TestReadiness | Chore::TestQuick | Chore::TestIdle | Chore::TestFull,
        ) => progress.tested = id,
        Effect::Chore(Chore::Diagnose) => progress.diagnosed = id,
    }
    look.status.why = format!("{} is done", name(operation.effect));
}

/// Clears operation and task, and keeps the result of a test.
fn end(look: &mut Look<'_>) {
    let Some(operation) = look.status.operation.take() else { return };
    look.status.task = None;
    let Effect::Chore(chore) = operation.effect else { return };
    let Some(report) = look.status.report.clone().filter(|r| r.id == operation.id) else { return };
    if !verify::is_test(chore) || report.outcome == Outcome::Running {
        return;
    }
    let verdict = verify::judge(chore, &report, look.observed.kind);
    let agent = look.status.agent.as_ref();
    let result = TestResult {
        test: verify::name(chore).to_owned(),
        passed: verdict.passed,
        detail: verdict.detail,
        image: agent.map(|agent| agent.image.clone()),
        kernel: agent.and_then(|agent| agent.kernel.clone()),
        figures: report.figures,
        at: report.at,
    };
    verify::keep(&mut look.status.tests, result);
}

fn carry_out(look: &mut Look<'_>, power: Power, why: &str) {
    let now = look.now();
    let Some(operation) = &mut look.status.operation else { return };
    operation.told = Some(now);
    let operation = operation.id.clone();
    look.deed(Act::Power { power, operation }, why);
}

/// Names an operation by what it is for, what it does and which try it is; two operations of one
/// machine never share a name, since a state is entered once at a time.
fn id(look: &Look<'_>, effect: Effect) -> String {
    let purpose = current_request(look).unwrap_or_else(|| {
        let since = look.status.since.map_or(0, |since| since.as_millisecond());
        format!("{}-{since}", look.status.state.label())
    });
    format!("{purpose}-{}-{}-{}", slug(effect), look.status.attempts, look.now().as_millisecond())
}

fn current_request(look: &Look<'_>) -> Option<String> {
    production::request(look).map(|request| request.id.clone())
}

fn failure(why: &str) -> Failure {
    Failure { why: why.to_owned(), verdict: false }
}

const fn slug(effect: Effect) -> &'static str {
    match effect {
        Effect::Power(Power::On) => "on",
        Effect::Power(Power::Off) => "off",
        Effect::Power(Power::GracefulRestart) => "restart",
        Effect::Power(Power::ForceRestart) => "force-restart",
        Effect::Power(Power::Cycle) => "cycle",
        Effect::Chore(chore) => verify::name(chore),
    }
}

/// An effect as people say it.
const fn name(effect: Effect) -> &'static str {
    match effect {
        Effect::Power(Power::On) => "switch on",
        Effect::Power(Power::Off) => "switch off",
        Effect::Power(Power::GracefulRestart) => "restart",
        Effect::Power(Power::ForceRestart) => "restart by force",
        Effect::Power(Power::Cycle) => "cycle the power",
        Effect::Chore(Chore::Inventory) => "taking the inventory",
        Effect::Chore(Chore::Sanitise) => "wiping",
        Effect::Chore(Chore::Firmware) => "updating firmware",
        Effect::Chore(Chore::ResetGpu) => "resetting the GPU",
        Effect::Chore(Chore::RestartService) => "restarting the service",
        Effect::Chore(Chore::TestReadiness) => "the readiness test",
        Effect::Chore(Chore::TestQuick) => "the quick test",
        Effect::Chore(Chore::TestIdle) => "the idle test",
        Effect::Chore(Chore::TestFull) => "the burn-in",
        Effect::Chore(Chore::Diagnose) => "the diagnosis",
    }
}
