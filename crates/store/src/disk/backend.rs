//! The file below redb: plain reads and writes at offsets, synced or not.
//!
//! redb's own file access would lock the file, which the data directory's lock already covers, and
//! always sync.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use redb::StorageBackend;

use crate::Durability;

/// How to reach data files.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    durability: Durability,
    #[cfg(test)]
    pub(super) faults: faults::Faults,
}

impl Backend {
    pub(super) fn new(durability: Durability) -> Self {
        Self {
            durability,
            #[cfg(test)]
            faults: faults::Faults::default(),
        }
    }

    pub(super) fn open(&self, path: &Path, create: bool) -> io::Result<DataStorage> {
        let file = OpenOptions::new().read(true).write(true).create_new(create).open(path)?;
        Ok(DataStorage { file, backend: self.clone() })
    }
}

#[derive(Debug)]
pub(super) struct DataStorage {
    file: File,
    backend: Backend,
}

impl StorageBackend for DataStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        #[cfg(test)]
        self.backend.faults.check(faults::Kind::Write)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        self.backend.faults.check(faults::Kind::Sync)?;
        match self.backend.durability {
            Durability::Immediate => self.file.sync_data(),
            Durability::Relaxed => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.backend.faults.check(faults::Kind::Write)?;
        self.file.write_all_at(data, offset)
    }
}

/// Failures on demand.
#[cfg(test)]
pub(super) mod faults {
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::disk) enum Kind {
        Write,
        Sync,
    }

    /// Which operations fail, after how many of them succeed, and with what.
    type Fault = (Kind, usize, io::ErrorKind);

    #[derive(Clone, Debug, Default)]
    pub(in crate::disk) struct Faults(Arc<Mutex<Option<Fault>>>);

    impl Faults {
        pub(in crate::disk) fn set(&self, fault: Option<Fault>) {
            *self.0.lock().unwrap() = fault;
        }

        pub(super) fn check(&self, kind: Kind) -> io::Result<()> {
            match &mut *self.0.lock().unwrap() {
                Some((faulty, 0, error)) if *faulty == kind => Err((*error).into()),
                Some((faulty, left, _)) if *faulty == kind => {
                    *left -= 1;
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }
}
