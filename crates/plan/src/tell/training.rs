//! How far a training job has come, and where the time of its stops went.

use super::{Why, count, span};
use crate::capacity::{self, Job};
use crate::training::{Part, cover, parts, slowest, sum};
use api::training::{Lost, Phase, Progress, Stop};
use api::{Incident, Machine};
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;

/// As many stops are told one by one.
const TOLD: usize = 4;

/// Failures per 1,000 node-days that Meta published for its cluster RSC-1 (Kokolis et al., 2024):
/// what a job of this size has to expect on real hardware.
const FAILURES: f64 = 6.5;

/// An answer with a table of lost time below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    why: Why,
    /// By cause, over the stops that are told.
    pub lost: Vec<Part>,
}

/// Tells about a job. Incidents and machines are all that are known.
pub fn training(
    now: Timestamp,
    job: &str,
    progress: &Progress,
    incidents: &[Incident],
    machines: &[Machine],
) -> Training {
    let mut why = Why::new(headline(now, job, progress));
    let stops: Vec<Vec<Part>> =
        progress.stops.iter().map(|stop| parts(now, progress, stop, incidents, machines)).collect();
    let skipped = progress.stops.len().saturating_sub(TOLD);
    for (stop, parts) in progress.stops.iter().zip(&stops).skip(skipped) {
        let here: Duration = parts.iter().map(|part| part.here).sum();
        why.line("stopped", stopped(stop, here));
        if let Some(lost) = slowest(stop) {
            why.line("cover", covered(lost, machines));
        }
    }
    let lost = sum(&stops);
    let real: Duration = lost.iter().map(|part| part.real).sum();
    why.line("expect", expectation(progress, &lost, real));
    Training { why, lost }
}

fn headline(now: Timestamp, job: &str, progress: &Progress) -> String {
    let stretch = progress.stretch(now);
    let ranks = format!(
        "{} ranks, {} GPUs",
        progress.ranks,
        thousands(u64::from(progress.ranks) * u64::from(progress.gpus))
    );
    let does = match progress.phase {
        Phase::Gathering if progress.stopped == 0 => "waits until all its ranks run",
        Phase::Gathering => "stands still until all its ranks run again",
        Phase::Computing if now < progress.since => "restarts from its last checkpoint",
        Phase::Computing => "computes",
    };
    let checkpoints = progress.checkpoints + stretch.checkpoints;
    let kept = time(progress.kept + stretch.kept);
    let stops = match progress.stopped {
        0 => "never stopped".to_owned(),
        1 => "stopped once".to_owned(),
        n => format!("stopped {n} times"),
    };
    format!("{job} ({ranks}) {does}: {checkpoints} checkpoints hold {kept} of work; {stops}.")
}

fn stopped(stop: &Stop, took: Duration) -> String {
    let took = if stop.going.is_some() { "" } else { "until now " }.to_owned() + &short(took);
    let Some(first) = stop.lost.first() else { return took };
    let others = match stop.lost.len() - 1 {
        0 => String::new(),
        more => format!("; {} more were lost beside it", count(more, "rank")),
    };
    let on = if first.node.is_empty() { "nowhere" } else { &first.node };
    format!("{took}: rank {} on {on} was lost ({}){others}", first.rank, first.why)
}

/// Who took the place of a lost rank's machine.
fn covered(lost: &Lost, machines: &[Machine]) -> String {
    match (cover(lost, machines), &lost.on) {
        (Some((spare, near)), _) => format!(
            "spare {} ({}) took the place of {}",
            spare.name(),
            near.unwrap_or("another site"),
            lost.node
        ),
        (None, Some(node)) => format!("rank {} runs on {node} again", lost.rank),
        (None, None) => String::new(),
    }
}

