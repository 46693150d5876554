//! Numbers: which rows of the catalogue a sample is evidence of, or evidence against.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sample::Sample;
use super::window::{Track, Window};
use super::{Finding, evidence};
use crate::catalogue::{Catalogue, Limit, Metric, Product, RowId, Rule, Signal};

/// Reads samples.
#[derive(Clone, Debug)]
pub struct Metrics {
    rules: BTreeMap<Metric, Vec<(RowId, Rule)>>,
}

impl Metrics {
    /// A reader for what this catalogue knows. Rows of other products than the node's are left out.
    #[must_use]
    pub fn new(catalogue: &Catalogue, product: Option<Product>) -> Self {
        let mut rules: BTreeMap<Metric, Vec<(RowId, Rule)>> = BTreeMap::new();
        for row in catalogue.rows() {
            let other =
                !row.products.is_empty() && product.is_some_and(|p| !row.products.contains(&p));
            if other {
                continue;
            }
            for signal in &row.seen {
                if let Signal::Metric { metric, rule } = signal {
                    rules.entry(*metric).or_default().push((row.id.clone(), *rule));
                }
            }
        }
        Self { rules }
    }

    /// What changes with this sample: faults that begin to hold and faults that hold no more. A
    /// sample older than the last of its series, or one that is no number, changes nothing.
    #[must_use]
    pub fn read(&self, mut window: Window, sample: &Sample) -> (Window, Vec<Finding>) {
        let mut found = Vec::new();
        let rules = self.rules.get(&sample.metric).map(Vec::as_slice).unwrap_or_default();
        if !sample.value.is_finite() {
            return (window, found);
        }
        for (index, (row, rule)) in rules.iter().enumerate() {
            if matches!(rule, Rule::Peers { .. }) {
                continue;
            }
            let track = window.track(sample.metric, index, &sample.part);
            if track.last.is_some_and(|last| sample.at < last) {
                continue;
            }
            track.last = Some(sample.at);
            let verdict = judge(track, rule, sample);
            if verdict.is_some() == track.raised {
                continue;
            }
            track.raised = verdict.is_some();
            let text = verdict.unwrap_or_else(|| "back within its bound".to_owned());
            let text = format!("{} {}: {text}", sample.metric, number(sample.value));
            found.push(Finding {
                row: row.clone(),
                part: sample.part.clone(),
                at: sample.at,
                present: track.raised,
                evidence: evidence(text.as_bytes()),
            });
        }
        (window, found)
    }
}

/// Why the sample is a fault, if it is.
fn judge(track: &mut Track, rule: &Rule, sample: &Sample) -> Option<String> {
    let bound = |limit: Limit| match limit {
        Limit::Fixed(limit) => Some(limit),
        Limit::Expected(share) => sample.expected.filter(|e| e.is_finite()).map(|e| e * share),
    };
    match *rule {
        Rule::Above { limit, hold } => {
            let limit = bound(limit)?;
            let held = track.held(sample.at, sample.value > limit)?;
            (held >= hold).then(|| held_text("above", limit, hold))
        }
        Rule::Below { limit, hold } => {
            let limit = bound(limit)?;
            let held = track.held(sample.at, sample.value < limit)?;
            (held >= hold).then(|| held_text("below", limit, hold))
        }
        Rule::Rise { by, per } => {
            let (rise, over) = track.rise(sample.at, sample.value, per)?;
            let allowed = by * (over.as_secs_f64() / per.as_secs_f64()).max(1.0);
            (rise > allowed).then(|| {
                format!(
                    "rose by {} in {}, more than {} in {}",
                    number(rise),
                    time(over),
                    number(by),
                    time(per)
                )
            })
        }
        Rule::Flap { times, down, per } => {
            let flaps = track.flaps(sample.at, sample.value >= 1.0, down, per);
            (flaps >= times as usize)
                .then(|| format!("down for {} or more {flaps} times in {}", time(down), time(per)))
        }
        Rule::Peers { .. } => None,
    }
}

fn held_text(side: &str, limit: f64, hold: Duration) -> String {
    let limit = number(limit);
    if hold.is_zero() {
        format!("{side} {limit}")
    } else {
        format!("{side} {limit} for {}", time(hold))
    }
}

/// A number as people write it: whole where it is, else with up to three places that matter.
pub(super) fn number(value: f64) -> String {
    let small = value != 0.0 && value.abs() < 0.001;
    let large = value.abs() >= 1e15;
    if small || large {
        return format!("{value:e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time as people write it.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    for (unit, length) in [("d", 86_400), ("h", 3_600), ("min", 60)] {
        if seconds >= length && seconds.is_multiple_of(length) {
            return format!("{} {unit}", seconds / length);
        }
    }
    format!("{} s", number(duration.as_secs_f64()))
}
