//! The other way round: what a fault looks like from outside. The simulator shows it, and the golden
//! test reads it back; nobody may take it for a finding.

use std::time::Duration;

use jiff::Timestamp;

use super::sample::Sample;
use crate::catalogue::{
    Limit, Metric, Nvlink5, Part, PartKind, PartRule, Row, Rule, Severity, Signal,
};

/// A little more than any bound, in the bound's own unit.
const MARGIN: f64 = 1.0;
/// What is expected where nobody says what: any number serves, since bounds are shares of it.
const TYPICAL: f64 = 16.0;

/// How a fault shows itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Symptom {
    /// A line of the kernel's log.
    Line(String),
    /// Samples, the last of which passes the bound.
    Samples(Vec<Sample>),
    /// A value among those of its peers.
    Peers {
        /// Of which metric.
        metric: Metric,
        /// How many peers there must be, itself included.
        peers: u32,
        /// What the others show.
        typical: f64,
        /// What it shows.
        value: f64,
    },
}

/// How the fault of a row shows itself on a part, beginning at `from`: one symptom for each way in
/// which the row is seen. `part` names a GPU or switch by PCI address, another part by its name.
#[must_use]
pub fn symptoms(row: &Row, part: &str, from: Timestamp) -> Vec<Symptom> {
    let fatal = row.severity == Severity::S1;
    row.seen.iter().map(|signal| symptom(signal, fatal, part, from)).collect()
}

fn symptom(signal: &Signal, fatal: bool, part: &str, from: Timestamp) -> Symptom {
    let nvrm = |text: String| Symptom::Line(format!("NVRM: Xid (PCI:{part}): {text}"));
    match signal {
        Signal::Xid { code } => nvrm(format!("{code}, pid='<unknown>', name=<unknown>, simulated")),
        Signal::Recovery { action } => nvrm(format!(
            "154, GPU recovery action changed from 0x9 (Other) to {action:#x} (Simulated)"
        )),
        Signal::XidRegister { register, mask } => {
            let word = |i| if i == usize::from(*register) { mask & mask.wrapping_neg() } else { 0 };
            let words: Vec<String> = (0..7).map(|i| format!("{:#x}", word(i))).collect();
            nvrm(format!(
                "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 7({})",
                words.join(", ")
            ))
        }
        Signal::Nvlink5(decode) => nvrm(nvlink5(decode, fatal)),
        Signal::Sxid { code } => Symptom::Line(format!(
            "nvidia-nvswitch0: SXid (PCI:{part}): {code}, {}, Link 32 simulated (First)",
            if fatal { "Fatal" } else { "Non-fatal" },
        )),
        // A code that no driver has: the rows for codes that the catalogue lacks.
        Signal::Log { pieces, .. } if pieces[0].starts_with("NVRM: Xid (") => {
            nvrm("999, pid='<unknown>', name=<unknown>, simulated".to_owned())
        }
        Signal::Log { pieces, .. } if pieces[0].starts_with("SXid (") => {
            let class = pieces.last().map_or("", String::as_str);
            Symptom::Line(format!(
                "nvidia-nvswitch0: SXid (PCI:{part}): 99999{class}, Link 32 simulated (First)"
            ))
        }
        Signal::Log { pieces, part: rule, .. } => Symptom::Line(line(pieces, rule, part)),
        Signal::Metric { metric, rule } => numbers(*metric, rule, part, from),
    }
}

/// The words as driver branch 575 and later has them.
fn nvlink5(decode: &Nvlink5, fatal: bool) -> String {
    let reason = decode.reason.unwrap_or_default() << 20;
    let escalated = u32::from(decode.escalated.unwrap_or_default()) << 7;
    let info = decode.v2 | escalated | reason;
    let unit = decode.units.last().map_or("", String::as_str);
    let status = decode.status.unwrap_or_default();
    format!(
        "{}, {unit} {} XC0 i0 Link 09 ({info:#010x} {status:#010x} 0x00000000)",
        decode.code,
        if fatal { "Fatal" } else { "Nonfatal" },
    )
}

fn line(pieces: &[String], rule: &PartRule, part: &str) -> String {
    let mut text = pieces.join(" ");
    if let Some(after) = &rule.after {
        let named = format!("{after} {part} ").replace("( ", "(");
        match text.find(after.as_str()) {
            Some(at) => {
                let end = at + after.len();
                let space = if after.ends_with([' ', '(', ':']) { "" } else { " " };
                // The part's name goes where the rule looks for it, unless a piece runs across it.
                if pieces.iter().any(|piece| piece.ends_with(after.trim_end())) || text.len() == end
                {
                    text.insert_str(end, &format!("{space}{part}"));
                }
            }
            None => text.insert_str(0, &named),
        }
    }
    text
}

fn numbers(metric: Metric, rule: &Rule, part: &str, from: Timestamp) -> Symptom {
    let kind = kind(metric);
    let part = if kind == PartKind::Node { Part::node() } else { Part::new(kind, part) };
    let sample = |after: Duration, value: f64| Sample {
        at: from.checked_add(after).unwrap_or(Timestamp::MAX),
        metric,
        part: part.clone(),
        value,
        expected: Some(TYPICAL),
    };
    let bound = |limit: &Limit| match limit {
        Limit::Fixed(limit) => *limit,
        Limit::Expected(share) => TYPICAL * share,
    };
    let held = |value: f64, hold: Duration| {
        let mut samples = vec![sample(Duration::ZERO, value)];
        if !hold.is_zero() {
            samples.push(sample(hold, value));
        }
        Symptom::Samples(samples)
    };
    match rule {
        Rule::Above { limit, hold } => held(bound(limit) + MARGIN, *hold),
        Rule::Below { limit, hold } => held(bound(limit) - MARGIN, *hold),
        Rule::Rise { by, per } => {
            Symptom::Samples(vec![sample(Duration::ZERO, 0.0), sample(*per, by + MARGIN)])
        }
        Rule::Flap { times, down, .. } => {
            let mut samples = Vec::new();
            for i in 0..*times {
                let start = (*down + Duration::from_secs(10)) * i;
                samples.push(sample(start, 0.0));
                samples.push(sample(start + *down, 1.0));
            }
            Symptom::Samples(samples)
        }
        Rule::Peers { factor, peers } => {
            let beyond = if *factor > 1.0 { factor + 0.05 } else { factor - 0.05 };
            Symptom::Peers { metric, peers: *peers, typical: TYPICAL, value: TYPICAL * beyond }
        }
    }
}

/// What kind of part a metric is about, by the beginning of its name.
fn kind(metric: Metric) -> PartKind {
    let name = metric.as_str();
    if name.ends_with("-count") || name == "gpu-query-age" {
        return PartKind::Node;
    }
    let kinds = [
        ("gpu-", PartKind::Gpu),
        ("nvlink-", PartKind::Gpu),
        ("ib-", PartKind::Nic),
        ("link-", PartKind::Nic),
        ("nic-", PartKind::Nic),
        ("roce-", PartKind::Nic),
        ("carrier-", PartKind::Nic),
        ("nvme-", PartKind::Disk),
        ("sensor-", PartKind::Sensor),
    ];
    kinds
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map_or(PartKind::Node, |(_, kind)| *kind)
}
