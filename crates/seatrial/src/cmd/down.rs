//! `seatrial down`: stops what runs in a data directory, in good order.

use std::io::Write as _;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use super::Outcome;
use crate::paths;
use crate::site::hold;

/// Arguments of `down`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial down\n  seatrial down --data-dir /var/lib/seatrial\n\nNothing is deleted: `seatrial up` goes on where it stopped."
)]
pub(crate) struct Args {
    /// The data directory of the running site [default: ~/.local/share/seatrial/demo]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Why it does not stop.
#[derive(Debug, thiserror::Error)]
#[error("cannot stop process {pid}; stop it by hand")]
struct StopError {
    pid: u32,
    source: std::io::Error,
}

/// Stops it, and returns when it has ended.
pub(crate) fn run(args: &Args) -> Outcome {
    let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir(paths::DEMO));
    let mut out = std::io::stdout().lock();
    let Some(holder) = hold::holder(&directory) else {
        writeln!(out, "nothing runs in {}", paths::short(&directory))?;
        return Ok(());
    };
    let pid = i32::try_from(holder.pid).ok().and_then(Pid::from_raw);
    let told = pid.map_or(Err(rustix::io::Errno::SRCH), |pid| kill_process(pid, Signal::TERM));
    told.map_err(|error| StopError { pid: holder.pid, source: error.into() })?;
    hold::wait_until_free(&directory)?;
    writeln!(out, "stopped; its data is in {}", paths::short(&directory))?;
    Ok(())
}
