//! What a replay found, for a terminal: at most 100 columns, every line a fact.

use std::fmt::Write;
use std::time::Duration;

use plan::catalogue::TraceWords;
use plan::pool::PROMISE;

use super::ettr;
use super::findings::{Case, Curves, Findings, Repairs, Spread};
use super::report::{actions, stages};

/// Kinds with fewer faults than this share a line, unless all are asked for.
const FEW: usize = 4;
/// Columns of the first column.
const NAME: usize = 31;

/// What a replay took, on the clock on the wall. It is in no file, as it is never the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How long.
    pub took: Duration,
    /// How much of that the processor worked, where the system tells.
    pub cpu: Option<Duration>,
    /// The most memory that the process had, in bytes, where the system tells.
    pub memory: Option<u64>,
}

impl Findings {
    /// The text. `verbose` tells every kind of fault, and what every figure rests on.
    pub fn text(&self, cost: Cost, verbose: bool) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out, cost, verbose);
        out
    }

    fn write(&self, out: &mut String, cost: Cost, verbose: bool) -> std::fmt::Result {
        write!(
            out,
            "{} days · {} servers, {} · {} faults · seed {} · {}",
            whole(self.days()),
            whole(self.servers as f64),
            spares(self.spares),
            whole(self.cases.len() as f64),
            self.seed,
            words(cost.took)
        )?;
        if let Some(cpu) = cost.cpu {
            write!(out, " (CPU {})", words(cpu))?;
        }
        match cost.memory {
            Some(bytes) => writeln!(out, " · {} MiB", whole((bytes >> 20) as f64))?,
            None => out.push('\n'),
        }
        self.write_classes(out, verbose)?;
        out.push('\n');
        self.write_sums(out)?;
        if verbose {
            out.push_str("\nrests on\n");
            for figure in &self.delays {
                let time = words(Duration::try_from_secs_f64(figure.seconds).unwrap_or_default());
                writeln!(out, "  {:<24} {time:>12}  {}", figure.name, figure.source)?;
            }
        }
        Ok(())
    }

    fn write_classes(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        writeln!(
            out,
            "{:<NAME$} {:>4}  {:>11}  {:>21}  {:<17} unsolved",
            "fault", "n", "noticed P50", "out->replaced P50/P99", "action"
        )?;
        let mut rare: Vec<&Case> = Vec::new();
        let mut kinds = 0;
        for (words, cases) in self.by_words() {
            if cases.len() < FEW && !verbose {
                rare.extend(cases);
                kinds += 1;
            } else {
                self.write_class(out, &name(words), &cases)?;
            }
        }
        if !rare.is_empty() {
            self.write_class(out, &format!("{kinds} rarer kinds (--verbose)"), &rare)?;
        }
        Ok(())
    }

    fn write_class(&self, out: &mut String, name: &str, cases: &[&Case]) -> std::fmt::Result {
        let stages = stages(cases);
        let warm = Spread::of(cases.iter().filter(|case| case.warm).filter_map(|case| case.swap()));
        let tried: Vec<String> =
            actions(cases).iter().map(|(action, count)| format!("{action} {count}")).collect();
        let swap = match (warm.p50, warm.p99) {
            (Some(p50), Some(p99)) => format!("{} / {}", short(p50), short(p99)),
            _ => "-".to_owned(),
        };
        let unsolved = cases.iter().filter(|case| self.unsolved(case)).count();
        let noticed = stages.noticed.p50.map_or_else(|| "-".to_owned(), short);
        let mut lines = wrap(&tried, 17).into_iter();
        let first = lines.next().unwrap_or_else(|| "none".to_owned());
        writeln!(
            out,
            "{name:<NAME$} {:>4}  {noticed:>11}  {swap:>21}  {first:<17} {unsolved:>8}",
            cases.len()
        )?;
        for line in lines {
            writeln!(out, "{:74}{line}", "")?;
        }
        Ok(())
    }

    fn write_sums(&self, out: &mut String) -> std::fmt::Result {
        let repairs = match self.repairs {
            Repairs::Recorded => "as recorded (no server comes back before the trace says so)",
            Repairs::Ladder => "by the ladder (which step cures what is assumed, row by row)",
        };
        line(out, "repairs", repairs)?;
        let assumed = self.cases.len() - self.as_recorded();
        let named = self.as_recorded();
        line(out, "symptoms", &format!("{named} named by the trace, {assumed} assumed"))?;
        let swap = Spread::of(self.warm_swaps());
        let waited = self.cases.iter().filter(|case| !case.warm && case.out.is_some()).count();
        let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), short);
        let swaps = format!(
            "P50 {}, P90 {}, P99 {} with a proven spare there; {waited} found none",
            time(swap.p50),
            time(swap.p90),
            time(swap.p99)
        );
        line(out, "swap", &swaps)?;
        self.write_capacity(out)?;
        for job in ettr::measure(&self.pool()) {
            let label = if job.gpus == ettr::SIZES[0] { "ETTR" } else { "" };
            let text = format!(
                "{:>5} GPUs  {:.3} measured, {:.3} by formula; {:.3} lost waiting for spares",
                whole(f64::from(job.gpus)),
                job.measured,
                job.formula,
                job.lost.no_spare
            );
            line(out, label, &text)?;
        }
        let verdict = &self.verdict;
        let done =
            format!("{}, each with its reason in report.json", whole(self.actions.len() as f64));
        line(out, "actions", &done)?;
        let zeros = format!(
            "on no evidence {} · against a person's wish {} · over budget {}",
            verdict.no_evidence, verdict.against_person, verdict.over_budget
        );
        line(out, "", &zeros)?;
        line(out, "people", &self.people_text())
    }

    fn write_capacity(&self, out: &mut String) -> std::fmt::Result {
        let (capacity, curves) = (self.capacity(), self.curves());
        let text = format!(
            "{:.2} % of the time with {}; mean in service {:.2} %, recorded {:.2} %",
            capacity.promised * 100.0,
            spares(capacity.spares),
            capacity.in_service * 100.0,
            capacity.recorded * 100.0
        );
        line(out, "promised capacity", &text)?;
        let needed = |curve: &[f64]| {
            Curves::needed(curve).map_or_else(|| "more".to_owned(), |spares| spares.to_string())
        };
        let text = format!(
            "{:.1} % takes {} spares as recorded and {} as replayed; Poisson's answer is {}",
            PROMISE * 100.0,
            needed(&curves.recorded),
            needed(&curves.measured),
            curves.independent().map_or_else(|| "more".to_owned(), |spares| spares.to_string())
        );
        line(out, "", &text)
    }

    fn people_text(&self) -> String {
        use crate::people::Deed::{Acknowledged, Certified, Cordoned, HandsOff, Mended};
        let count = |deed| self.people.iter().filter(|act| act.what == deed).count();
        format!(
            "{} acts, simulated: {} certified, {} mended, {} breakers acknowledged, {} servers kept",
            whole(self.people.len() as f64),
            count(Certified),
            count(Mended),
            count(Acknowledged),
            count(Cordoned) + count(HandsOff)
        )
    }
}

