//! Recorded faults of a fleet, read from a file: which node failed, how, from when to when.
//!
//! What can be understood is: events out of order, faults that never end, that have no length, that
//! overlap or come in a wave are read as they are meant, each with a [`Warning`] that names the line.
//! What is no trace at all is refused with the line. Two files with the same events in another order
//! are the same trace.
//!
//! It does not know what the words of a fault mean: that is [`super::show`]'s part.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use plan::capacity::{self, Outages};
use plan::catalogue::TraceWords;
use plan::pool::PROMISE;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The most events that a trace may have: a fleet of 100,000 servers has fewer faults in a year.
pub const MAX_EVENTS: usize = 1_000_000;
/// The largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 512 << 20;
/// The latest day that an event may name: a century.
const MAX_DAYS: f64 = 36_525.0;
/// The longest name of a node, and the longest word of a fault, in bytes.
const MAX_TEXT: usize = 253;
/// So many faults at one instant are worth a warning: they have one cause, or one clerk.
const WAVE: usize = 10;
const DAY_MILLIS: f64 = 86_400_000.0;

/// What a fleet went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The nodes, in the order in which they first appear in time.
    pub nodes: Vec<String>,
    /// The kinds of faults that occur.
    pub kinds: Vec<TraceWords>,
    /// The faults, by their beginning.
    pub faults: Vec<Fault>,
    /// From the start of the recording to its last event.
    pub length: Duration,
    /// What was odd about the file, by line.
    pub warnings: Vec<Warning>,
}

/// One fault of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line on which its beginning stands, from 1.
    pub line: usize,
    /// Which of the trace's nodes.
    pub node: usize,
    /// Which of the trace's kinds.
    pub kind: usize,
    /// When it began, since the start of the recording.
    pub from: Duration,
    /// When it ended; the end of the recording, where it never did.
    pub to: Duration,
}

/// Something odd that was understood all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Warning {
    /// The line, from 1.
    pub line: usize,
    /// What is odd, and how it was read.
    pub what: String,
}

/// Why a file is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Edge {
    #[serde(rename = "fault_start")]
    Start,
    #[serde(rename = "fault_end")]
    End,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event<'a> {
    #[serde(borrow)]
    node_id: Cow<'a, str>,
    event_time: f64,
    event_type: Edge,
    fault_type: Words,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Words {
    level: String,
    class: String,
    desc: String,
}

/// An event with what it is ordered by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Read<'a> {
    at: Duration,
    edge: Edge,
    node: Cow<'a, str>,
    words: TraceWords,
    line: usize,
}

