//! Verifying: before a node is trusted again it is ready, shows its fault no more, and has passed a
//! test since the step was taken.

use super::act::{asked, current, give_up, overdue, step_failed};
use super::facts::{Cause, NodeSeen, Ready};
use super::look::Look;
use api::condition::InService;
use api::incident::End;
use api::request::{Ask, Outcome};

pub(super) fn plan(look: &mut Look<'_>) {
    look.say(InService::Verifying, look.status.why.clone());
    if let Some(text) = again(look) {
        return step_failed(look, &format!("the fault is seen again: {text}"));
    }
    let ready = |node: &NodeSeen| node.ready == Ready::Yes && look.of_this_boot(node);
    let ready = look.observed.node.is_some_and(ready);
    if !ready {
        if overdue(look) {
            return step_failed(look, "the node is not ready");
        }
        return look.wait(InService::Verifying, "waits for the node to be ready".to_owned());
    }
    if !current(look).is_some_and(|current| current.prove) {
        // Nothing else proves this step but that the fault is seen no more.
        if look.fault().is_none() {
            return solved(look, "done, and the fault is gone");
        }
        if overdue(look) {
            return step_failed(look, "the fault is still seen");
        }
        return look
            .wait(InService::Verifying, "waits for the fault to be seen no more".to_owned());
    }
    if !look.cordoned() {
        return look.wait(InService::Verifying, "cordons the node again".to_owned());
    }
    let id = format!("{}-proof", look.name(&look.status.rung.to_string()));
    let renewed = overdue(look) && !asked(look, &id) && look.answer(&id).is_none();
    if renewed || look.status.request.as_deref() != Some(&id) {
        // What was never asked has not failed.
        look.status.request = Some(id.clone());
        // The test has its own bound; the readiness had this one.
        let limit =
            look.observed.rules.effect(api::request::Effect::Chore(api::request::Chore::TestQuick));
        let limit = limit * 2 + look.observed.rules.backoff_max;
        look.enter(
            api::incident::Stage::Verifying,
            Some(limit),
            "proven by the quick test".to_owned(),
        );
    }
    let answer = look.answer(&id).map(|answer| (answer.outcome, answer.why.clone()));
    match answer {
        Some((Outcome::Succeeded, _)) => solved(look, "the quick test is passed"),
        Some((Outcome::Failed | Outcome::Refused, why)) => step_failed(look, &why),
        Some((Outcome::Running, _)) | None if overdue(look) => {
            give_up(look, "the test did not end in time");
        }
        Some((Outcome::Running, _)) => {}
        None => {
            let why = "prove the node after its repair".to_owned();
            look.ask(&id, Ask::Test, Some("quick".to_owned()), why);
        }
    }
}

/// What was seen of the same fault after the step was taken.
fn again(look: &Look<'_>) -> Option<String> {
    let fault = look.fault()?;
    let acted = look.status.acted?;
    (fault.since > acted).then(|| fault.text.clone())
}

fn solved(look: &mut Look<'_>, how: &str) {
    let end = match look.cause {
        Some(Cause::Fault(_)) => End::Solved,
        _ => End::Done,
    };
    let step = look.status.step.clone().unwrap_or_else(|| "nothing".to_owned());
    look.close(end, format!("{step}: {how}"));
}
