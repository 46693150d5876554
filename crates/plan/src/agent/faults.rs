//! The faults that an agent holds to be there, each with its evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::conditions::Said;
use super::sees;
use crate::catalogue::{
    Advice, Catalogue, Condition, Part, PartKind, Proof, Row, RowId, Sighting, Signal, Step,
};
use crate::detect::Finding;
use crate::machine::later;
use api::evidence::Evidence;
use api::request::Chore;

/// A node has a few hundred parts; more faults than this are one fault seen often.
const MAX_FAULTS: usize = 256;

/// How long a fault that is only counted is shown after it was last seen: as long as
/// [`Proof::Quiet`] takes in every policy that has it.
const QUIET: Duration = Duration::from_secs(600);

/// How long a number that an agent of the same boot reported before us may take to show again. Every
/// number is measured at least once a minute.
const ADOPTED: Duration = Duration::from_secs(300);

/// Where a finding comes from, which decides how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A line of the kernel's log.
    Line,
    /// A number.
    Number,
}

/// A fault that is held to be there.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    witness: Witness,
    since: Timestamp,
    last: Timestamp,
    count: u32,
    text: String,
    /// It is over then, if it is not seen before.
    until: Option<Timestamp>,
}

/// Every fault that an agent holds to be there during one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(BTreeMap<(RowId, Option<String>), Held>);

impl Faults {
    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a finding in. One that is held already is counted, and keeps the time when it began.
    pub fn heed(&mut self, witness: Witness, finding: &Finding, catalogue: &Catalogue) {
        let Some(row) = catalogue.row(finding.row.as_str()).filter(|row| sees(row)) else { return };
        let key = (row.id.clone(), word(&finding.part));
        if !finding.present {
            self.0.remove(&key);
            return;
        }
        if self.0.len() >= MAX_FAULTS && !self.0.contains_key(&key) {
            let oldest =
                self.0.iter().min_by_key(|(_, held)| held.last).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let held = self.0.entry(key).or_insert_with(|| Held {
            witness,
            since: finding.at,
            last: finding.at,
            count: 0,
            text: String::new(),
            until: None,
        });
        held.count = held.count.saturating_add(1);
        held.last = held.last.max(finding.at);
        held.text.clone_from(&finding.evidence);
        held.until = match witness {
            Witness::Line => quiet(row, catalogue).map(|after| later(held.last, after)),
            Witness::Number => None,
        };
    }

    /// Takes over what an earlier agent of the same boot said: a restart forgets nothing.
    pub fn adopt(&mut self, said: &Said, boot: &str, catalogue: &Catalogue, now: Timestamp) {
        let row = said.about(catalogue).filter(|row| sees(row));
        let Some(row) = row.filter(|_| said.evidence.boot.as_deref() == Some(boot)) else { return };
        let line = row.seen.iter().any(|signal| !matches!(signal, Signal::Metric { .. }));
        let (witness, until) = if line {
            (Witness::Line, quiet(row, catalogue).map(|after| later(now, after)))
        } else {
            (Witness::Number, Some(later(now, ADOPTED)))
        };
        let count = said.evidence.count.unwrap_or(1);
        let text = said.evidence.text.clone();
        let held = Held { witness, since: said.since, last: said.since, count, text, until };
        let key = (row.id.clone(), said.evidence.part.clone());
        match self.0.get_mut(&key) {
            // It was seen since we came: it began when the one before us says.
            Some(known) => known.since = known.since.min(said.since),
            None => drop(self.0.insert(key, held)),
        }
    }

    /// Forgets what has been quiet for long enough.
    pub fn pass(&mut self, now: Timestamp) {
        self.0.retain(|_, held| held.until.is_none_or(|until| until > now));
    }

    /// When [`Faults::pass`] forgets the next one.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|held| held.until).min()
    }

    /// A chore that was begun at `began` has succeeded: what it cures or disproves is over. Numbers
    /// speak for themselves.
    pub fn mended(
        &mut self,
        chore: Chore,
        target: Option<&str>,
        began: Timestamp,
        catalogue: &Catalogue,
    ) {
        let cure = match chore {
            Chore::ResetGpu => Some(Step::ResetGpu),
            Chore::RestartService => Some(Step::RestartService),
            Chore::TestQuick | Chore::TestFull | Chore::Diagnose => None,
            _ => return,
        };
        self.0.retain(|(row, part), held| {
            if held.witness == Witness::Number || held.last > began {
                return true;
            }
            // A test is about the whole node; a reset is about its target.
            let Some(cure) = cure else { return false };
            let cures = catalogue.row(row.as_str()).is_some_and(|row| row.cured_by.contains(&cure));
            let meant = cure != Step::ResetGpu
                || target.is_none_or(|target| part.as_deref().is_none_or(|part| part == target));
            !(cures && meant)
        });
    }