impl Trace {
    /// Reads a trace: a JSON list of events with `node_id`, `event_time` in days since the start,
    /// `event_type` (`fault_start` or `fault_end`) and `fault_type` with `Level`, `Class`, `Desc`.
    ///
    /// # Errors
    /// With the line, if it is not JSON, has other keys or values, no event, or too many.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut warnings = Vec::new();
        let mut events = read(text, &mut warnings)?;
        if events.is_empty() {
            return Err(TraceError { line: 1, reason: "the list holds no event".to_owned() });
        }
        events.sort_unstable();
        let mut trace = Self { warnings, ..Self::default() };
        trace.pair(events);
        trace.look_at_overlaps();
        trace.look_at_waves();
        trace.warnings.sort();
        Ok(trace)
    }

    /// The same trace without what comes after so much time: faults, nodes and warnings about them. A
    /// fault that lasts longer keeps its end.
    #[must_use]
    pub fn up_to(mut self, length: Duration) -> Self {
        self.length = self.length.min(length);
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.faults.into_iter().partition(|fault| fault.from < self.length);
        self.faults = kept;
        let gone: BTreeSet<usize> = gone.iter().map(|fault| fault.line).collect();
        self.warnings.retain(|warning| !gone.contains(&warning.line));
        // Nodes are numbered by their first appearance, which the faults follow.
        let known = self.faults.iter().map(|fault| fault.node + 1).max().unwrap_or(0);
        self.nodes.truncate(known);
        self
    }

    /// A larger fleet for a shorter time: the trace's whole stretches of so much time happen at once,
    /// each to servers of its own. A fault that lasts from one stretch into the next is one in each;
    /// what is left after the last whole stretch is left out. A trace that is no longer stays as it is.
    #[must_use]
    pub fn folded(self, stretch: Duration) -> Self {
        let stretches = self.length.as_nanos().checked_div(stretch.as_nanos()).unwrap_or(0);
        let stretches = u32::try_from(stretches).unwrap_or(u32::MAX);
        if stretches < 2 {
            return self;
        }
        let mut parts: Vec<(u32, Fault)> = Vec::new();
        for fault in &self.faults {
            let within = |at: Duration| (at.as_nanos() / stretch.as_nanos()) as u32;
            for part in within(fault.from)..=within(fault.to).min(stretches - 1) {
                let start = stretch * part;
                let from = fault.from.max(start) - start;
                let to = fault.to.min(start + stretch) - start;
                // What ends as a stretch begins belongs to the one before.
                if from < to || fault.from >= start {
                    parts.push((part, Fault { from, to, ..fault.clone() }));
                }
            }
        }
        parts.sort_by_key(|(_, fault)| (fault.from, fault.line));
        let (mut names, mut known) = (Vec::new(), BTreeMap::new());
        let mut faults = Vec::with_capacity(parts.len());
        for (part, fault) in parts {
            let name = self.nodes.get(fault.node).map_or("", String::as_str);
            let node = number(&mut names, &mut known, format!("{name} in stretch {}", part + 1));
            faults.push(Fault { node, ..fault });
        }
        Self { nodes: names, faults, length: stretch, ..self }
    }

    /// When servers were out, in order: faults of one server at the same time are one outage.
    pub fn outages(&self) -> Vec<(Duration, Duration)> {
        let mut spans: BTreeMap<usize, Vec<(Duration, Duration)>> = BTreeMap::new();
        for fault in &self.faults {
            let own = spans.entry(fault.node).or_default();
            match own.last_mut() {
                Some((_, end)) if fault.from <= *end => *end = fault.to.max(*end),
                _ => own.push((fault.from, fault.to)),
            }
        }
        let mut spans: Vec<_> = spans.into_values().flatten().collect();
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        spans
    }

    /// How many spares would be enough if the outages were independent: Poisson's answer for their mean.
    pub fn independent_spares(&self) -> Option<usize> {
        let lost = |(from, to): &(Duration, Duration)| to.min(&self.length).saturating_sub(*from);
        let lost: Duration = self.outages().iter().map(lost).sum();
        let mean = lost.as_secs_f64() / self.length.as_secs_f64().max(f64::MIN_POSITIVE);
        capacity::spares(&[Outages { mean, size: 1 }], PROMISE)
    }

    /// The words of a fault.
    pub fn words(&self, fault: &Fault) -> Option<&TraceWords> {
        self.kinds.get(fault.kind)
    }

    /// Pairs beginnings and ends, by node and kind, the earliest open beginning first.
    fn pair(&mut self, events: Vec<Read<'_>>) {
        let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
        let mut kinds: BTreeMap<TraceWords, usize> = BTreeMap::new();
        let mut open: BTreeMap<(usize, usize), VecDeque<usize>> = BTreeMap::new();
        self.length = events.last().map(|event| event.at).unwrap_or_default();
        for event in events {
            let node = number(&mut self.nodes, &mut nodes, event.node.into_owned());
            let kind = number(&mut self.kinds, &mut kinds, event.words);
            let open = open.entry((node, kind)).or_default();
            if event.edge == Edge::Start {
                open.push_back(self.faults.len());
                let (from, to) = (event.at, self.length);
                self.faults.push(Fault { line: event.line, node, kind, from, to });
                continue;
            }
            let begun = open.pop_front().and_then(|index| self.faults.get_mut(index));
            let Some(fault) = begun else {
                self.warn(event.line, "a fault ends that never began; left out");
                continue;
            };
            fault.to = event.at;
            if fault.from == fault.to {
                let line = fault.line;
                self.warn(line, "the fault ends as it begins: its node was out for no time");
            }
        }
        for index in open.into_values().flatten() {
            let line = self.faults.get(index).map_or(0, |fault| fault.line);
            self.warn(line, "the fault never ends; taken to last until the end of the trace");
        }
    }

    /// Faults of one node at the same time: it is out until the last of them has ended.
    fn look_at_overlaps(&mut self) {
        let mut latest: BTreeMap<usize, (Duration, usize)> = BTreeMap::new();
        let mut found = Vec::new();
        for fault in &self.faults {
            let (end, line) = latest.entry(fault.node).or_insert((Duration::ZERO, 0));
            if fault.from < *end {
                found.push((
                    fault.line,
                    format!(
                        "the fault begins while that of line {line} lasts on the same node, which is out until both have ended"
                    ),
                ));
            }
            if fault.to > *end {
                (*end, *line) = (fault.to, fault.line);
            }
        }
        found.into_iter().for_each(|(line, what)| self.warn(line, what));
    }

    fn look_at_waves(&mut self) {
        let mut found = Vec::new();
        for wave in self.faults.chunk_by(|a, b| a.from == b.from).filter(|w| w.len() >= WAVE) {
            let day = wave.first().map_or(0.0, |fault| days(fault.from));
            let line = wave.iter().map(|fault| fault.line).min().unwrap_or_default();
            found.push((line, format!("{} faults begin at one instant, day {day:.4}", wave.len())));
        }
        found.into_iter().for_each(|(line, what)| self.warn(line, what));
    }

    fn warn(&mut self, line: usize, what: impl Into<String>) {
        self.warnings.push(Warning { line, what: what.into() });
    }
}