fn line(out: &mut String, label: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "{label:<18} {text}")
}

fn spares(count: usize) -> String {
    if count == 1 { "1 spare".to_owned() } else { format!("{count} spares") }
}

/// What a kind of fault is called in a narrow column.
fn name(words: &TraceWords) -> String {
    let full = match &*words.desc {
        "Unknown Error" => format!("{}: unknown", words.class),
        desc if desc.starts_with(&words.class) => desc.to_owned(),
        desc => format!("{}: {desc}", words.class),
    };
    match full.char_indices().nth(NAME) {
        None => full,
        Some(_) => format!("{}…", full.chars().take(NAME - 1).collect::<String>()),
    }
}

/// Words in lines of at most so many columns, where each fits.
fn wrap(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + word.len() <= width => {
                line.push_str(", ");
                line.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

/// A count with its thousands set apart.
fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as people say it, in its two largest units.
pub(super) fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round().max(0.0) as u64;
    if seconds < 1 && !time.is_zero() {
        return format!("{} ms", time.as_millis());
    }
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let first = units.iter().position(|(_, unit)| seconds >= *unit).unwrap_or(3);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (name, unit) in units.iter().skip(first).take(2) {
        if rest / unit > 0 || parts.is_empty() {
            parts.push(format!("{} {name}", rest / unit));
        }
        rest %= unit;
    }
    parts.join(" ")
}

fn short(seconds: f64) -> String {
    words(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::sample;
    use super::*;

    #[test]
    fn the_text_tells_what_happened() {
        let cost = Cost {
            took: Duration::from_secs(192),
            cpu: Some(Duration::from_secs(180)),
            memory: Some(300 << 20),
        };
        let text = sample().text(cost, false);
        for line in [
            "10 days · 4 servers, 1 spare · 3 faults · seed 7 · 3 min 12 s (CPU 3 min) · 300 MiB",
            "2 rarer kinds (--verbose)          3          2 s            30 s / 50 s  ResetGpu 3               1",
            "swap               P50 30 s, P90 50 s, P99 50 s with a proven spare there; 1 found none",
            "                   on no evidence 0 · against a person's wish 0 · over budget 0",
        ] {
            assert!(text.lines().any(|l| l.trim_end() == line), "{line}\n\n{text}");
        }
        let verbose = sample().text(Cost::default(), true);
        assert!(verbose.contains("GPU DBE(Double Bit ECC) > Thre…    2"), "{verbose}");
        assert!(verbose.contains("boot                            4 min  x"), "{verbose}");
        let wide = text.lines().map(|line| line.chars().count()).max();
        assert!(wide <= Some(100), "{wide:?}\n{text}");
    }

    #[test]
    fn times_are_said_in_two_units() {
        let said = |seconds: f64| short(seconds);
        assert_eq!(said(0.0), "0 s");
        assert_eq!(said(0.25), "250 ms");
        assert_eq!(said(59.0), "59 s");
        assert_eq!(said(60.0), "1 min");
        assert_eq!(said(220.0), "3 min 40 s");
        assert_eq!(said(90_000.0), "1 d 1 h");
        assert_eq!(said(7_205.0), "2 h");
        assert_eq!(whole(1_912.0), "1,912");
    }
}