    /// What shall be said, one of each type of condition.
    #[must_use]
    pub fn said(&self, boot: &str, catalogue: &Catalogue) -> Vec<Said> {
        let sightings: Vec<Sighting> = self
            .0
            .iter()
            .map(|((row, part), held)| Sighting {
                row: row.clone(),
                part: part_of(part.as_deref()),
                at: held.since,
            })
            .collect();
        let advice = catalogue.advise(&sightings);
        let mut shown: BTreeMap<Condition, (Rank, Said)> = BTreeMap::new();
        for ((id, part), held) in &self.0 {
            let Some(row) = catalogue.row(id.as_str()) else { continue };
            let named = part_of(part.as_deref());
            let advised = advice.iter().find(|a| a.row.id == *id && a.part == named);
            let rank = rank(row, advised, held.since);
            let evidence = Evidence {
                text: held.text.clone(),
                boot: Some(boot.to_owned()),
                part: part.clone(),
                count: counted(held.count),
            };
            let said = Said {
                row: Some(id.as_str().to_owned()),
                kind: row.condition,
                reason: row.reason.clone(),
                evidence,
                since: held.since,
            };
            let better = shown.get(&row.condition).is_none_or(|(best, _)| rank < *best);
            if better {
                shown.insert(row.condition, (rank, said));
            }
        }
        shown.into_values().map(|(_, said)| said).collect()
    }
}

/// What is shown first: a fault that is acted upon by its own policy, before one that another
/// fault's answer covers; then the worse; then the older.
type Rank = (bool, bool, crate::catalogue::Severity, Timestamp);

fn rank(row: &Row, advice: Option<&Advice<'_>>, since: Timestamp) -> Rank {
    let idle = advice.is_none_or(|advice| advice.policy.ladder.is_empty());
    let covered = advice.is_some_and(|advice| advice.policy.name != row.policy);
    (idle, covered, row.severity, since)
}

/// After which silence the fault of a row is over, if silence proves that.
fn quiet(row: &Row, catalogue: &Catalogue) -> Option<Duration> {
    let policy = catalogue.policy(&row.policy)?;
    match policy.ladder.first() {
        Some(rung) if rung.passed == Proof::Quiet => Some(rung.within),
        Some(_) if !policy.only_repeats => None,
        _ => Some(QUIET),
    }
}

/// The count as it is shown: rounded down to a power of two, so that a storm of lines is a handful
/// of writes.
fn counted(count: u32) -> Option<u32> {
    (count > 1).then(|| 1 << count.ilog2())
}

/// A part as evidence names it: one word without what marks a trailer. None for the whole node.
#[must_use]
pub fn word(part: &Part) -> Option<String> {
    let plain = |c: char| if c.is_whitespace() || matches!(c, '[' | ']' | '=') { '-' } else { c };
    let word: String = part.name().chars().map(plain).collect();
    (!word.is_empty()).then_some(word)
}

