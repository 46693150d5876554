//! `report.json`: what a replay found, for machines. The same seed gives the same bytes: neither the
//! time of day nor the machine's name nor a path is in it.

use std::collections::BTreeMap;

use plan::catalogue::Basis;
use serde::Serialize;

use super::ettr::{self, Ettr};
use super::findings::{
    Action, Capacity, Case, Figure, Findings, Repairs, Spread, Verdict, seconds,
};
use super::trace::Warning;

/// The report. Times are in seconds, shares between 0 and 1.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Decided everything that was drawn.
    pub seed: u64,
    /// Nodes that the pool promised.
    pub servers: usize,
    /// Days that were replayed.
    pub days: f64,
    /// What every figure rests on.
    pub delays: Delays,
    /// How many faults.
    pub faults: Faults,
    /// What became of each kind, the most frequent first.
    pub classes: Vec<Class>,
    /// From a node's going out to another's having taken its place, where a proven spare was there.
    pub swap: Spread,
    /// What the pool kept of its promise.
    pub capacity: Capacity,
    /// How much of their time jobs made progress.
    pub ettr: Vec<Ettr>,
    /// Everything that was done, people's acts among it.
    pub actions: Vec<Action>,
    /// What should all be 0.
    pub verdict: Verdict,
}

/// What every figure rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Delays {
    /// How repairs went.
    pub repairs: Repairs,
    /// What everything took.
    pub table: Vec<Figure>,
}

/// How many faults.
#[derive(Clone, Debug, Serialize)]
pub struct Faults {
    /// In the trace.
    pub read: usize,
    /// Shown to the fleet.
    pub injected: usize,
    /// What was odd about the trace, by line.
    pub warnings: Vec<Warning>,
}

/// What became of one kind of fault.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// The trace's words.
    pub level: String,
    /// The trace's words.
    pub class: String,
    /// The trace's words.
    pub desc: String,
    /// How many.
    pub faults: usize,
    /// How many of them show a symptom that the trace does not name.
    pub assumed: usize,
    /// How many were noticed; the others were over before, or nobody could see them.
    pub detected: usize,
    /// Steps of the ladder by how often they were tried, and `Swap` and `Triage`.
    pub actions: BTreeMap<String, usize>,
    /// How many were over without the machine's being back.
    pub unsolved: usize,
    /// Time in each stage.
    pub stages: Stages,
}

/// How long the stages of a fault took.
#[derive(Clone, Debug, Serialize)]
pub struct Stages {
    /// From the fault to its being noticed.
    pub noticed: Spread,
    /// From that to the node's taking no more work.
    pub out: Spread,
    /// From that to another's having taken its place.
    pub replaced: Spread,
    /// From going out to triage: the ladder, tried in vain.
    pub handed_over: Spread,
    /// From the end of the fault to the machine's being in service again.
    pub returned: Spread,
}

impl Findings {
    /// The report.
    pub fn report(&self) -> Report {
        let words = self.by_words();
        let classes = words.iter().map(|(words, cases)| Class {
            level: words.level.clone(),
            class: words.class.clone(),
            desc: words.desc.clone(),
            faults: cases.len(),
            assumed: cases.iter().filter(|case| case.basis == Basis::Assumed).count(),
            detected: cases.iter().filter(|case| case.noticed.is_some()).count(),
            actions: actions(cases),
            unsolved: cases.iter().filter(|case| self.unsolved(case)).count(),
            stages: stages(cases),
        });
        Report {
            seed: self.seed,
            servers: self.servers,
            days: self.days(),
            delays: Delays { repairs: self.repairs, table: self.delays.clone() },
            faults: Faults {
                read: self.read,
                injected: self.cases.len(),
                warnings: self.warnings.clone(),
            },
            classes: classes.collect(),
            swap: Spread::of(self.warm_swaps()),
            capacity: self.capacity(),
            ettr: ettr::measure(&self.pool()),
            actions: self.everything(),
            verdict: self.verdict,
        }
    }

    /// What the fleet and its people did, by time.
    fn everything(&self) -> Vec<Action> {
        let mut all = self.actions.clone();
        all.extend(self.people.iter().map(|act| act.action(self.start)));
        all.sort_by(|a, b| a.t.total_cmp(&b.t));
        all
    }
}

impl Report {
    /// As text.
    ///
    /// # Errors
    /// Never, as every field is a number or a text.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// Which steps were tried how often.
pub(super) fn actions(cases: &[&Case]) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |name: &str| *counts.entry(name.to_owned()).or_default() += 1;
    for case in cases {
        case.steps.iter().for_each(|step| add(step));
        if case.replaced.is_some() {
            add("Swap");
        }
        if case.handed_over.is_some() {
            add("Triage");
        }
    }
    counts
}

pub(super) fn stages(cases: &[&Case]) -> Stages {
    let of = |time: fn(&Case) -> Option<std::time::Duration>| {
        Spread::of(cases.iter().filter_map(|case| time(case)))
    };
    Stages {
        noticed: of(|case| case.noticed?.checked_sub(case.at)),
        out: of(|case| case.out?.checked_sub(case.noticed?)),
        replaced: of(Case::swap),
        handed_over: of(|case| case.handed_over?.checked_sub(case.out?)),
        returned: of(|case| Some(case.returned?.saturating_sub(case.end))),
    }
}

impl crate::people::Act {
    /// As an action of the report, told as a person's.
    fn action(&self, start: jiff::Timestamp) -> Action {
        let since = std::time::Duration::try_from(self.at.duration_since(start));
        Action {
            t: seconds(since.unwrap_or_default()),
            node: self.about.clone(),
            action: format!("{:?} by {}", self.what, self.by),
            reason: self.why.clone(),
            evidence: vec![format!("the simulated {} is a person", self.by)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::sample;
    use serde_json::Value;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_report_has_the_promised_keys_and_no_others() {
        let text = sample().report().json().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let mut promised = [
            "seed", "servers", "days", "delays", "faults", "classes", "swap", "capacity", "ettr",
            "actions", "verdict",
        ];
        promised.sort_unstable();
        assert_eq!(keys(&value), promised);
        assert_eq!(keys(&value["faults"]), ["injected", "read", "warnings"]);
        assert_eq!(keys(&value["swap"]), ["p50", "p90", "p99"]);
        assert_eq!(keys(&value["capacity"]), ["in_service", "promised", "recorded", "spares"]);
        assert_eq!(keys(&value["actions"][0]), ["action", "evidence", "node", "reason", "t"]);
        assert_eq!(keys(&value["verdict"]), ["against_person", "no_evidence", "over_budget"]);
        assert_eq!(value["classes"][0]["actions"]["ResetGpu"], 2);
        assert_eq!(value["classes"][0]["stages"]["noticed"]["p99"], 2.0);
        assert_eq!(value["classes"][1]["unsolved"], 1);
    }

    #[test]
    fn the_report_is_the_same_byte_for_byte() {
        let text = || sample().report().json().unwrap();
        assert_eq!(text(), text());
    }
}
