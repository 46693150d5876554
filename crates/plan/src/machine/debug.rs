//! Debug: a person finds out what is wrong. Left by a request alone: Onboard when cured, RMA when a
//! part must be replaced.

use super::Next;
use super::look::Look;

pub(super) fn next(look: &Look<'_>) -> Next {
    let since = look.status.history.iter().find(|entry| entry.what == "Debug");
    let cause = since.map_or("it was sent here", |entry| entry.why.as_str());
    let why = format!("waits for a person ({cause}); ask for Onboard when cured, RMA if broken");
    Next::Wait { stage: "in a person's hands", why, until: None }
}
