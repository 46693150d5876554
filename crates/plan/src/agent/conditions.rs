//! From what shall be said to the conditions that must be written, and back.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::catalogue::{Catalogue, Condition, Row};
use api::evidence::Evidence;

/// The reason of a condition that holds no longer.
const OVER: &str = "Over";

/// One fault, as a node's condition says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The row of the catalogue, where it is named.
    pub row: Option<String>,
    /// The condition's type.
    pub kind: Condition,
    /// Its reason: the row's.
    pub reason: String,
    /// Its message.
    pub evidence: Evidence,
    /// Since when the fault has been seen.
    pub since: Timestamp,
}

impl Said {
    /// The row of the catalogue that it is about.
    #[must_use]
    pub fn about<'c>(&self, catalogue: &'c Catalogue) -> Option<&'c Row> {
        let says = |row: &&Row| row.condition == self.kind && row.reason == self.reason;
        let named = self.row.as_deref().and_then(|row| catalogue.row(row));
        named.filter(says).or_else(|| catalogue.rows().find(says))
    }

    fn message(&self) -> String {
        match &self.row {
            Some(row) => self.evidence.with_row(row),
            None => self.evidence.to_string(),
        }
    }
}

/// The faults that a node shows.
#[must_use]
pub fn read(conditions: &[NodeCondition]) -> Vec<Said> {
    let holds = conditions.iter().filter(|condition| condition.status == "True");
    holds
        .filter_map(|condition| {
            let kind = Condition::ALL.iter().find(|kind| kind.as_str() == condition.type_)?;
            let message = condition.message.as_deref().unwrap_or_default();
            Some(Said {
                row: Evidence::row(message).map(str::to_owned),
                kind: *kind,
                reason: condition.reason.clone().unwrap_or_default(),
                evidence: Evidence::read(message),
                since: condition.last_transition_time.as_ref().map_or(Timestamp::MIN, |at| at.0),
            })
        })
        .collect()
}

/// Whose word on a node it is, and when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The boot that runs.
    pub boot: &'a str,
    /// Which rows are the writer's to tell; what is said of others is left alone.
    pub tells: fn(&Row) -> bool,
    /// The types that the writer has set before, and may take back.
    pub ours: &'a BTreeSet<Condition>,
    /// What rows there are.
    pub catalogue: &'a Catalogue,
    /// The time.
    pub now: Timestamp,
}

impl Writer<'_> {
    /// The conditions that must be written so that a node shows `wanted`, and nothing of ours that is
    /// over or of an earlier boot. None if all is as it should be.
    #[must_use]
    pub fn changes(&self, wanted: &[Said], node: &[NodeCondition]) -> Vec<NodeCondition> {
        let shown = read(node);
        let foreign = |said: &Said| said.about(self.catalogue).is_none_or(|row| !(self.tells)(row));
        let boot = |said: &Said| said.evidence.boot.clone();
        let stale = |said: &Said| boot(said).is_some_and(|then| then != self.boot);
        let set = wanted.iter().filter_map(|said| {
            match shown.iter().find(|there| there.kind == said.kind) {
                Some(there) if same(there, said) => None,
                // Somebody else's, and of this boot: ours waits for its turn.
                Some(there) if foreign(there) && !stale(there) => None,
                _ => Some(condition(said, self.now)),
            }
        });
        let over = shown.iter().filter(|there| {
            let wanted = wanted.iter().any(|said| said.kind == there.kind);
            !wanted && !foreign(there) && (stale(there) || self.ours.contains(&there.kind))
        });
        set.chain(over.map(|there| cleared(there, self.boot, self.now))).collect()
    }
}

/// Whether a node shows it already. A condition knows whole seconds only.
fn same(there: &Said, said: &Said) -> bool {
    let message = said.message();
    there.reason == said.reason
        && there.row == said.row
        && there.evidence == Evidence::read(&message)
        && there.since.as_second() == said.since.as_second()
}

