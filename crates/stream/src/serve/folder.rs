//! Files of a directory, and no others.
//!
//! The kernel sees to it that no path leaves the directory (`openat2` with `RESOLVE_BENEATH`), whatever
//! symbolic links there are and whoever changes them meanwhile; a link to what is within is followed.
//! What is sent is the file that was opened: who puts another in its place by renaming it changes the
//! next answer, never this one.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use super::refusal::Refusal;
use super::verdict::Version;

/// See the module.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// A file, and what it was when it was opened.
pub(super) struct Opened {
    pub(super) file: File,
    stamp: Stamp,
}

/// What changes when somebody writes into a file or puts another in its place.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    len: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            len: metadata.len(),
        }
    }
}

impl Folder {
    /// Opens a directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Self(open(path, flags, Mode::empty())?);
        // Kernels before 5.6 and some sandboxes lack the call: that is found now, not by each client.
        match folder.beneath(".", OFlags::PATH) {
            Ok(_) => Ok(folder),
            Err(errno) => Err(errno.into()),
        }
    }

    fn beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), within) {
                // Somebody renamed something on the way; the kernel cannot tell if it still is beneath.
                Err(Errno::AGAIN) if tries < 10 => tries += 1,
                opened => return opened,
            }
        }
    }

    /// Opens a file by a path that [`path::parse`](super::path::parse) gave.
    pub(super) fn find(&self, path: &str) -> Result<(Opened, Version), Refusal> {
        // Without NONBLOCK a named pipe would wait for its writer.
        let opened = self.beneath(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
        let file = match opened {
            Ok(file) => File::from(file),
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)) => {
                return Err(Refusal::of_file(&errno.into()));
            }
            Err(_) => return Err(Refusal::missing()),
        };
        let metadata = file.metadata().map_err(|error| Refusal::of_file(&error))?;
        if !metadata.is_file() {
            return Err(Refusal::missing());
        }
        let stamp = Stamp::of(&metadata);
        let Stamp { device, inode, modified: (seconds, nanos), len } = stamp;
        let etag = format!("\"{device:x}-{inode:x}-{seconds:x}.{nanos:x}-{len:x}\"");
        let modified = Timestamp::from_second(seconds).ok();
        Ok((Opened { file, stamp }, Version { len, etag, modified }))
    }
}

impl Opened {
    /// Whether nobody wrote into it since it was opened.
    pub(super) fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| Stamp::of(&metadata) == self.stamp)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_to_what_is_within_and_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("secret"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::write(&outside, "secret").unwrap();
        fs::write(inside.join("a/model"), "model").unwrap();
        symlink("../a/model", inside.join("a/within")).unwrap();
        symlink("../../secret", inside.join("a/relative")).unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        symlink("../..", inside.join("a/up")).unwrap();
        symlink("/proc/self/root", inside.join("magic")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        let found = |path| folder.find(path).map(|(_, version)| version.len).map_err(|r| r.status);
        assert_eq!(found("a/model"), Ok(5));
        assert_eq!(found("a/within"), Ok(5));
        for path in
            ["a/relative", "absolute", "a/up/secret", "magic/etc/passwd", "a", "none", "a/model/x"]
        {
            assert_eq!(found(path), Err(404), "{path}");
        }
    }

    #[test]
    fn a_version_is_told_from_the_next() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("model");
        fs::write(&path, "one").unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let (opened, first) = folder.find("model").unwrap();
        assert_eq!(folder.find("model").unwrap().1, first);
        fs::write(place.path().join("next"), "two").unwrap();
        fs::rename(place.path().join("next"), &path).unwrap();
        assert_ne!(folder.find("model").unwrap().1.etag, first.etag);
        assert!(opened.is_unchanged(), "what was opened is still what it was");
        let (opened, _) = folder.find("model").unwrap();
        fs::write(&path, "longer").unwrap();
        assert!(!opened.is_unchanged());
    }
}
