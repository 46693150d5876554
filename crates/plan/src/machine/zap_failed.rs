//! ZapFailed: a wipe or an update of firmware failed. A long power cut cures most of these, so the
//! power is cut and Zap tried once more; the second time the machine goes to Triage.

use super::Next;
use super::look::Look;
use api::request::{Effect, Power};
use api::state::State;

/// How often Zap may fail before the machine is examined.
const ZAPS: u32 = 2;

pub(super) fn next(look: &Look<'_>) -> Next {
    if look.status.zap_failures >= ZAPS {
        let why = format!("Zap failed {} times", look.status.zap_failures);
        return Next::Go { to: State::Triage, why };
    }
    if look.status.progress.cycled.is_none() {
        let why = "cut the power before Zap is tried again".to_owned();
        return Next::Do {
            stage: "power drain",
            effect: Effect::Power(Power::Cycle),
            target: None,
            why,
        };
    }
    Next::Go { to: State::Zap, why: "tries again after a power cut".to_owned() }
}
