//! Test: acceptance, quick or a burn-in of 24 h, against the floors of the type. A test that finds
//! something sends the machine to Triage at once, since running it until it passes proves nothing;
//! one that does not end is tried again.

use super::look::Look;
use super::{Failure, Next};
use api::instance_type::Acceptance;
use api::request::{Chore, Effect, Power};
use api::state::State;

pub(super) fn next(look: &Look<'_>) -> Next {
    let progress = &look.status.progress;
    if progress.tested.is_some() {
        return Next::Go { to: State::Production, why: "the acceptance test is passed".to_owned() };
    }
    let observed = look.observed;
    let image = crate::boot::image(observed.machine, observed.pool, observed.kind);
    let runs = look.status.agent.as_ref().map(|agent| &agent.image);
    if progress.booted.is_none() && (runs.is_none() || image.is_some() && runs != image) {
        let why = format!("boot the image {}", image.map_or("of the type", String::as_str));
        return Next::Do { stage: "boot", effect: Effect::Power(Power::Cycle), target: None, why };
    }
    let (stage, chore) = match look.acceptance() {
        Acceptance::Quick => ("quick acceptance", Chore::TestQuick),
        Acceptance::Full => ("burn-in", Chore::TestFull),
    };
    Next::Do {
        stage,
        effect: Effect::Chore(chore),
        target: None,
        why: format!("prove the machine: {stage}"),
    }
}

pub(super) fn failed(failure: &Failure) -> Option<(State, String)> {
    failure.verdict.then(|| (State::Triage, format!("the acceptance test failed: {}", failure.why)))
}
