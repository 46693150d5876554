//! One golden line for each way in which each row is seen: from the raw line or number to the row, its
//! condition, the first step, and where repeats lead.
//!
//! `UPDATE=1 cargo test -p plan golden` writes the file anew from the catalogue; read the difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use plan::catalogue::{Advice, Metric, Part, Repeat, Row, Sighting, Why};
use plan::detect::{Driver, Finding, Lines, Metrics, Sample, Symptom, Window, peers, symptoms};

use crate::CATALOGUE;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden.txt");
const GPU: &str = "0000:b5:00.0";

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The input as the golden file has it, and back.
fn write_input(symptom: &Symptom) -> String {
    match symptom {
        Symptom::Line(line) => format!("line {line}"),
        Symptom::Samples(samples) => {
            let first = &samples[0];
            let mut text = format!(
                "number {} of {} {} expects {}:",
                first.metric,
                first.part.kind(),
                if first.part.name().is_empty() { "-" } else { first.part.name() },
                first.expected.unwrap()
            );
            for sample in samples {
                let after = sample.at.duration_since(start()).as_secs();
                write!(text, " {after}s={:?}", sample.value).unwrap();
            }
            text
        }
        Symptom::Peers { metric, peers, typical, value } => {
            format!("peers {metric}: {} of {typical:?}, one of {value:?}", peers - 1)
        }
    }
}

fn read_samples(text: &str) -> Vec<Sample> {
    let (head, values) = text.split_once(": ").unwrap();
    let words: Vec<&str> = head.split(' ').collect();
    let [metric, "of", kind, name, "expects", expected] = words[..] else { panic!("{head}") };
    let part = match name {
        "-" => Part::node(),
        name => Part::new(kind.parse().unwrap(), name),
    };
    let sample = |word: &str| {
        let (after, value) = word.split_once("s=").unwrap();
        Sample {
            at: start().checked_add(Duration::from_secs(after.parse().unwrap())).unwrap(),
            metric: metric.parse().unwrap(),
            part: part.clone(),
            value: value.parse().unwrap(),
            expected: Some(expected.parse().unwrap()),
        }
    };
    values.split(' ').map(sample).collect()
}

struct Detectors {
    lines: Lines,
    metrics: Metrics,
}

impl Detectors {
    fn new() -> Self {
        let lines = Lines::new(&CATALOGUE).unwrap();
        let metrics = Metrics::new(&CATALOGUE, None);
        Self { lines, metrics }
    }

    fn read(&self, input: &str) -> Vec<Finding> {
        let (how, text) = input.split_once(' ').unwrap();
        match how {
            "line" => self.lines.read(text.as_bytes(), start(), Driver::version("580.95.05")),
            "number" => {
                let mut window = Window::default();
                let mut found = Vec::new();
                for sample in read_samples(text) {
                    let (next, findings) = self.metrics.read(window, &sample);
                    window = next;
                    found.extend(findings);
                }
                found
            }
            "peers" => {
                let (metric, text) = text.split_once(": ").unwrap();
                let (others, one) = text.split_once(", one of ").unwrap();
                let (count, typical) = others.split_once(" of ").unwrap();
                let metric: Metric = metric.parse().unwrap();
                let typical: f64 = typical.parse().unwrap();
                let count: usize = count.parse().unwrap();
                let mut values: Vec<(Part, f64)> =
                    (0..count).map(|i| (Part::gpu(&format!("peer {i}")), typical)).collect();
                values.push((Part::gpu(GPU), one.parse().unwrap()));
                let found = peers(&CATALOGUE, metric, start(), &values);
                assert!(found.iter().all(|(index, _)| *index == count), "{input}");
                found.into_iter().map(|(_, finding)| finding).collect()
            }
            how => panic!("{how} is no input"),
        }
    }

    /// The whole golden line for an input that must be evidence of `row`.
    fn line(&self, row: &Row, input: &str) -> String {
        let found = self.read(input);
        let finding = found
            .iter()
            .find(|finding| finding.row == row.id && finding.present)
            .unwrap_or_else(|| panic!("{}: {input} is not seen; found {found:?}", row.id));
        let advice = self.advise(row, &finding.part, 1, Duration::ZERO);
        let policy = CATALOGUE.policy(&row.policy).unwrap();
        let mut text = format!(
            "{} | {input} | {}/{} {} {} | {}",
            row.id,
            row.condition,
            row.reason,
            row.severity,
            row.scope,
            first(&advice)
        );
        for repeat in row.repeats.iter().chain(&policy.repeats) {
            write!(text, " | {}", self.escalation(row, &finding.part, repeat)).unwrap();
        }
        text
    }

