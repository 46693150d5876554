//! Where and when a bench ran: without it a figure says nothing.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

/// The machine, how busy it is, and the day, as one line.
pub(crate) fn line() -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    let cpus = read("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = read("/proc/meminfo")?;
    let kib = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok());
    let load = read("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let date = Command::new("date").args(["-u", "+%F"]).output().context("cannot run `date`")?;
    Ok(format!(
        "{count} CPUs ({}), {:.0} GiB, {}; load {load} when it began.",
        model.unwrap_or("of an unknown model").trim(),
        kib.unwrap_or_default() / f64::from(1 << 20),
        String::from_utf8_lossy(&date.stdout).trim(),
    ))
}
