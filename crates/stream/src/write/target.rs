//! A file that appears when it is whole.
//!
//! It has no name until it is complete and on the disk, so that a writer that is killed or finds the
//! disk full leaves nothing behind; where the file system cannot do that, it has a hidden name until
//! then. A file that somebody else opened is written where it is.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, fallocate, linkat};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::Sink;
use crate::error::Error;
use crate::seal::fresh;

/// See the module.
pub(crate) struct Target {
    path: PathBuf,
    half: Half,
}

enum Half {
    /// Somebody else's, with whatever name it has.
    Given(File),
    Unnamed(File),
    Named(NamedTempFile),
}

impl Target {
    /// A file of this length, whose room on the disk is taken at once.
    pub(crate) fn create(path: &Path, len: u64) -> Result<Self, Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        let unnamed = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or_default();
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o666)
            .custom_flags(unnamed)
            .open(folder(path));
        let half = match opened {
            Ok(file) => Half::Unnamed(file),
            Err(_) => Half::Named(
                tempfile::Builder::new()
                    .prefix(&hidden(path))
                    .permissions(Permissions::from_mode(0o666))
                    .tempfile_in(folder(path))
                    .map_err(failed)?,
            ),
        };
        let target = Self { path: path.to_owned(), half };
        match fallocate(target.file(), FallocateFlags::empty(), 0, len) {
            // Where room cannot be taken beforehand, a full disk is found on the way.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        target.file().set_len(len).map_err(failed)?;
        Ok(target)
    }

    /// A file that is open already, for reading and writing: it has its name from the beginning.
    pub(crate) fn over(file: File, path: &Path) -> Self {
        Self { path: path.to_owned(), half: Half::Given(file) }
    }

    pub(crate) fn file(&self) -> &File {
        match &self.half {
            Half::Given(file) | Half::Unnamed(file) => file,
            Half::Named(file) => file.as_file(),
        }
    }

    pub(crate) fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }

    /// Gives it its name once it is on the disk, in place of what had that name.
    pub(crate) fn publish(self) -> Result<(), Error> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        self.file().sync_all().map_err(failed)?;
        match self.half {
            Half::Given(_) => return Ok(()),
            Half::Named(file) => {
                file.persist(&self.path).map_err(|error| failed(error.error))?;
            }
            Half::Unnamed(file) => {
                let random: [u8; 8] =
                    fresh().map_err(|error| failed(io::Error::other(error.to_string())))?;
                let name = format!("{}{:016x}", hidden(&self.path), u64::from_le_bytes(random));
                let name = folder(&self.path).join(name);
                let open = format!("/proc/self/fd/{}", file.as_raw_fd());
                // A name cannot be taken from another file in one step, a link's can.
                linkat(CWD, &open, CWD, &name, AtFlags::SYMLINK_FOLLOW)
                    .map_err(|errno| failed(errno.into()))?;
                if let Err(error) = std::fs::rename(&name, &self.path) {
                    let _ = std::fs::remove_file(&name);
                    return Err(failed(error));
                }
            }
        }
        File::open(folder(&self.path)).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

impl Sink for Target {
    fn put(&self, bytes: &[u8], at: u64) -> Result<(), Error> {
        self.file().write_all_at(bytes, at).map_err(|error| self.failed(error))
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a hidden name begins with.
fn hidden(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}