fn condition(said: &Said, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: said.kind.as_str().to_owned(),
        status: "True".to_owned(),
        reason: Some(said.reason.clone()),
        message: Some(said.message()),
        last_transition_time: Some(second(said.since)),
        last_heartbeat_time: Some(second(now)),
    }
}

fn cleared(there: &Said, boot: &str, now: Timestamp) -> NodeCondition {
    let text = if there.evidence.boot.as_deref() == Some(boot) {
        format!("over: {}", there.evidence.text)
    } else {
        format!("was seen during an earlier boot: {}", there.evidence.text)
    };
    NodeCondition {
        type_: there.kind.as_str().to_owned(),
        status: "False".to_owned(),
        reason: Some(OVER.to_owned()),
        message: Some(text),
        last_transition_time: Some(second(now)),
        last_heartbeat_time: Some(second(now)),
    }
}

fn second(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn said(kind: Condition, reason: &str, boot: Option<&str>) -> Said {
        let evidence = Evidence {
            text: "seen".to_owned(),
            boot: boot.map(str::to_owned),
            part: Some("p".to_owned()),
            count: None,
        };
        Said { row: None, kind, reason: reason.to_owned(), evidence, since: at(3) }
    }

    fn writer<'a>(
        boot: &'a str,
        ours: &'a BTreeSet<Condition>,
        catalogue: &'a Catalogue,
        seconds: i64,
    ) -> Writer<'a> {
        Writer { boot, tells: super::super::sees, ours, catalogue, now: at(seconds) }
    }

    fn types(changes: &[NodeCondition]) -> Vec<(&str, &str)> {
        changes.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect()
    }

    #[test]
    fn what_is_shown_is_not_written_again_and_what_is_over_is_taken_back() {
        let catalogue = Catalogue::load(&[]).unwrap();
        let wanted = [said(Condition::GpuFault, "GpuTimeout", Some("b1"))];
        let none = BTreeSet::new();
        let ours = BTreeSet::from([Condition::GpuFault]);
        let first = writer("b1", &none, &catalogue, 9).changes(&wanted, &[]);
        assert_eq!(types(&first), [("GpuFault", "True")]);
        assert_eq!(writer("b1", &ours, &catalogue, 99).changes(&wanted, &first), []);
        assert_eq!(read(&first), wanted);
        let over = writer("b1", &ours, &catalogue, 99).changes(&[], &first);
        assert_eq!(types(&over), [("GpuFault", "False")]);
        assert_eq!(writer("b1", &ours, &catalogue, 100).changes(&[], &over), []);
        let rebooted = writer("b2", &none, &catalogue, 99).changes(&[], &first);
        assert_eq!(types(&rebooted), [("GpuFault", "False")]);
    }

    #[test]
    fn what_others_wrote_is_left_alone() {
        let catalogue = Catalogue::load(&[]).unwrap();
        let there = |kind, reason, boot| vec![condition(&said(kind, reason, boot), at(1))];
        let none = BTreeSet::new();
        for theirs in [
            there(Condition::NodeSilent, "HeartbeatLost", Some("b1")),
            there(Condition::NodeSilent, "HeartbeatLost", Some("b0")),
            there(Condition::GpuFault, "GpuTimeout", None),
            there(Condition::GpuFault, "GpuTimeout", Some("b1")),
            there(Condition::OutOfService, "Whatever", Some("b0")),
        ] {
            assert_eq!(writer("b1", &none, &catalogue, 9).changes(&[], &theirs), [], "{theirs:?}");
        }
        // A person's own word of the same type and boot stands until they take it back.
        let wanted = [said(Condition::GpuFault, "GpuTimeout", Some("b1"))];
        let person = there(Condition::GpuFault, "Strange", Some("b1"));
        assert_eq!(writer("b1", &none, &catalogue, 9).changes(&wanted, &person), []);
    }
}