/// A time as days, as traces write it.
pub(super) fn days(at: Duration) -> f64 {
    at.as_secs_f64() / 86_400.0
}

/// The number of something in a list, in which it is put if it is new.
fn number<T: Clone + Ord>(all: &mut Vec<T>, known: &mut BTreeMap<T, usize>, one: T) -> usize {
    if let Some(number) = known.get(&one) {
        return *number;
    }
    let number = all.len();
    all.push(one.clone());
    known.insert(one, number);
    number
}

fn read<'a>(text: &'a str, warnings: &mut Vec<Warning>) -> Result<Vec<Read<'a>>, TraceError> {
    let raw: Events<'a> = serde_json::from_str(text).map_err(|error| broken(&error, 1))?;
    let (mut line, mut seen) = (1, 0);
    let mut latest = Duration::ZERO;
    let mut events = Vec::with_capacity(raw.0.len());
    for raw in raw.0 {
        // An event is a part of the text, so its place tells its line.
        let place = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        line += text.get(seen..place).map_or(0, newlines);
        seen = place.max(seen);
        let event: Event<'a> =
            serde_json::from_str(raw.get()).map_err(|error| broken(&error, line))?;
        let event = checked(event, line)?;
        if event.at < latest {
            let what = "the event is earlier than one before it; put in its place".to_owned();
            warnings.push(Warning { line, what });
        }
        latest = latest.max(event.at);
        events.push(event);
    }
    Ok(events)
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn checked(event: Event<'_>, line: usize) -> Result<Read<'_>, TraceError> {
    let wrong = |reason: String| TraceError { line, reason };
    if !(0.0..=MAX_DAYS).contains(&event.event_time) {
        let time = event.event_time;
        return Err(wrong(format!("event_time must be days from 0 to {MAX_DAYS}, not {time}")));
    }
    let Words { level, class, desc } = event.fault_type;
    let texts = [("node_id", &*event.node_id), ("Level", &level), ("Class", &class)];
    for (name, text) in texts.into_iter().chain([("Desc", &*desc)]) {
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(wrong(format!("{name} must have 1 to {MAX_TEXT} bytes")));
        }
    }
    let at = Duration::from_millis((event.event_time * DAY_MILLIS).round() as u64);
    let words = TraceWords { level, class, desc };
    Ok(Read { at, edge: event.event_type, node: event.node_id, words, line })
}

/// What serde says, with the line of the whole text.
fn broken(error: &serde_json::Error, first: usize) -> TraceError {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    // A text may quote the input at any length.
    let reason = reason.chars().take(300).collect();
    TraceError { line: first + error.line().saturating_sub(1), reason }
}

