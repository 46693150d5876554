//! What happened to a machine and its nodes, as one timeline.

use api::{Incident, Machine};
use jiff::Timestamp;

/// One line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// When.
    pub at: Timestamp,
    /// What it belongs to: the state entered, or the incident.
    pub what: String,
    /// What happened, as one sentence.
    pub story: String,
}

/// Everything that the objects remember, oldest first. Equal lines are one.
pub fn history(machine: &Machine, incidents: &[Incident]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut tell = |at: Timestamp, what: &str, story: &str| {
        lines.push(Line { at, what: what.to_owned(), story: story.to_owned() });
    };
    for entry in machine.status.iter().flat_map(|status| &status.history) {
        tell(entry.at, &entry.what, &entry.why);
    }
    for incident in incidents {
        let spec = &incident.spec;
        let seen = spec.evidence.first().map_or("", String::as_str);
        let opened = match seen {
            "" => format!("{} opens an incident", spec.by),
            seen => format!("{} reports: {seen}", spec.by),
        };
        tell(spec.opened, &spec.cause, &opened);
        let Some(status) = &incident.status else { continue };
        for moment in &status.timeline {
            tell(moment.at, &spec.cause, &moment.what);
        }
        if let (Some(closed), Some(end)) = (status.closed, status.end) {
            tell(closed, &spec.cause, &format!("{end:?}: {}", status.why));
        }
    }
    lines.sort();
    lines.dedup();
    lines
}
