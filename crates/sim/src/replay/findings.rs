//! What a replay found, before it is written down in any form, and the sums that all forms share.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use plan::capacity::{self, Outages};
use plan::catalogue::{Basis, TraceWords};
use plan::pool::{PROMISE, availability};
use serde::Serialize;

use super::seats::{Outage, Pool};
use super::trace::{Warning, days};
use crate::people::Act;

/// How repairs go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Repairs {
    /// No fault ends before its recorded end, whatever is done.
    #[default]
    Recorded,
    /// The step that the mapping names ends it. Assumed, all of it.
    Ladder,
}

/// Everything that a replay found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Decided everything that was drawn.
    pub seed: u64,
    /// Nodes that the pool promised.
    pub servers: usize,
    /// Nodes beside them.
    pub spares: usize,
    /// The time of day at which the trace began.
    pub start: Timestamp,
    /// How long the fleet was watched.
    pub length: Duration,
    /// How repairs went.
    pub repairs: Repairs,
    /// What everything took, and who says so.
    pub delays: Vec<Figure>,
    /// Faults that the trace names.
    pub read: usize,
    /// What was odd about the trace.
    pub warnings: Vec<Warning>,
    /// Every fault that was injected, by its time.
    pub cases: Vec<Case>,
    /// When machines were lost to those who used them, and who took their place.
    pub outages: Vec<Outage>,
    /// When machines were out of service, whoever used them.
    pub out: Vec<Span>,
    /// When servers were out as recorded, faults of one server at the same time taken together.
    pub recorded: Vec<Span>,
    /// What was done, in order.
    pub actions: Vec<Action>,
    /// What people did, in order.
    pub people: Vec<Act>,
    /// Whether all of it was right.
    pub verdict: Verdict,
}

/// From when to when.
pub type Span = (Duration, Duration);

/// One figure that the others rest on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Who says so.
    pub source: String,
}

/// One fault and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The machine.
    pub node: String,
    /// The trace's words for it.
    pub words: TraceWords,
    /// Whether the symptom is the trace's own.
    pub basis: Basis,
    /// When it began.
    pub at: Duration,
    /// When it ended.
    pub end: Duration,
    /// When an incident was opened for it.
    pub noticed: Option<Duration>,
    /// When the node took no more work.
    pub out: Option<Duration>,
    /// When another had taken its place.
    pub replaced: Option<Duration>,
    /// Whether a proven spare was there when the node went out.
    pub warm: bool,
    /// When the machine was given to triage.
    pub handed_over: Option<Duration>,
    /// When the machine was in service again.
    pub returned: Option<Duration>,
    /// The steps of the ladder that were tried.
    pub steps: Vec<String>,
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Action {
    /// Seconds since the start.
    pub t: f64,
    /// The node or machine.
    pub node: String,
    /// What.
    pub action: String,
    /// Why, as one sentence.
    pub reason: String,
    /// What was seen.
    pub evidence: Vec<String>,
}

/// What should all be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Acts on a machine where the hidden truth held no fault. A trace breaks servers one by one, so the
    /// machine itself must be ill; that others on its leaf are does not count.
    pub no_evidence: usize,
    /// Acts that undid what a person wanted: cordons of the operator that somebody else lifted or took
    /// for their own, and whatever was asked of or begun on a machine that the operator kept.
    pub against_person: usize,
    /// Nodes taken out beyond what the ledger allowed.
    pub over_budget: usize,
}

/// Nearest-rank percentiles of a time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them took no longer.
    pub p50: Option<f64>,
    /// Nine of ten took no longer.
    pub p90: Option<f64>,
    /// 99 of a hundred took no longer.
    pub p99: Option<f64>,
}

impl Spread {
    /// Of these times.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        let rank = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map(|time| seconds(*time))
        };
        Self { p50: rank(50), p90: rank(90), p99: rank(99) }
    }
}

/// A time in seconds, to the millisecond.
pub(super) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// What the pool kept of its promise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The share of time in which all promised nodes were in service.
    pub promised: f64,
    /// Nodes beside the promised ones.
    pub spares: usize,
    /// The mean share of the promised nodes that were in service.
    pub in_service: f64,
    /// The same of the fleet that recorded the trace.
    pub recorded: f64,
}

/// How often so many spares would have sufficed: at index S, the share of time in which at most S
/// nodes were out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// As recorded.
    pub recorded: Vec<f64>,
    /// As the replay found it: what noticing and proving add.
    pub measured: Vec<f64>,
    /// As it would be if the recorded outages were independent.
    pub poisson: Vec<f64>,
}

