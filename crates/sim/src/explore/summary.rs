//! What many schedules have shown, and how that is printed.

use super::tale::{Coverage, Disturbance, Fault};
use api::incident::Stage;
use api::state::State;
use std::fmt;

/// As many wrong schedules are named in print.
const NAMED: usize = 20;

/// What many schedules have shown.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many were played.
    pub schedules: u64,
    /// Their lengths in steps, sorted.
    pub steps: Vec<u32>,
    /// One number for all that happened: equal for equal schedules, whoever plays them.
    pub hash: u64,
    /// Numbers of schedules in which something was wrong, and what, the lowest first.
    pub wrong: Vec<(u64, String)>,
    /// What was met.
    pub coverage: Coverage,
}

impl Summary {
    /// The length that this share of schedules, in percent, does not exceed.
    pub fn percentile(&self, percent: usize) -> u32 {
        let last = self.steps.len().saturating_sub(1);
        self.steps.get(last * percent / 100).copied().unwrap_or(0)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "schedules {}  hash {:016x}", self.schedules, self.hash)?;
        writeln!(out, "steps: median {}  P99 {}", self.percentile(50), self.percentile(99))?;
        writeln!(out, "\nfaults by lifecycle state")?;
        let states: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
        let faults: Vec<String> = Fault::ALL.iter().map(|fault| format!("{fault:?}")).collect();
        table(out, 11, &states, &faults, &self.coverage.faults)?;
        writeln!(out, "\ndisturbances by stage of the node's incident (of lost writes: none)")?;
        let stages: Vec<String> = Stage::ALL.iter().map(|stage| format!("{stage:?}")).collect();
        let stages: Vec<&str> = stages.iter().map(String::as_str).chain(["none"]).collect();
        let what: Vec<String> = Disturbance::ALL.iter().map(|what| format!("{what:?}")).collect();
        table(out, 13, &stages, &what, &self.coverage.disturbances)?;
        writeln!(out, "\nviolations: {}", self.wrong.len())?;
        for (number, wrong) in self.wrong.iter().take(NAMED) {
            writeln!(out, "  --replay {number}: {wrong}")?;
        }
        Ok(())
    }
}

/// Columns of counts, each with a row per name.
fn table<const N: usize>(
    out: &mut fmt::Formatter<'_>,
    width: usize,
    heads: &[&str],
    names: &[String],
    columns: &[[u64; N]],
) -> fmt::Result {
    write!(out, "{:<14}", "")?;
    for head in heads {
        write!(out, "{head:>width$}")?;
    }
    writeln!(out)?;
    for (row, name) in names.iter().enumerate() {
        write!(out, "{name:<14}")?;
        for column in columns {
            write!(out, "{:>width$}", column.get(row).copied().unwrap_or(0))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
