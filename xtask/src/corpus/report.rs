//! What a run prints: a table per file, the first differences, or one case in full.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::Value;

use super::case::Deviation;
use super::compare::{Difference, differences, shortened};
use super::play::Exchange;

const SHOWN_DIFFERENCES: usize = 3;

/// A case as both servers answered it.
pub(crate) struct Played {
    /// `file/case`
    pub(crate) name: String,
    pub(crate) upstream: Vec<Exchange>,
    /// Absent when only the reference was asked.
    pub(crate) ours: Option<Vec<Exchange>>,
}

impl Played {
    /// Differences by step; a step that only one server reached differs as a whole.
    fn differences(&self) -> Vec<(usize, Vec<Difference>)> {
        let Some(ours) = &self.ours else { return Vec::new() };
        let mut found = Vec::new();
        for step in 0..self.upstream.len().max(ours.len()) {
            let answer = |side: &[Exchange]| side.get(step).map(|each| each.answer.clone());
            let differing = differences(
                &answer(&self.upstream).unwrap_or_default(),
                &answer(ours).unwrap_or_default(),
            );
            if !differing.is_empty() {
                found.push((step, differing));
            }
        }
        found
    }

    pub(crate) fn matches(&self) -> bool {
        self.differences().is_empty()
    }

    pub(crate) fn file(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    fn request(&self, step: usize) -> &str {
        let ours = self.ours.as_deref().unwrap_or_default();
        let exchange = self.upstream.get(step).or_else(|| ours.get(step));
        exchange.map_or("(no request)", |each| each.request.as_str())
    }
}

/// How many cases, how many of them agree, how many may differ.
#[derive(Default, Clone, Copy)]
struct Tally {
    cases: usize,
    matching: usize,
    accepted: usize,
}

impl Tally {
    fn add(&mut self, matches: bool, accepted: bool) {
        self.cases += 1;
        self.matching += usize::from(matches);
        self.accepted += usize::from(accepted && !matches);
    }

    /// In percent; accepted deviations are no matches.
    fn share(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 cases")]
        let share = self.matching as f64 * 100.0 / self.cases.max(1) as f64;
        share
    }

    fn row(self, name: &str) -> String {
        let Self { cases, matching, accepted } = self;
        format!("{name:<22} {cases:>5} {matching:>6} {accepted:>9} {:>6.1} %", self.share())
    }
}

/// Prints the comparison and returns the share that matches, in percent.
pub(crate) fn summary(played: &[Played], deviations: &[Deviation], most: usize) -> io::Result<f64> {
    let mut out = io::stdout().lock();
    let mut total = Tally::default();
    let accepted = |name: &str| deviations.iter().find(|deviation| deviation.covers(name));
    writeln!(out, "{:<22} {:>5} {:>6} {:>9} {:>8}", "file", "cases", "match", "accepted", "share")?;
    for group in played.chunk_by(|a, b| a.file() == b.file()) {
        let mut tally = Tally::default();
        for each in group {
            tally.add(each.matches(), accepted(&each.name).is_some());
            total.add(each.matches(), accepted(&each.name).is_some());
        }
        writeln!(out, "{}", tally.row(group.first().map_or("", Played::file)))?;
    }
    writeln!(out, "{}", total.row("total"))?;
    let (mut shown, mut hidden) = (0, 0);
    for each in played.iter().filter(|each| !each.matches()) {
        match accepted(&each.name) {
            Some(deviation) => {
                writeln!(out, "\naccepted {}: {}", each.name, deviation.reason)?;
            }
            None if shown < most => {
                shown += 1;
                write!(out, "\n{}", first_differences(each))?;
            }
            None => hidden += 1,
        }
    }
    if hidden > 0 {
        writeln!(out, "\n{hidden} more differ; --filter NAME narrows, --show NAME shows one")?;
    }
    for deviation in deviations {
        let mut covered = played.iter().filter(|each| deviation.covers(&each.name)).peekable();
        if covered.peek().is_some() && covered.all(Played::matches) {
            writeln!(out, "\n{} agrees by now: take it off the deviations", deviation.case)?;
        }
    }
    Ok(total.share())
}

fn first_differences(played: &Played) -> String {
    let mut out = format!("{}\n", played.name);
    if let Some((step, found)) = played.differences().first() {
        let request = shortened(played.request(*step), 400);
        let _ = writeln!(out, "  step {}: {request}", step + 1);
        for difference in found.iter().take(SHOWN_DIFFERENCES) {
            let _ = writeln!(out, "  {difference}");
        }
        if found.len() > SHOWN_DIFFERENCES {
            let _ = writeln!(out, "  and {} more", found.len() - SHOWN_DIFFERENCES);
        }
    }
    out
}

/// Prints one case in full.
pub(crate) fn show(played: &Played) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "== {}", played.name)?;
    let differing = played.differences();
    for (step, exchange) in played.upstream.iter().enumerate() {
        writeln!(out, "\n-- step {}: {}", step + 1, exchange.request)?;
        writeln!(out, "upstream {:#}", exchange.answer)?;
        let Some(ours) = &played.ours else { continue };
        match (differing.iter().find(|(at, _)| *at == step), ours.get(step)) {
            (None, _) => writeln!(out, "ours     the same")?,
            (Some(_), None) => writeln!(out, "ours     did not come this far")?,
            (Some((_, found)), Some(exchange)) => {
                writeln!(out, "ours     {:#}", exchange.answer)?;
                for difference in found {
                    writeln!(out, "  {difference}")?;
                }
            }
        }
    }
    Ok(())
}

/// Prints what the reference answered, a line or two per step.
pub(crate) fn recording(played: &[Played]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for each in played {
        writeln!(out, "{}", each.name)?;
        for exchange in &each.upstream {
            let request = shortened(&exchange.request.replace("\n  ", " "), 160);
            writeln!(out, "  {request}\n    {}", brief(&exchange.answer))?;
        }
    }
    Ok(())
}

/// Status, and what matters most of the body.
fn brief(answer: &Value) -> String {
    let body = &answer["body"];
    let warning = answer["headers"].get("warning").map(|text| format!(" {text}"));
    let text = if let Some(message) = body.get("message").filter(|_| body["kind"] == "Status") {
        format!("{} {message} {}", body["reason"], body["details"])
    } else if let Some(events) = answer.get("events") {
        events.to_string()
    } else if let Some(error) = answer.get("error") {
        error.to_string()
    } else {
        body.to_string()
    };
    let warning = warning.unwrap_or_default();
    shortened(&format!("{}{warning} {text}", answer["status"]), 420)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn played(upstream: &[Value], ours: &[Value]) -> Played {
        let side = |answers: &[Value]| {
            let exchange =
                |answer: &Value| Exchange { request: String::new(), answer: answer.clone() };
            answers.iter().map(exchange).collect()
        };
        Played { name: "f/c".into(), upstream: side(upstream), ours: Some(side(ours)) }
    }

    #[test]
    fn every_step_must_match() {
        assert!(played(&[json!(1), json!(2)], &[json!(1), json!(2)]).matches());
        assert!(!played(&[json!(1), json!(2)], &[json!(1), json!(3)]).matches());
        assert!(!played(&[json!(1), json!(2)], &[json!(1)]).matches());
        assert!(!played(&[json!(1)], &[json!(1), json!(2)]).matches());
    }

    #[test]
    fn accepted_deviations_are_no_matches() {
        let mut tally = Tally::default();
        tally.add(true, true);
        tally.add(false, true);
        tally.add(false, false);
        assert_eq!((tally.matching, tally.accepted), (1, 1));
        assert!((tally.share() - 33.333).abs() < 0.01);
    }
}
