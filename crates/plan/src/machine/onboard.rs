//! Onboard: a technician racks and cables the machine, and certifies it. Waits without a deadline,
//! since only hands can help; the condition Stalled says so at once. A machine that returns without
//! having been touched is certified still and passes.

use super::Next;
use super::look::Look;
use api::state::State;

pub(super) fn next(look: &Look<'_>) -> Next {
    let (certified, needed) = (look.observed.machine.spec.certified, look.status.onboardings);
    if certified < needed {
        let why =
            format!("waits for a technician to certify rack and cables (spec.certified: {needed})");
        return Next::Wait { stage: "to be certified", why, until: None };
    }
    Next::Go { to: State::SeaTrial, why: "rack and cables are certified".to_owned() }
}
