//! `seatrial replay`: what the fleet would have done about a recorded year of faults.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use sim::replay::findings::{Findings, Repairs};
use sim::replay::run::{Options, run as replay};
use sim::replay::text::Cost;
use sim::replay::trace::{MAX_BYTES, Trace, TraceError};

use super::{Outcome, Unusable};

/// Warnings that are printed; the report has all.
const SHOWN: usize = 20;

/// Arguments of `replay`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial replay --faults examples/fault-trace/fault_trace.json --servers 400 --report out\n  seatrial replay --faults incidents.json --servers 2048 --spares 64 --fold 54\n\nThe file is a JSON list of beginnings and ends of faults; docs/guides/replay-your-own-trace.md\ntells how to write one."
)]
pub(crate) struct Args {
    /// The recorded faults
    #[arg(long, value_name = "FILE")]
    faults: PathBuf,
    /// Servers that the fleet promises; those that the trace does not name never fail [default: as
    /// many as it names]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    servers: Option<u32>,
    /// Servers beside them, proven and kept free [default: what independent faults would need]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    spares: Option<u32>,
    /// Decides everything that is drawn: the same seed gives the same report
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// When faults end: at their recorded end, or by the step of the ladder that is assumed to cure
    /// them
    #[arg(long, value_enum, default_value_t = Repair::Recorded)]
    repair: Repair,
    /// Replay no more than so many days
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=36_525))]
    days: Option<u32>,
    /// Let the trace's stretches of so many days happen at the same time, each to servers of its own:
    /// a larger fleet for a shorter time
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=36_525))]
    fold: Option<u32>,
    /// Write report.json, report.html and its plots into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Tell of every kind of fault, and what each figure rests on
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Repair {
    /// No fault ends before its recorded end
    Recorded,
    /// The mapped step cures it: assumed
    Ladder,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than {} MiB; split it", path.display(), MAX_BYTES >> 20)]
    Large { path: PathBuf },
    #[error("{} is no fault trace", path.display())]
    Trace { path: PathBuf, source: TraceError },
    #[error("cannot write {}; choose another directory with --report", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Replays the trace and tells what came of it.
pub(crate) fn run(args: &Args) -> Outcome {
    let began = Instant::now();
    let mut trace = read(&args.faults).map_err(Unusable::from)?;
    let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    if let Some(stretch) = args.fold {
        trace = trace.folded(days(stretch));
    }
    if let Some(most) = args.days {
        trace = trace.up_to(days(most));
    }
    warn(&trace);
    // Found out before the work and not after it.
    if let Some(directory) = &args.report {
        std::fs::create_dir_all(directory)
            .map_err(|source| ReplayError::Write { path: directory.clone(), source })?;
    }
    let servers = args.servers.map_or(trace.nodes.len(), size);
    let spares = args.spares.map_or_else(|| trace.independent_spares().unwrap_or(0), size);
    let repairs = match args.repair {
        Repair::Recorded => Repairs::Recorded,
        Repair::Ladder => Repairs::Ladder,
    };
    let found = replay(Options { trace, servers, spares, seed: args.seed, repairs })
        .map_err(Unusable::from_run)?;
    if let Some(directory) = &args.report {
        write(directory, &found)?;
    }
    let cost = Cost { took: began.elapsed(), cpu: worked(), memory: most_memory() };
    let mut out = std::io::stdout().lock();
    out.write_all(found.text(cost, args.verbose).as_bytes())?;
    if let Some(directory) = &args.report {
        writeln!(out, "{} has the plots", directory.join("report.html").display())?;
    }
    Ok(())
}

/// How long the processor worked on this thread, which is the one that replays.
fn worked() -> Option<Duration> {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(ran.split_whitespace().next()?.parse().ok()?))
}

/// The most memory that this process ever had, in bytes.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn read(path: &Path) -> Result<Trace, ReplayError> {
    let failed = |source| ReplayError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(ReplayError::Large { path: path.to_owned() });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Trace::parse(&text).map_err(|source| ReplayError::Trace { path: path.to_owned(), source })
}

fn warn(trace: &Trace) {
    for warning in trace.warnings.iter().take(SHOWN) {
        eprintln!("warning: line {}: {}", warning.line, warning.what);
    }
    if trace.warnings.len() > SHOWN {
        eprintln!("warning: and {} more; report.json has all", trace.warnings.len() - SHOWN);
    }
}

fn write(directory: &Path, found: &Findings) -> Outcome {
    let report = [("report.json", found.report().json()?), ("report.html", found.html())];
    for (name, text) in report.into_iter().chain(found.plots()) {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|source| ReplayError::Write { path, source })?;
    }
    Ok(())
}

impl From<ReplayError> for Unusable {
    fn from(error: ReplayError) -> Self {
        Self(Box::new(error))
    }
}

impl Unusable {
    /// A fleet that is too small for the trace was asked for; everything else is not the user's doing.
    fn from_run(
        error: sim::replay::run::RunError,
    ) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        match error {
            sim::replay::run::RunError::TooFew { .. } => Box::new(Self(Box::new(error))),
            error => Box::new(error),
        }
    }
}
