//! Triage: out of the cluster, the machine is booted and examined. A finding sends it to RMA with
//! the part named; a machine that does not boot goes there too. One found sound returns to Onboard,
//! certified still, unless that has happened too often: then a person looks (Debug).

use super::look::{Look, later};
use super::{Failure, Next};
use api::request::{Chore, Effect, Power};
use api::state::State;
use std::time::Duration;

/// Over which time diagnoses without a finding are counted.
const SOUND_WINDOW: Duration = Duration::from_secs(30 * 86_400);

pub(super) fn next(look: &mut Look<'_>) -> Next {
    let progress = &look.status.progress;
    if progress.booted.is_none() {
        let why = "boot for the diagnosis after a power cut".to_owned();
        return Next::Do { stage: "boot", effect: Effect::Power(Power::Cycle), target: None, why };
    }
    if progress.inventoried.is_none() {
        let why = "see whether parts are missing".to_owned();
        return Next::Do {
            stage: "inventory",
            effect: Effect::Chore(Chore::Inventory),
            target: None,
            why,
        };
    }
    if let (Some(found), Some(kind)) = (&look.status.inventory, look.observed.kind) {
        let missing = found.differences(&kind.spec.expected);
        if !missing.is_empty() {
            let why = format!("parts or cables differ: {}", missing.join(", "));
            return Next::Go { to: State::Rma, why };
        }
    }
    if progress.diagnosed.is_none() {
        let why = "find the broken part".to_owned();
        return Next::Do {
            stage: "diagnosis",
            effect: Effect::Chore(Chore::Diagnose),
            target: None,
            why,
        };
    }
    let sound = sound(look) + 1;
    look.record(SOUND, "the diagnosis found nothing");
    if sound > look.observed.rules.sound_limit {
        let why = format!("the diagnosis found nothing, now {sound} times in 30 days");
        return Next::Go { to: State::Debug, why };
    }
    Next::Go { to: State::Onboard, why: "the diagnosis found nothing; begins anew".to_owned() }
}

pub(super) fn failed(failure: &Failure) -> Option<(State, String)> {
    failure.verdict.then(|| (State::Rma, format!("the diagnosis found a fault: {}", failure.why)))
}

/// Where triage ends in vain: a machine that never booted is broken, one that booted is a riddle.
pub(super) fn exhausted(look: &Look<'_>) -> State {
    let booted = look.status.agent.as_ref().map(|agent| agent.since);
    if booted > look.status.since { State::Debug } else { State::Rma }
}

const SOUND: &str = "sound";

fn sound(look: &Look<'_>) -> usize {
    let recent = |at| later(at, SOUND_WINDOW) > look.now();
    look.status.history.iter().filter(|entry| entry.what == SOUND && recent(entry.at)).count()
}
