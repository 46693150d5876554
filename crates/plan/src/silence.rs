//! Whether a node of which nothing is heard is reported as a fault.
//!
//! That a node is silent is found by [`nodelifecycle`](crate::nodelifecycle), which marks it; here it
//! becomes evidence with the boot that fell silent, in the catalogue's row `node/heartbeat-lost`. The
//! silence of a machine that is being worked on is expected and no evidence.

use jiff::{SignedDuration, Timestamp};

/// How long a node must have been marked: with the grace before the mark this is the row's bound.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// The row's reason.
pub const REASON: &str = "HeartbeatLost";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Since when the node's readiness is unknown, if it is.
    pub unknown: Option<Timestamp>,
    /// Whether its silence is reported.
    pub reported: bool,
    /// Whether its machine is in production and nothing is being done to it that would silence it.
    pub unexpected: bool,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Report that it is silent, or that it is no longer.
    pub report: Option<bool>,
    /// When it will have been silent for too long.
    pub next: Option<Timestamp>,
}

/// Decides about a node.
pub fn plan(observed: &Observed) -> Plan {
    let Some(unknown) = observed.unknown else {
        return Plan { report: observed.reported.then_some(false), next: None };
    };
    if observed.reported || !observed.unexpected {
        return Plan::default();
    }
    let due = unknown.checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
    match due <= observed.now {
        true => Plan { report: Some(true), next: None },
        false => Plan { report: None, next: Some(due) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_is_reported_once_and_taken_back_when_the_node_speaks() {
        let plan = |unknown: Option<i64>, reported, unexpected, now| {
            let unknown = unknown.map(at);
            super::plan(&Observed { unknown, reported, unexpected, now: at(now) })
        };
        let nothing = Plan::default();
        assert_eq!(plan(None, false, true, 100), nothing);
        assert_eq!(plan(Some(95), false, true, 100), Plan { report: None, next: Some(at(105)) });
        assert_eq!(plan(Some(90), false, true, 100).report, Some(true));
        assert_eq!(plan(Some(90), false, false, 100), nothing, "it reboots");
        assert_eq!(plan(Some(90), true, false, 100), nothing, "its repair silences it further");
        assert_eq!(plan(None, true, false, 100).report, Some(false));
    }

    #[test]
    fn the_catalogue_has_its_row() {
        let catalogue = Catalogue::load(&[]).unwrap();
        let row = catalogue.row("node/heartbeat-lost").unwrap();
        assert_eq!((row.condition.as_str(), row.reason.as_str()), ("NodeSilent", REASON));
    }
}