/// The events, each as it stands in the text; no more than are allowed.
struct Events<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Events<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut events = Vec::new();
                while let Some(event) = list.next_element()? {
                    if events.len() >= MAX_EVENTS {
                        let reason = format!("more than {MAX_EVENTS} events; split the file");
                        return Err(de::Error::custom(reason));
                    }
                    events.push(event);
                }
                Ok(events)
            }
        }
        deserializer.deserialize_seq(List).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// One event a line, after a line with the bracket: `(day, edge, node, description)`.
    fn file(events: &[(f64, &str, &str, &str)]) -> String {
        let one = |(at, edge, node, desc): &(f64, &str, &str, &str)| {
            format!(
                r#"{{"node_id": "{node}", "event_time": {at}, "event_type": "fault_{edge}", "fault_type": {{"Level": "Hardware Failure", "Class": "GPU", "Desc": "{desc}"}}}}"#
            )
        };
        format!("[\n{}\n]\n", events.iter().map(one).collect::<Vec<_>>().join(",\n"))
    }

    fn parse(events: &[(f64, &str, &str, &str)]) -> Trace {
        Trace::parse(&file(events)).unwrap()
    }

    fn spans(trace: &Trace) -> Vec<(&str, f64, f64)> {
        let span = |f: &Fault| (&*trace.nodes[f.node], days(f.from), days(f.to));
        trace.faults.iter().map(span).collect()
    }

    fn lines(trace: &Trace, word: &str) -> Vec<usize> {
        trace.warnings.iter().filter(|w| w.what.contains(word)).map(|w| w.line).collect()
    }

    #[test]
    fn beginnings_and_ends_are_paired_by_node_and_kind() {
        let trace = parse(&[
            (1.0, "start", "b", "ECC"),
            (2.0, "start", "a", "ECC"),
            (2.5, "end", "a", "ECC"),
            (3.0, "start", "b", "Fan"),
            (4.0, "end", "b", "Fan"),
            (5.0, "end", "b", "ECC"),
        ]);
        assert_eq!(spans(&trace), [("b", 1.0, 5.0), ("a", 2.0, 2.5), ("b", 3.0, 4.0)]);
        assert_eq!(trace.nodes, ["b", "a"], "in the order in which they appear");
        assert_eq!(trace.length, 5 * DAY);
        let overlap = "the fault begins while that of line 2 lasts on the same node, which is out until both have ended".to_owned();
        assert_eq!(trace.warnings, [Warning { line: 5, what: overlap }]);
    }

    #[test]
    fn odd_faults_are_understood_and_told_with_their_line() {
        let trace = parse(&[
            (1.0, "start", "a", "ECC"),
            (1.0, "end", "a", "ECC"),
            (2.0, "end", "c", "ECC"),
            (3.0, "start", "b", "ECC"),
            (9.0, "start", "a", "Fan"),
            (10.0, "end", "a", "Fan"),
        ]);
        assert_eq!(spans(&trace), [("a", 1.0, 1.0), ("b", 3.0, 10.0), ("a", 9.0, 10.0)]);
        assert_eq!(lines(&trace, "no time"), [2]);
        assert_eq!(lines(&trace, "never began"), [4]);
        assert_eq!(lines(&trace, "never ends"), [5]);
        assert_eq!(trace.warnings.len(), 3);
    }

    #[test]
    fn the_same_fault_twice_at_a_time_is_two() {
        let trace = parse(&[
            (1.0, "start", "a", "ECC"),
            (2.0, "start", "a", "ECC"),
            (3.0, "end", "a", "ECC"),
            (3.0, "start", "a", "ECC"),
            (4.0, "end", "a", "ECC"),
            (4.0, "end", "a", "ECC"),
        ]);
        assert_eq!(spans(&trace), [("a", 1.0, 3.0), ("a", 2.0, 4.0), ("a", 3.0, 4.0)]);
        assert_eq!(lines(&trace, "while that of line 2"), [3]);
        assert_eq!(lines(&trace, "while that of line 3"), [5]);
    }

    #[test]
    fn the_order_of_the_lines_does_not_matter() {
        let mut events = vec![
            (1.0, "start", "b", "ECC"),
            (1.0, "start", "a", "ECC"),
            (2.0, "end", "a", "ECC"),
            (4.0, "end", "b", "ECC"),
            (4.0, "start", "b", "ECC"),
            (5.0, "end", "b", "ECC"),
        ];
        let sorted = parse(&events);
        assert_eq!(sorted.warnings, []);
        events.reverse();
        let mut turned = parse(&events);
        assert_eq!(lines(&turned, "earlier"), [3, 4, 5, 6, 7], "all but the last in time");
        for (one, other) in turned.faults.iter_mut().zip(&sorted.faults) {
            one.line = other.line;
        }
        turned.warnings.clear();
        assert_eq!(turned, sorted);
    }

    #[test]
    fn a_wave_is_told_once() {
        let names: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
        let mut events: Vec<_> = names.iter().map(|n| (2.0, "start", &**n, "Link")).collect();
        events.extend(names.iter().map(|n| (3.0, "end", &**n, "Link")));
        let trace = parse(&events);
        assert_eq!(trace.faults.len(), 30);
        assert_eq!(lines(&trace, "30 faults begin at one instant, day 2.0000"), [2]);
        assert_eq!(trace.warnings.len(), 1);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_the_line() {
        let refused = |text: &str| Trace::parse(text).unwrap_err().to_string();
        let good = file(&[(1.0, "start", "a", "ECC"), (2.0, "end", "a", "ECC")]);
        assert!(Trace::parse(&good).is_ok());
        for (from, to, expected) in [
            (
                "\"node_id\": \"a\", \"event_time\": 2",
                "\"node\": \"a\", \"event_time\": 2",
                "line 3: unknown field `node`, expected one of `node_id`, `event_time`, `event_type`, `fault_type`",
            ),
            ("\"event_time\": 2, ", "", "line 3: missing field `event_time`"),
            (
                "fault_end",
                "fault_over",
                "line 3: unknown variant `fault_over`, expected `fault_start` or `fault_end`",
            ),
            (
                "\"event_time\": 2",
                "\"event_time\": -1",
                "line 3: event_time must be days from 0 to 36525, not -1",
            ),
            (
                "\"event_time\": 2",
                "\"event_time\": 1e300",
                "line 3: event_time must be days from 0 to 36525, not 1",
            ),
            (
                "\"event_time\": 2",
                "\"event_time\": \"2\"",
                "line 3: invalid type: string \"2\", expected f64",
            ),
            (
                "\"Desc\": \"ECC\"}}\n]",
                "\"Desc\": \"\"}}\n]",
                "line 3: Desc must have 1 to 253 bytes",
            ),
            ("}}\n]", "}},\n]", "line 4: trailing comma"),
            ("}}\n]", "}}\n", "line 5: EOF while parsing a list"),
            ("}}\n]", "}}\n] x", "line 4: trailing characters"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = refused(&good.replace(from, to));
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(refused(""), "line 1: EOF while parsing a value");
        assert_eq!(refused("faults"), "line 1: expected ident");
        assert_eq!(refused("[]"), "line 1: the list holds no event");
        assert_eq!(refused("{}"), "line 1: invalid type: map, expected a list of events");
        assert!(refused(&"[".repeat(100_000)).starts_with("line 1: "));
        assert!(refused(&format!("[{}0]", "0,".repeat(MAX_EVENTS))).contains("split the file"));
    }

    #[test]
    fn a_trace_can_be_cut() {
        let trace = parse(&[
            (1.0, "start", "a", "ECC"),
            (2.0, "start", "b", "ECC"),
            (3.0, "end", "a", "ECC"),
            (4.0, "end", "b", "ECC"),
        ]);
        let cut = trace.clone().up_to(2 * DAY);
        assert_eq!((spans(&cut), cut.length), (vec![("a", 1.0, 3.0)], 2 * DAY));
        assert_eq!(cut.nodes, ["a"]);
        assert_eq!(trace.clone().up_to(9 * DAY), trace);
    }

    #[test]
    fn a_trace_is_folded_into_a_larger_fleet_for_a_shorter_time() {
        let trace = parse(&[
            (0.5, "start", "a", "ECC"),
            (1.0, "end", "a", "ECC"),
            (1.5, "start", "a", "Fan"),
            (2.0, "start", "b", "ECC"),
            (2.0, "end", "b", "ECC"),
            (4.5, "end", "a", "Fan"),
            (5.0, "start", "b", "Fan"),
            (5.5, "end", "b", "Fan"),
        ]);
        // Two stretches of two days, and a day and a half that are left out.
        let folded = trace.clone().folded(2 * DAY);
        let (first, second) = ("a in stretch 1", "a in stretch 2");
        assert_eq!(
            spans(&folded),
            [
                (second, 0.0, 2.0),
                ("b in stretch 2", 0.0, 0.0),
                (first, 0.5, 1.0),
                (first, 1.5, 2.0)
            ]
        );
        assert_eq!((folded.length, folded.nodes.len()), (2 * DAY, 3));
        assert_eq!(trace.clone().folded(3 * DAY), trace, "too short for two");
        assert_eq!(trace.clone().folded(Duration::ZERO), trace);
    }

    mod odd {
        use super::super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn no_text_breaks_it(text in r#"[\[\]{}":,a-z0-9_\\ \n.-]{0,200}"#) {
                let _ = Trace::parse(&text);
            }
        }
    }
}
