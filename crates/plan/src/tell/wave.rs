//! A wave as one thing: what fell ill together, why nothing is done, and who goes on.

use super::{ago, count, open_ended};
use api::incident::Stage;
use api::{Breaker, Incident};
use jiff::Timestamp;

/// The story of an open breaker in one sentence.
pub fn wave(now: Timestamp, breaker: &Breaker, incidents: &[Incident]) -> String {
    let name = breaker.metadata.name.as_deref().unwrap_or_default();
    let status = breaker.status.clone().unwrap_or_default();
    let since = status.since.map_or(String::new(), |since| {
        format!(" at {} ({} ago)", since.strftime("%H:%M:%S"), ago(now, since))
    });
    let acted = incidents
        .iter()
        .filter(|incident| status.nodes.contains(&incident.spec.node))
        .filter(|incident| status.since.is_some_and(|since| incident.spec.opened >= since))
        .filter(|incident| {
            let status = incident.status.as_ref();
            status.is_some_and(|s| s.acted.is_some() && s.stage != Stage::Open)
        })
        .count();
    let done = match acted {
        0 => "none of them was touched".to_owned(),
        acted => format!("{} of them had been begun with", count(acted, "node")),
    };
    format!(
        "{}{since}; {done}; breaker {name} is open: look, then reset it with {}",
        open_ended(&status.why),
        reset(name, status.openings)
    )
}

/// The command that acknowledges what a breaker has seen.
fn reset(name: &str, openings: u32) -> String {
    format!(
        "kubectl patch breaker {name} --type=merge -p '{{\"spec\":{{\"acknowledged\":{openings},\
         \"by\":\"YOU\"}}}}'"
    )
}
