//! `seatrial restore`: a data directory made from a backup.
//!
//! Clients that saw what came after the backup would take the restored server's next revisions for
//! ones they know. So it goes on far beyond them and has forgotten its history: whoever watches is
//! told to list again, and notices.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

use store::RestoreOptions;

use super::Outcome;
use crate::paths;

/// How far the restored server's revisions stand beyond the backup's: more writes than a server
/// makes in a year of a thousand a second would take 3e10; a backup is seldom older than a month.
const BUMP: u64 = 1_000_000_000;

/// Arguments of `restore`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial restore site.snapshot --data-dir /var/lib/seatrial\n  mv ~/.local/share/seatrial/default/store /tmp/old && seatrial restore site.snapshot\n\nThe directory's certificates (`pki/`), if it has any, stay, so that kubeconfigs go on working."
)]
pub(crate) struct Args {
    /// What `seatrial backup` wrote
    file: PathBuf,
    /// Restore into this directory, which must hold no objects [default:
    /// ~/.local/share/seatrial/default]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the backup {}", path.display())]
struct ReadBackup {
    path: PathBuf,
    source: std::io::Error,
}

/// Restores.
pub(crate) fn run(args: &Args) -> Outcome {
    let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir("default"));
    let file =
        File::open(&args.file).map_err(|source| ReadBackup { path: args.file.clone(), source })?;
    let options = RestoreOptions { bump_revision: BUMP, mark_compacted: true };
    let restored = store::restore(BufReader::new(file), &directory.join("store"), options)?;
    let mut out = std::io::stdout().lock();
    let (keys, revision) = (restored.keys, restored.revision);
    writeln!(out, "{}: {keys} objects, going on at revision {revision}", directory.display())?;
    writeln!(out, "  seatrial serve --data-dir {}", directory.display())?;
    Ok(())
}
