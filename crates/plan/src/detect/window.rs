//! What a detector of numbers remembers between two samples. Bounded, and owned by the caller.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::catalogue::{Metric, Part};

/// The most series that are remembered: 8 GPUs and 10 ports with all their numbers, ten times over.
/// Beyond it the series that was quiet for longest is forgotten.
const MAX_TRACKS: usize = 4_096;
/// The most points of a rising counter that are kept: a window has sixteen steps.
const MAX_POINTS: usize = 20;
/// The most breaks of a link that are kept; a catalogue can ask for no more.
const MAX_BREAKS: usize = 64;

/// What detectors remember of one node. A new one remembers nothing; a clone is a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    tracks: BTreeMap<(Metric, usize, Part), Track>,
}

impl Window {
    /// How many series are remembered; never more than 4,096.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Is nothing remembered?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// The series of one rule on one part.
    pub(super) fn track(&mut self, metric: Metric, rule: usize, part: &Part) -> &mut Track {
        let key = (metric, rule, part.clone());
        if self.tracks.len() >= MAX_TRACKS && !self.tracks.contains_key(&key) {
            let oldest = self.tracks.iter().min_by_key(|(_, track)| track.last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.tracks.remove(&oldest);
            }
        }
        self.tracks.entry(key).or_default()
    }
}

/// One series: a rule of the catalogue on one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Track {
    /// Does the fault hold?
    pub(super) raised: bool,
    /// When the last sample came.
    pub(super) last: Option<Timestamp>,
    /// Since when the bound is passed, or the link down.
    since: Option<Timestamp>,
    points: Vec<(Timestamp, f64)>,
    breaks: Vec<Timestamp>,
}

impl Track {
    /// For how long the bound has been passed, if it is.
    pub(super) fn held(&mut self, at: Timestamp, passed: bool) -> Option<Duration> {
        if !passed {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(at);
        Some(at.duration_since(since).unsigned_abs())
    }

    /// By how much a counter rose, and over what time: since the newest point that is at least `per`
    /// old, or since the oldest. A counter that fell was reset and begins anew.
    pub(super) fn rise(
        &mut self,
        at: Timestamp,
        value: f64,
        per: Duration,
    ) -> Option<(f64, Duration)> {
        if self.points.last().is_some_and(|(_, last)| value < *last) {
            self.points.clear();
        }
        let age = |then: Timestamp| at.duration_since(then).unsigned_abs();
        let old = self.points.iter().rposition(|(then, _)| age(*then) >= per);
        if let Some(old) = old {
            self.points.drain(..old);
        }
        let rise = self.points.first().map(|(then, base)| (value - base, age(*then)));
        let step = per / 16;
        if self.points.last().is_none_or(|(then, _)| age(*then) >= step) {
            if self.points.len() >= MAX_POINTS {
                self.points.remove(0);
            }
            self.points.push((at, value));
        }
        rise
    }

    /// How often the link was down for at least `down` and came back within the last `per`.
    pub(super) fn flaps(
        &mut self,
        at: Timestamp,
        up: bool,
        down: Duration,
        per: Duration,
    ) -> usize {
        if up {
            let since = self.since.take();
            if since.is_some_and(|since| at.duration_since(since).unsigned_abs() >= down) {
                if self.breaks.len() >= MAX_BREAKS {
                    self.breaks.remove(0);
                }
                self.breaks.push(at);
            }
        } else {
            self.since.get_or_insert(at);
        }
        self.breaks.retain(|then| at.duration_since(*then).unsigned_abs() <= per);
        self.breaks.len()
    }
}