fn part_of(word: Option<&str>) -> Part {
    word.map_or_else(Part::node, |word| Part::new(PartKind::Device, word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{NodeSeen, Reported, faults};
    use api::names::manager;
    use std::collections::BTreeSet;

    fn catalogue() -> Catalogue {
        Catalogue::load(&[]).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn seen(row: &str, part: Part, seconds: i64) -> Finding {
        let evidence = format!("{row} [was] seen on {part}");
        Finding { row: row.into(), part, at: at(seconds), present: true, evidence }
    }

    fn gpu(number: u8) -> Part {
        Part::gpu(&format!("0000:{number:02x}:00")).unit("link 7")
    }

    fn held(catalogue: &Catalogue, lines: &[(&str, Part, i64)]) -> Faults {
        let mut all = Faults::default();
        for (row, part, seconds) in lines {
            all.heed(Witness::Line, &seen(row, part.clone(), *seconds), catalogue);
        }
        all
    }

    /// The rows that a node would be read to show.
    fn shown(faults_: &Faults, catalogue: &Catalogue) -> Vec<String> {
        let said = faults_.said("b1", catalogue);
        let ours = BTreeSet::new();
        let writer = super::super::Writer {
            boot: "b1",
            tells: sees,
            ours: &ours,
            catalogue,
            now: at(1_000),
        };
        let changes = writer.changes(&said, &[]);
        let conditions = changes.iter().map(|c| Reported {
            kind: c.type_.clone(),
            holds: c.status == "True",
            reason: c.reason.clone().unwrap(),
            message: c.message.clone().unwrap(),
            by: manager::AGENT.to_owned(),
            since: c.last_transition_time.as_ref().unwrap().0,
        });
        let node = NodeSeen {
            boot: Some("b1".to_owned()),
            conditions: conditions.collect(),
            ..NodeSeen::default()
        };
        let read = faults(&node, catalogue);
        let name = |f: &crate::node::Fault<'_>| {
            format!("{} {}", f.row.id, f.part.as_deref().unwrap_or("-"))
        };
        let mut names: Vec<String> = read.iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn every_row_that_an_agent_sees_is_read_back_as_that_row() {
        let catalogue = catalogue();
        let mut rows = 0;
        for row in catalogue.rows().filter(|row| sees(row)) {
            let mut all = Faults::default();
            all.heed(Witness::Line, &seen(row.id.as_str(), gpu(1), 0), &catalogue);
            assert_eq!(shown(&all, &catalogue), [format!("{} 0000:01:00", row.id)]);
            rows += 1;
        }
        assert!(rows > 200, "{rows}");
        let mut none = Faults::default();
        none.heed(Witness::Number, &seen("node/heartbeat-lost", Part::node(), 0), &catalogue);
        assert!(none.is_empty(), "silence is not ours to tell");
    }

    #[test]
    fn of_one_type_the_fault_that_answers_for_the_others_is_shown() {
        let catalogue = catalogue();
        let check = |lines: &[(&str, Part, i64)], want: &[&str]| {
            assert_eq!(shown(&held(&catalogue, lines), &catalogue), want);
        };
        // What the driver asks for goes before the error that it asks for.
        check(
            &[("xid/46", gpu(1), 0), ("xid154/node-reboot", gpu(1), 2)],
            &["xid154/node-reboot 0000:01:00"],
        );
        // What is acted upon goes before what is only counted, the older before the younger.
        check(
            &[("xid/14", gpu(1), 0), ("xid/46", gpu(2), 9), ("xid/46", gpu(3), 5)],
            &["xid/46 0000:03:00"],
        );
        // Types do not hide one another.
        check(
            &[("xid/48", gpu(1), 0), ("xid/46", gpu(1), 100)],
            &["xid/46 0000:01:00", "xid/48 0000:01:00"],
        );
    }

    #[test]
    fn a_storm_of_lines_is_a_handful_of_messages() {
        let catalogue = catalogue();
        let mut all = Faults::default();
        let mut messages = BTreeSet::new();
        for second in 0..1_000 {
            all.heed(Witness::Line, &seen("xid/46", gpu(1), second), &catalogue);
            let said = all.said("b1", &catalogue);
            messages.insert(said[0].evidence.to_string());
            assert_eq!(said[0].since, at(0));
        }
        assert_eq!(messages.len(), 10, "{messages:?}");
        for number in 0..=u16::MAX {
            let part = Part::gpu(&format!("{number:x}"));
            all.heed(Witness::Line, &seen("xid/46", part, 2_000), &catalogue);
        }
        assert_eq!(all.0.len(), MAX_FAULTS);
    }

    #[test]
    fn lines_end_by_quiet_by_a_cure_or_by_a_test() {
        let catalogue = catalogue();
        let mut all = held(
            &catalogue,
            &[("xid/31", gpu(1), 0), ("xid/46", gpu(1), 0), ("xid/46", gpu(2), 0)],
        );
        assert_eq!(all.next(), Some(at(600)), "a program's error ends by quiet");
        all.pass(at(599));
        assert_eq!(shown(&all, &catalogue).len(), 2);
        all.pass(at(600));
        assert_eq!((all.next(), all.0.len()), (None, 2));

        all.mended(Chore::ResetGpu, Some("0000:01:00"), at(700), &catalogue);
        assert_eq!(shown(&all, &catalogue), ["xid/46 0000:02:00"]);
        all.mended(Chore::RestartService, Some("gpu-fabric"), at(700), &catalogue);
        all.mended(Chore::Inventory, None, at(700), &catalogue);
        all.mended(Chore::TestQuick, None, at(-1), &catalogue);
        assert_eq!(all.0.len(), 1, "a service cures no such fault, an older test proves nothing");
        all.mended(Chore::TestQuick, None, at(700), &catalogue);
        assert!(all.is_empty());
    }

    #[test]
    fn numbers_end_by_themselves_only() {
        let catalogue = catalogue();
        let mut all = Faults::default();
        let found = seen("node/clock-skew", Part::node(), 0);
        all.heed(Witness::Number, &found, &catalogue);
        all.mended(Chore::RestartService, Some("time"), at(700), &catalogue);
        all.mended(Chore::TestFull, None, at(700), &catalogue);
        all.pass(at(100_000));
        assert_eq!(all.0.len(), 1);
        all.heed(Witness::Number, &Finding { present: false, ..found }, &catalogue);
        assert!(all.is_empty());
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let catalogue = catalogue();
        let before = held(&catalogue, &[("xid/46", gpu(1), 0), ("xid/31", gpu(2), 5)]);
        let said = before.said("b1", &catalogue);
        let mut after = Faults::default();
        for said in &said {
            after.adopt(said, "b2", &catalogue, at(50));
        }
        assert!(after.is_empty(), "of another boot");
        for said in &said {
            after.adopt(said, "b1", &catalogue, at(50));
        }
        assert_eq!(after.said("b1", &catalogue), said);
        // Seen again as something that is still the case: since when stays.
        after.heed(Witness::Line, &seen("xid/46", gpu(1), 50), &catalogue);
        assert!(after.said("b1", &catalogue).iter().any(|said| said.since == at(0)));
        // A number that nobody measures out of bounds any more was only remembered.
        let mut number = Faults::default();
        number.heed(Witness::Number, &seen("node/clock-skew", Part::node(), 0), &catalogue);
        let said = number.said("b1", &catalogue);
        let mut after = Faults::default();
        after.adopt(&said[0], "b1", &catalogue, at(50));
        assert_eq!(after.next(), Some(at(350)));
    }
}
