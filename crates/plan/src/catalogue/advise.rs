//! Which answer a set of sightings calls for: what another fault changes, and what repeats change.

use std::time::Duration;

use jiff::Timestamp;

use super::part::Part;
use super::policy::{Policy, Repeat, Rung, Same};
use super::row::{Correlation, Row, RowId, Then};
use super::{Catalogue, Signal};

/// The driver announces XID 154 beside the fault that it speaks of; further apart they have nothing
/// to do with one another. Our inference: the driver's manual gives no time.
const OVERRIDE_WITHIN: Duration = Duration::from_secs(60);

/// A fault that was seen: what the planner remembers of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The row of the catalogue.
    pub row: RowId,
    /// What it is on.
    pub part: Part,
    /// When it was seen.
    pub at: Timestamp,
}

/// Why an [`Advice`] is not simply what the row's policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is what the row's policy says.
    Policy,
    /// Another fault changes the answer or is the cause.
    Beside(RowId),
    /// XID 154 named the recovery for the same GPU.
    Override(RowId),
    /// It was seen this often within this time.
    Repeated {
        /// How often.
        count: u32,
        /// Within how long.
        within: Duration,
    },
}

/// What to do about one fault on one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice<'c> {
    /// The fault.
    pub row: &'c Row,
    /// What it is on.
    pub part: Part,
    /// When it was last seen.
    pub at: Timestamp,
    /// The answer.
    pub policy: &'c Policy,
    /// With which rung of its ladder to begin.
    pub start: usize,
    /// Why.
    pub why: Why,
}

impl Advice<'_> {
    /// The rung to begin with; none when nothing is to be done but counting.
    #[must_use]
    pub fn first(&self) -> Option<&Rung> {
        self.policy.ladder.get(self.start)
    }
}

impl Catalogue {
    /// What the sightings of one node call for: one advice for each fault on each part, ordered by
    /// row and part. Sightings of rows that the catalogue does not have are left out.
    #[must_use]
    pub fn advise(&self, sightings: &[Sighting]) -> Vec<Advice<'_>> {
        let mut last: Vec<&Sighting> = Vec::new();
        let mut ordered: Vec<&Sighting> = sightings.iter().collect();
        ordered.sort_by(|a, b| {
            (&a.row, &a.part).cmp(&(&b.row, &b.part)).then_with(|| b.at.cmp(&a.at))
        });
        for sighting in ordered {
            let known =
                last.last().is_some_and(|l| (&l.row, &l.part) == (&sighting.row, &sighting.part));
            if !known {
                last.push(sighting);
            }
        }
        last.into_iter().filter_map(|sighting| self.advise_one(sighting, sightings)).collect()
    }

    fn advise_one(&self, seen: &Sighting, all: &[Sighting]) -> Option<Advice<'_>> {
        let row = self.row(seen.row.as_str())?;
        let own = self.policy(&row.policy)?;
        let (policy, why) = self
            .overridden(row, seen, all)
            .or_else(|| self.correlated(row, seen, all))
            .unwrap_or((own, Why::Policy));
        let advice =
            |start, why| Advice { row, part: seen.part.clone(), at: seen.at, policy, start, why };
        if policy.ladder.is_empty() && !matches!(why, Why::Policy) {
            return Some(advice(0, why));
        }
        let furthest = row
            .repeats
            .iter()
            .chain(&policy.repeats)
            .filter_map(|repeat| {
                let start = policy.rung(repeat.escalate)?;
                let count = count(repeat, seen, all);
                (count >= repeat.count).then_some((start, count, repeat.within))
            })
            .max_by_key(|(start, ..)| *start);
        Some(match furthest {
            Some((start, count, within)) if start > 0 || policy.only_repeats => {
                advice(start, Why::Repeated { count, within })
            }
            _ if policy.only_repeats => advice(policy.ladder.len(), why),
            _ => advice(0, why),
        })
    }

    /// XID 154 on the same GPU speaks for every other XID there.
    fn overridden(&self, row: &Row, seen: &Sighting, all: &[Sighting]) -> Option<(&Policy, Why)> {
        let driver = |s: &Signal| {
            matches!(s, Signal::Xid { .. } | Signal::XidRegister { .. } | Signal::Nvlink5(_))
        };
        if !row.seen.iter().any(driver) {
            return None;
        }
        let spoken = all
            .iter()
            .filter(|other| other.part.same_part(&seen.part))
            .filter(|other| apart(other.at, seen.at) <= OVERRIDE_WITHIN)
            .filter_map(|other| Some((other, self.row(other.row.as_str())?)))
            .filter(|(_, row)| row.seen.iter().any(|s| matches!(s, Signal::Recovery { .. })))
            .max_by_key(|(other, _)| (other.at, &other.row))?;
        Some((self.policy(&spoken.1.policy)?, Why::Override(spoken.1.id.clone())))
    }

    fn correlated(&self, row: &Row, seen: &Sighting, all: &[Sighting]) -> Option<(&Policy, Why)> {
        row.correlations.iter().find_map(|correlation| {
            let beside = all.iter().filter(|other| beside(correlation, seen, other));
            let other = beside.min_by_key(|other| &other.row)?;
            let policy = match &correlation.then {
                Then::Follow => super::load::FOLLOW,
                Then::Policy(name) => name,
            };
            Some((self.policy(policy)?, Why::Beside(other.row.clone())))
        })
    }
}

fn beside(correlation: &Correlation, seen: &Sighting, other: &Sighting) -> bool {
    let named = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => other.row.as_str().starts_with(start),
        None => other.row.as_str() == pattern,
    };
    other.row != seen.row
        && (!correlation.same_part || other.part.same_part(&seen.part))
        && apart(other.at, seen.at) <= correlation.within
        && correlation.with.iter().any(named)
}

/// How often the fault was seen, bursts counted once, up to and with this sighting.
fn count(repeat: &Repeat, seen: &Sighting, all: &[Sighting]) -> u32 {
    let same = |other: &&Sighting| match repeat.same {
        Same::Unit => other.part == seen.part,
        Same::Part => other.part.same_part(&seen.part),
        Same::Node => true,
    };
    let mut times: Vec<Timestamp> = all
        .iter()
        .filter(|other| other.row == seen.row && other.at <= seen.at)
        .filter(|other| apart(other.at, seen.at) <= repeat.within)
        .filter(same)
        .map(|other| other.at)
        .collect();
    times.sort_unstable();
    let mut count = 0;
    let mut previous = None;
    for at in times {
        if previous.is_none_or(|previous| apart(at, previous) > repeat.burst) {
            count += 1;
        }
        previous = Some(at);
    }
    count
}

fn apart(a: Timestamp, b: Timestamp) -> Duration {
    a.duration_since(b).unsigned_abs()
}
