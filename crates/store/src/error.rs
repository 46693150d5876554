//! Everything that can go wrong, in the words of whoever has to act on it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::{LeaseId, Revision};

/// Why the store refused or failed.
///
/// Cloneable, since one failed disk write answers every transaction that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// History up to there is gone; list again.
    #[error("revision {asked} is too old: history up to {compacted} was compacted")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// Up to where history is gone.
        compacted: Revision,
    },
    /// It has not happened yet.
    #[error("revision {asked} is in the future: the store is at {current}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// Where the store stands.
        current: Revision,
    },
    /// Over a limit.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A key without bytes.
    #[error("a key must not be empty")]
    EmptyKey,
    /// Two steps of one transaction write the same key.
    #[error("a transaction may write a key only once: {}", key.escape_ascii())]
    DuplicateKey {
        /// The key.
        key: Bytes,
    },
    /// No such lease, or it ran out.
    #[error("lease {lease} not found")]
    LeaseNotFound {
        /// The lease.
        lease: LeaseId,
    },
    /// The lease to grant is there already.
    #[error("lease {lease} already exists")]
    LeaseExists {
        /// The lease.
        lease: LeaseId,
    },
    /// The store was closed while this waited.
    #[error("the store was closed")]
    Closed,
    /// Another process, or another store in this one, has the data directory.
    #[error(
        "data directory {} is in use by {}; stop it first, or choose another directory",
        path.display(), holder(*pid)
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// Who has it, as far as it can be known.
        pid: Option<u32>,
    },
    /// Written by a newer release.
    #[error(
        "{} has data format {found}, this release reads up to {supported}; \
         use the release that wrote it or a newer one",
        path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
    /// What was read is not what was written.
    #[error("{} is damaged: {reason}; restore it from a snapshot", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A snapshot cannot be restored as it is.
    #[error("the snapshot cannot be restored: {reason}")]
    BadSnapshot {
        /// What is wrong with it.
        reason: String,
    },
    /// The place to restore to holds data already.
    #[error("{} already holds data; restore into an empty directory", path.display())]
    Occupied {
        /// The data directory.
        path: PathBuf,
    },
    /// No space left. Nothing was changed; reads go on, and so do writes once there is space.
    #[error("no space left to write {}: {source}; free some, writing then goes on", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The disk failed otherwise. This process shows nothing of the write; after a crash it may
    /// turn out to have been made.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
