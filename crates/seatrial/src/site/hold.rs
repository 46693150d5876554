//! Who holds a data directory: one process at a time, and others find it by its name.
//!
//! A lock on a file says that somebody runs, so it is true after a crash too; what stands in the file
//! says who. The lock ends with the process, whatever ends it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who runs in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The process.
    pub(crate) pid: u32,
    /// Where its API is.
    #[serde(default)]
    pub(crate) url: String,
}

/// Why a directory cannot be held.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldError {
    #[error(
        "{} is in use by process {pid}; stop that with `seatrial down`, or choose another directory with --data-dir",
        path.display()
    )]
    Taken { path: PathBuf, pid: u32 },
    #[error("cannot use the directory {}; choose another with --data-dir", path.display())]
    Unusable { path: PathBuf, source: std::io::Error },
}

/// A directory that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    file: File,
    path: PathBuf,
}

fn lock_of(directory: &Path) -> PathBuf {
    directory.join("running")
}

impl Hold {
    /// Takes a directory, which is made if there is none.
    ///
    /// # Errors
    /// If another process holds it.
    pub(crate) fn take(directory: &Path) -> Result<Self, HoldError> {
        let unusable = |source| HoldError::Unusable { path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let path = lock_of(directory);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = read(&file).map_or(0, |holder| holder.pid);
                return Err(HoldError::Taken { path: directory.to_owned(), pid });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let mut hold = Self { file, path: directory.to_owned() };
        hold.say(&Holder { pid: std::process::id(), url: String::new() })?;
        Ok(hold)
    }

    /// Writes who holds it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn say(&mut self, holder: &Holder) -> Result<(), HoldError> {
        let unusable = |source| HoldError::Unusable { path: self.path.clone(), source };
        let text = serde_json::to_vec(holder).map_err(std::io::Error::other).map_err(unusable)?;
        self.file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(&text))
            .map_err(unusable)
    }
}

/// Who holds a directory now, if anybody does.
pub(crate) fn holder(directory: &Path) -> Option<Holder> {
    let file = File::open(lock_of(directory)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(&file),
        _ => None,
    }
}

/// Returns when nobody holds the directory any more. Blocks.
pub(crate) fn wait_until_free(directory: &Path) -> std::io::Result<()> {
    match File::open(lock_of(directory)) {
        Ok(file) => file.lock_shared(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn read(mut file: &File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4_096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_found_by_others() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(holder(directory.path()), None);
        let mut hold = Hold::take(directory.path()).unwrap();
        let me = Holder { pid: std::process::id(), url: "https://here".to_owned() };
        hold.say(&me).unwrap();
        assert_eq!(holder(directory.path()), Some(me));
        let taken = Hold::take(directory.path()).unwrap_err().to_string();
        assert!(taken.contains(&format!("in use by process {}", std::process::id())), "{taken}");
        drop(hold);
        wait_until_free(directory.path()).unwrap();
        assert_eq!(holder(directory.path()), None);
        assert!(Hold::take(directory.path()).is_ok());
    }
}