impl Curves {
    /// How many nodes were out on average, as recorded.
    pub fn mean(&self) -> f64 {
        self.recorded.iter().map(|share| 1.0 - share).sum()
    }

    /// How many spares would do if the recorded outages were independent: Poisson's answer.
    pub fn independent(&self) -> Option<usize> {
        poisson_needs(self.mean())
    }

    /// The least S that suffices for [`PROMISE`] of the time, by a curve.
    pub fn needed(curve: &[f64]) -> Option<usize> {
        // A hair's breadth, because a sum of floats may miss the whole by one.
        curve.iter().position(|share| *share >= PROMISE - 1e-12)
    }
}

impl Case {
    /// From when the node took no more work to when another had taken its place.
    pub fn swap(&self) -> Option<Duration> {
        self.replaced?.checked_sub(self.out?)
    }
}

impl Findings {
    /// The pool, for what is reckoned by its seats.
    pub fn pool(&self) -> Pool<'_> {
        Pool { seats: self.servers, length: self.length, outages: &self.outages }
    }

    /// Swaps for which a proven spare was there.
    pub fn warm_swaps(&self) -> impl Iterator<Item = Duration> {
        self.cases.iter().filter(|case| case.warm).filter_map(Case::swap)
    }

    /// What the pool kept of its promise.
    pub fn capacity(&self) -> Capacity {
        let gaps: Vec<Span> = self.pool().gaps().iter().map(|gap| (gap.from, gap.to)).collect();
        let whole = self.length.as_secs_f64() * self.servers as f64;
        let rest = |lost: f64| round(if whole > 0.0 { 1.0 - lost / whole } else { 1.0 });
        Capacity {
            promised: round(self.shares(&gaps).first().copied().unwrap_or(1.0)),
            spares: self.spares,
            in_service: rest(self.lost(&gaps)),
            recorded: rest(self.lost(&self.recorded)),
        }
    }

    fn lost(&self, spans: &[Span]) -> f64 {
        spans
            .iter()
            .map(|(from, to)| (*to).min(self.length).saturating_sub(*from).as_secs_f64())
            .sum()
    }

    /// How many spares would have sufficed how often.
    pub fn curves(&self) -> Curves {
        let recorded = self.shares(&self.recorded);
        let measured = self.shares(&self.out);
        let mean: f64 = recorded.iter().map(|share| 1.0 - share).sum();
        let length = recorded.len().max(measured.len()).max(poisson_needs(mean).unwrap_or(0) + 1);
        Curves { poisson: poisson(mean, length), recorded, measured }
    }

    fn shares(&self, spans: &[Span]) -> Vec<f64> {
        let at = |time: Duration| Timestamp::UNIX_EPOCH.checked_add(time).unwrap_or(Timestamp::MAX);
        let spans: Vec<(Timestamp, Timestamp)> =
            spans.iter().map(|(from, to)| (at(*from), at(*to))).collect();
        availability(&spans, at(Duration::ZERO), at(self.length))
    }

    /// Cases by the trace's words, the most frequent first.
    pub fn by_words(&self) -> Vec<(&TraceWords, Vec<&Case>)> {
        let mut groups: BTreeMap<&TraceWords, Vec<&Case>> = BTreeMap::new();
        for case in &self.cases {
            groups.entry(&case.words).or_default().push(case);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
        groups
    }

    /// How many of the injected faults show what the trace names.
    pub fn as_recorded(&self) -> usize {
        self.cases.iter().filter(|case| case.basis == Basis::Recorded).count()
    }

    /// The days that were replayed.
    pub fn days(&self) -> f64 {
        (days(self.length) * 1e4).round() / 1e4
    }

    /// Whether a case is not over although its fault is.
    pub fn unsolved(&self, case: &Case) -> bool {
        case.noticed.is_some() && case.returned.is_none() && case.end < self.length
    }
}

/// Poisson's answer for a mean number of nodes out.
fn poisson_needs(mean: f64) -> Option<usize> {
    capacity::spares(&[Outages { mean, size: 1 }], PROMISE)
}

/// The share of time in which at most 0, 1, … of independent outages are there.
fn poisson(mean: f64, length: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let mut log = -mean;
    let share = |k: usize| {
        if k > 0 {
            log += mean.ln() - (k as f64).ln();
        }
        sum += log.exp();
        sum.min(1.0)
    };
    (0..length).map(share).collect()
}