    /// As many sightings as the repeat asks for, as close together as its bursts allow.
    fn escalation(&self, row: &Row, part: &Part, repeat: &Repeat) -> String {
        let step = repeat.burst + Duration::from_secs(1);
        let span = step * (repeat.count - 1);
        assert!(
            span <= repeat.within,
            "{}: {} in {:?} cannot happen",
            row.id,
            repeat.count,
            repeat.within
        );
        let advice = self.advise(row, part, repeat.count, step);
        assert!(
            matches!(advice.why, Why::Repeated { .. })
                || advice.policy.rung(repeat.escalate) == Some(0),
            "{}: {repeat:?} changes nothing",
            row.id
        );
        let hours = repeat.within.as_secs() / 3_600;
        format!("{}x/{hours}h {}", repeat.count, first(&advice))
    }

    fn advise(&self, row: &Row, part: &Part, count: u32, step: Duration) -> Advice<'_> {
        let at = |i| start().checked_add(step * i).unwrap();
        let sighting = |i| Sighting { row: row.id.clone(), part: part.clone(), at: at(i) };
        let sightings: Vec<Sighting> = (0..count).map(sighting).collect();
        let mut advice = CATALOGUE.advise(&sightings);
        assert_eq!(advice.len(), 1);
        advice.remove(0)
    }
}

fn first(advice: &Advice<'_>) -> String {
    advice
        .first()
        .map_or_else(|| "count".to_owned(), |rung| format!("{} {}", advice.policy.drain, rung.step))
}

/// The name of a part that the row's evidence can be about.
fn name(row: &Row) -> &'static str {
    match row.id.as_str().split('/').next() {
        Some("nvme" | "fs") => "nvme0n1",
        Some("ib" | "nic") => "0000:5c:00.0",
        Some("bmc") => "PSU1",
        _ => GPU,
    }
}

#[test]
fn every_row_is_seen_and_answered_as_the_golden_file_says() {
    let detectors = Detectors::new();
    if std::env::var_os("UPDATE").is_some() {
        let mut text = String::new();
        for row in CATALOGUE.rows() {
            for symptom in symptoms(row, name(row), start()) {
                writeln!(text, "{}", detectors.line(row, &write_input(&symptom))).unwrap();
            }
        }
        std::fs::write(FILE, text).unwrap();
    }
    let golden = std::fs::read_to_string(FILE).unwrap();
    let mut covered: BTreeMap<&str, usize> = BTreeMap::new();
    for line in golden.lines() {
        let mut fields = line.split(" | ");
        let (id, input) = (fields.next().unwrap(), fields.next().unwrap());
        let row = CATALOGUE.row(id).unwrap_or_else(|| panic!("{id} is no row"));
        assert_eq!(detectors.line(row, input), line);
        *covered.entry(id).or_default() += 1;
    }
    for row in CATALOGUE.rows() {
        let seen = covered.get(row.id.as_str()).copied().unwrap_or_default();
        assert_eq!(seen, row.seen.len(), "{} has {seen} golden lines", row.id);
    }
    assert!(golden.lines().count() >= 300, "{}", golden.lines().count());
}

#[test]
fn a_symptom_that_is_not_there_is_not_seen() {
    let detectors = Detectors::new();
    for input in [
        "line NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "line NVRM: Xid : 32, pid=2280636",
        "line usb 1-1: new high-speed USB device",
        "number link-up of nic mlx5_0 expects 1: 0s=0.0 29s=0.0 30s=1.0",
        "number gpu-remap-pending of gpu 0 expects 0: 0s=0.0 60s=0.0",
        "number ib-symbol-errors of nic mlx5_0 expects 0: 0s=5000.0 3600s=5120.0",
        "peers step-time: 7 of 16.0, one of 17.5",
    ] {
        assert_eq!(detectors.read(input), [], "{input}");
    }
}