/// What such a job has to expect, by the formula that the field uses.
fn expectation(progress: &Progress, lost: &[Part], real: Duration) -> String {
    let stops = u32::try_from(progress.stops.len()).unwrap_or(u32::MAX);
    let Some(each) = real.checked_div(stops) else { return String::new() };
    let redone = lost.last().map(|part| part.real / stops).unwrap_or_default();
    let Some(mttf) = capacity::mttf(f64::from(progress.ranks), FAILURES) else {
        return String::new();
    };
    let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let job =
        Job { mttf, write: seconds(progress.pace.write), restart: each.saturating_sub(redone) };
    let every = seconds(progress.pace.every);
    let share = |every| job.ettr(every).max(0.0) * 100.0;
    let best = job.best_interval().filter(|_| !job.write.is_zero());
    let better = best.map_or(String::new(), |best| {
        format!("; with one every {}, the best, {:.1} %", span(best), share(best))
    });
    format!(
        "on real hardware that fails {FAILURES} times per 1,000 node-days, one stop in {}; with a \
         checkpoint every {} it makes progress {:.1} % of the time{better}",
        span(mttf),
        span(every),
        share(every)
    )
}

impl fmt::Display for Training {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.why)?;
        if self.lost.iter().all(|part| part.here.is_zero()) {
            return Ok(());
        }
        write!(out, "\n\n  {:<13}{:>12}{:>16}   for", "lost time", "here", "real hardware")?;
        for part in &self.lost {
            let (name, about) = (part.cause.name(), part.cause.about());
            let (here, real) = (short(part.here), short(part.real));
            write!(out, "\n  {name:<13}{here:>12}{real:>16}   {about}")?;
        }
        let all = |of: fn(&Part) -> Duration| short(self.lost.iter().map(of).sum());
        let (here, real) = (all(|part| part.here), all(|part| part.real));
        write!(out, "\n  {:<13}{here:>12}{real:>16}", "all")
    }
}

/// Seconds of training as people say them.
fn time(seconds: f64) -> String {
    short(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A duration with as much detail as a comparison needs: `28.8 s`, `5 min 18 s`.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{:.1} s", time.as_secs_f64()),
        120..=7_199 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..=172_799 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A number with commas: `3,504`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::training::Pace;

    #[test]
    fn a_stop_is_told_with_its_parts_and_fits_the_screen() {
        let at = |millis: i64| Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap();
        let lost = Lost {
            rank: 17,
            pod: "p".to_owned(),
            node: "r03-s07".to_owned(),
            why: "xid/95: Memory of the GPU is broken and programs on other GPUs may be hit"
                .to_owned(),
            asked: Some(at(15_000)),
            left: Some(at(16_000)),
            made: Some(at(16_100)),
            placed: Some(at(16_300)),
            on: Some("r03-s08".to_owned()),
        };
        let stop = Stop {
            at: at(0),
            redo: 180.0,
            lost: vec![lost],
            gathered: Some(at(18_300)),
            going: Some(at(18_500)),
        };
        let progress = Progress {
            ranks: 438,
            gpus: 8,
            speed: 600.0,
            pace: Pace { every: 300.0, write: 20.0, restart: 120.0 },
            phase: Phase::Computing,
            since: at(18_500),
            kept: 3_600.0,
            checkpoints: 12,
            stopped: 1,
            stops: vec![stop],
        };
        let told = training(at(19_500), "acme/train", &progress, &[], &[]).to_string();
        let expected = [
            "acme/train (438 ranks, 3,504 GPUs) computes: 13 checkpoints hold 65 min 0 s of work; stopped once.",
            "  stopped     18.8 s: rank 17 on r03-s07 was lost (xid/95: Memory of the GPU is broken and programs",
            "  restart             0.2 s       2 min 0 s   processes, communicators, the checkpoint read back",
            "  redone work         0.3 s       3 min 0 s   since the last complete checkpoint",
            "  all                18.8 s      5 min 18 s",
        ];
        for line in expected {
            assert!(told.contains(line), "{line}\n{told}");
        }
        assert!(told.contains("one stop in 8 h"), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 3_504, 1_000_000].map(thousands), ["0", "999", "3,504", "1,000,000"]);
    }
}
