//! RMA: a part is broken. The machine is switched off, so that hands are safe, and waits for the
//! vendor; a request for Onboard brings it back, and a technician certifies it anew.

use super::Next;
use super::look::Look;
use api::request::{Effect, Power};

/// How often switching off is tried before the machine is left as it is.
const TRIES: u32 = 3;

pub(super) fn next(look: &Look<'_>) -> Next {
    let since = look.status.history.iter().find(|entry| entry.what == "RMA");
    let cause = since.map_or("it was sent here", |entry| entry.why.as_str());
    if look.status.progress.cycled.is_none() && look.status.attempts < TRIES {
        let why = "switch off, so that hands are safe".to_owned();
        return Next::Do {
            stage: "switching off",
            effect: Effect::Power(Power::Off),
            target: None,
            why,
        };
    }
    let power =
        if look.status.progress.cycled.is_some() { "off" } else { "could not be switched off" };
    let why = format!("waits for the vendor ({cause}); {power}; ask for Onboard when repaired");
    Next::Wait { stage: "with the vendor", why, until: None }
}
