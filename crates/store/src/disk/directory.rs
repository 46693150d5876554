//! The data directory: who has it, how its data file comes into being, and that it is the one
//! that was last written.
//!
//! A data file appears whole or not at all: it is made under another name, synced, then renamed.
//! An empty or truncated one is therefore always damage, never a beginning. The lock file notes
//! the last commit that was acknowledged, so that a data file that fell back behind it, as redb
//! lets it after damage to its last commit, is found out. The note is not synced, since it only
//! ever says too little.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use super::backend::Backend;
use super::file::{DataFile, io_error};
use crate::crc::checksum;
use crate::mvcc::Mvcc;
use crate::{Durability, Error};

const LOCK: &str = "lock";
const DATA: &str = "store.redb";
const PARTIAL: &str = "store.redb.partial";

/// A data directory that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
    acknowledged: u64,
}

impl Directory {
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        make(path).map_err(|error| io_error("create", path, error))?;
        let file = path.join(LOCK);
        let failed = |error| io_error("lock", &file, error);
        let mut options = OpenOptions::new();
        let mut lock = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .map_err(failed)?;
        let locked = lock.try_lock();
        let mut note = Vec::new();
        lock.by_ref().take(Note::MAX_BYTES).read_to_end(&mut note).map_err(failed)?;
        let note = Note::parse(&note);
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: path.to_owned(), pid: note.pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let directory = Self { path: path.to_owned(), lock, acknowledged: note.commit };
        directory.acknowledge(note.commit).map_err(failed)?;
        Ok(directory)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// The last commit that was acknowledged before this one locked it, as far as is known.
    pub(super) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Notes a commit.
    pub(super) fn acknowledge(&self, commit: u64) -> io::Result<()> {
        let note = Note { pid: Some(std::process::id()), commit };
        self.lock.write_all_at(note.text().as_bytes(), 0)
    }

    pub(super) fn has_data(&self) -> Result<bool, Error> {
        let data = self.data();
        data.try_exists().map_err(|error| io_error("look for", &data, error))
    }

    /// Makes the data file.
    pub(super) fn create(&mut self, core: &Mvcc) -> Result<(), Error> {
        if self.has_data()? {
            return Err(Error::Occupied { path: self.path.clone() });
        }
        let partial = self.path.join(PARTIAL);
        let made = remove(&partial)
            .map_err(|error| io_error("remove", &partial, error))
            .and_then(|()| DataFile::create(&partial, &Backend::new(Durability::Relaxed), core))
            .and_then(|()| {
                self.publish(&partial).map_err(|error| io_error("create", &partial, error))
            });
        if made.is_err() {
            // The failure to report is the first one.
            let _ = remove(&partial);
        }
        made
    }

    fn publish(&mut self, partial: &Path) -> io::Result<()> {
        File::open(partial)?.sync_all()?;
        // What was noted was about another file.
        self.acknowledge(0)?;
        self.acknowledged = 0;
        fs::rename(partial, self.data())?;
        sync(&self.path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is just being started shares the lock.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(path = %self.path.display(), %error, "cannot unlock the data directory");
        }
    }
}

/// What the lock file says: who has the directory, and how far the data file had come. Always of
/// the same length, so that it is overwritten in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    pid: Option<u32>,
    commit: u64,
}

impl Note {
    const MAX_BYTES: u64 = 64;

    fn text(self) -> String {
        let Self { pid, commit } = self;
        let sum = checksum(&commit.to_le_bytes());
        format!("{:>10} {commit:>20} {sum:08x}\n", pid.unwrap_or(0))
    }

    /// What cannot be read is not known.
    fn parse(text: &[u8]) -> Self {
        let mut words = str::from_utf8(text).unwrap_or("").split_whitespace();
        let pid = words.next().and_then(|pid| pid.parse().ok());
        let commit = words.next().and_then(|commit| commit.parse().ok());
        let sum = words.next().and_then(|sum| u32::from_str_radix(sum, 16).ok());
        let commit = commit.filter(|commit: &u64| sum == Some(checksum(&commit.to_le_bytes())));
        Self { pid, commit: commit.unwrap_or(0) }
    }
}

/// Makes a directory with all above it, for the owner alone, and sees to it that they last.
fn make(path: &Path) -> io::Result<()> {
    let named = |path: &&Path| !path.as_os_str().is_empty();
    let missing: Vec<_> =
        path.ancestors().take_while(|path| named(path) && !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        sync(Some(parent).filter(named).unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_written_or_not_at_all() {
        for note in [(1, 0), (u32::MAX, u64::MAX), (77, 4_096)] {
            let note = Note { pid: Some(note.0), commit: note.1 };
            let text = note.text().into_bytes();
            assert!(text.len() == Note { pid: Some(1), commit: 1 }.text().len());
            assert!((text.len() as u64) < Note::MAX_BYTES);
            assert_eq!(Note::parse(&text), note);
            for at in 11..text.len() - 1 {
                let mut damaged = text.clone();
                damaged[at] = if damaged[at] == b'7' { b'8' } else { b'7' };
                assert!(Note::parse(&damaged).commit == 0, "{:?}", damaged.escape_ascii());
            }
        }
        for text in [&b""[..], b"12", b"\0\0\0", b"\xff\xfe", b"1 2 3 4"] {
            assert_eq!(Note::parse(text).commit, 0);
        }
    }
}