/// Six digits are more than any share here is worth, and print alike everywhere.
pub(super) fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn words(class: &str, desc: &str) -> TraceWords {
        let level = "Hardware Failure".to_owned();
        TraceWords { level, class: class.to_owned(), desc: desc.to_owned() }
    }

    fn case(node: &str, desc: &str, at: u32, swap: u64) -> Case {
        let out = HOUR * at + Duration::from_secs(2);
        Case {
            node: node.to_owned(),
            words: words("GPU", desc),
            basis: Basis::Recorded,
            at: HOUR * at,
            end: HOUR * (at + 10),
            noticed: Some(out),
            out: Some(out),
            replaced: Some(out + Duration::from_secs(swap)),
            warm: swap < 600,
            handed_over: Some(out + 2 * HOUR),
            returned: Some(HOUR * (at + 11)),
            steps: vec!["ResetGpu".to_owned()],
        }
    }

    /// Ten days of four servers: three faults, two of them at the same time, one spare.
    pub(crate) fn sample() -> Findings {
        let cases = vec![
            case("n1", "GPU DBE(Double Bit ECC) > Threshold", 24, 30),
            case("n2", "GPU DBE(Double Bit ECC) > Threshold", 30, 4 * 3_600),
            Case { returned: None, end: HOUR * 140, ..case("n1", "GPU Lost <&>", 100, 50) },
        ];
        let outage = |machine, index: usize, by| {
            let case: &Case = &cases[index];
            let replaced = case.replaced.map(|at| (at, by));
            Outage { machine, from: case.at, replaced, returned: case.returned, planned: false }
        };
        let outages = vec![outage(1, 0, 4), outage(2, 1, 1), outage(1, 2, 2)];
        let span = |c: &Case| (c.out.unwrap(), c.returned.unwrap_or(HOUR * 240));
        Findings {
            seed: 7,
            servers: 4,
            spares: 1,
            length: HOUR * 240,
            repairs: Repairs::Recorded,
            delays: vec![Figure {
                name: "boot".to_owned(),
                seconds: 240.0,
                source: "x".to_owned(),
            }],
            read: 4,
            warnings: vec![Warning { line: 9, what: "the fault never ends".to_owned() }],
            out: cases.iter().map(span).collect(),
            recorded: cases.iter().map(|case| (case.at, case.end)).collect(),
            outages,
            actions: vec![Action {
                t: 86_402.0,
                node: "n1".to_owned(),
                action: "ResetGpu".to_owned(),
                reason: "GPU 3 reported XID 48".to_owned(),
                evidence: vec!["NVRM: Xid 48".to_owned()],
            }],
            cases,
            ..Findings::default()
        }
    }

    #[test]
    fn the_sums_are_those_of_the_cases() {
        let findings = sample();
        let capacity = findings.capacity();
        // Empty seats: 32 s, 4 h and 2 s, and 52 s.
        let lost = 32.0 + 14_402.0 + 52.0;
        assert_eq!(capacity.promised, round(1.0 - lost / 864_000.0));
        assert_eq!(capacity.in_service, round(1.0 - lost / (4.0 * 864_000.0)));
        assert_eq!(capacity.recorded, round(1.0 - 60.0 / 960.0));
        let swaps = Spread::of(findings.warm_swaps());
        assert_eq!(swaps, Spread { p50: Some(30.0), p90: Some(50.0), p99: Some(50.0) });
        let unsolved = findings.cases.iter().filter(|case| findings.unsolved(case)).count();
        assert_eq!(unsolved, 1);
        let groups: Vec<usize> = findings.by_words().iter().map(|(_, cases)| cases.len()).collect();
        assert_eq!(groups, [2, 1]);
    }

    #[test]
    fn curves_say_how_many_spares_would_do() {
        let curves = sample().curves();
        // 60 hours of 240 with one out or two, 4 of them with two.
        assert_eq!(curves.recorded, [(240.0 - 56.0) / 240.0, 236.0 / 240.0, 1.0]);
        assert_eq!(Curves::needed(&curves.recorded), Some(2));
        assert_eq!(Curves::needed(&curves.poisson), poisson_needs(60.0 / 240.0));
        assert!((curves.poisson[0] - (-0.25_f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn percentiles_are_ranks() {
        let of = |n: u64| Spread::of((1..=n).map(Duration::from_secs));
        assert_eq!(of(0), Spread::default());
        assert_eq!(of(1).p99, Some(1.0));
        assert_eq!(of(100), Spread { p50: Some(50.0), p90: Some(90.0), p99: Some(99.0) });
        assert_eq!(of(3).p50, Some(2.0));
    }
}
