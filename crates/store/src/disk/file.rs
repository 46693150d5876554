//! The data file: every change that history still needs, appended in order, as in etcd.
//!
//! Three redb tables: changes by position, leases by id, and under "meta" the format and the head.
//! The head says where the store stands and what the other tables must hold, as a count and a sum
//! of checksums; it is written with every commit. So whatever was damaged, lost or exchanged
//! inside the file is found when it is loaded, and no call here panics over it.

use std::io;
use std::ops::Bound;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::backend::Backend;
use crate::crc::checksum;
use crate::mvcc::{Changes, Mvcc, Position};
use crate::{Error, Lease, LeaseId, Revision, record};

const CHANGES: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("changes");
const LEASES: TableDefinition<'_, u64, (u64, u64)> = TableDefinition::new("leases");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const FORMAT_KEY: &str = "format";
const HEAD_KEY: &str = "head";

const FORMAT: u32 = 1;

/// Pages kept in memory, on top of the values, which the core holds.
const CACHE_BYTES: usize = 4 << 20;

/// Records per commit while a file is made.
const CHUNK: usize = 4096;

/// An open data file.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    database: Database,
    head: Head,
}

/// Where the store stands, and what the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// How many commits there were.
    pub(super) commit: u64,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    last_lease: u64,
    /// How many changes and leases there are.
    pub(super) count: u64,
    /// The sum of their checksums.
    sum: u64,
}

impl Head {
    const WORDS: usize = 6;

    fn of(core: &Mvcc) -> Self {
        let (revision, compacted) = (core.revision(), core.compacted());
        Self { commit: 0, revision, compacted, last_lease: core.leases.last, count: 0, sum: 0 }
    }

    fn encode(self) -> Vec<u8> {
        let (revision, compacted) = (self.revision.0, self.compacted.0);
        let words = [self.commit, revision, compacted, self.last_lease, self.count, self.sum];
        let mut encoded = words.map(u64::to_le_bytes).as_flattened().to_vec();
        let sum = checksum(&encoded);
        encoded.extend(sum.to_le_bytes());
        encoded
    }

    fn decode(encoded: &[u8]) -> Option<Self> {
        let (words, sum) = encoded.split_at_checked(Self::WORDS * size_of::<u64>())?;
        if sum != checksum(words).to_le_bytes() {
            return None;
        }
        let words: &[[u8; 8]; Self::WORDS] = words.as_chunks().0.try_into().ok()?;
        let [commit, revision, compacted, last_lease, count, sum] = words.map(u64::from_le_bytes);
        let (revision, compacted) = (Revision(revision), Revision(compacted));
        Some(Self { commit, revision, compacted, last_lease, count, sum })
    }

    fn add(&mut self, checksum: u32) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(checksum.into());
    }

    fn subtract(&mut self, checksum: u32) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum.into());
    }
}

impl DataFile {
    /// Makes a file that holds `core`.
    pub(super) fn create(path: &Path, backend: &Backend, core: &Mvcc) -> Result<(), Error> {
        guard(path, || {
            let storage = backend.open(path, true)?;
            let database = builder().create_with_backend(storage)?;
            let mut head = Head::of(core);
            for chunk in core.versions().chunks(CHUNK) {
                let transaction = database.begin_write()?;
                let mut tables = Tables::open(&transaction, &mut head)?;
                for (key, version) in chunk {
                    let record = record::encode(version.at, key, version.entry.as_deref());
                    tables.insert(version.at, &record)?;
                }
                drop(tables);
                transaction.commit()?;
            }
            let transaction = database.begin_write()?;
            let mut tables = Tables::open(&transaction, &mut head)?;
            for (id, lease) in core.leases.iter() {
                tables.set_lease(id, Some(lease))?;
            }
            drop(tables);
            transaction.open_table(META)?.insert(FORMAT_KEY, &FORMAT.to_le_bytes()[..])?;
            write_head(&transaction, head)?;
            transaction.commit()?;
            Ok(())
        })
    }

    pub(super) fn open(path: &Path, backend: &Backend) -> Result<Self, Error> {
        guard(path, || {
            let storage = backend.open(path, false)?;
            if redb::StorageBackend::len(&storage)? == 0 {
                return Err(Failure::Damage("it is empty"));
            }
            let database = builder().create_with_backend(storage)?;
            let transaction = database.begin_read()?;
            let meta = transaction.open_table(META)?;
            let format = meta.get(FORMAT_KEY)?.ok_or(Failure::Damage("it names no format"))?;
            let format = format.value().try_into().map(u32::from_le_bytes);
            match format {
                Ok(FORMAT) => {}
                Ok(newer) if newer > FORMAT => return Err(Failure::Newer(newer)),
                _ => return Err(Failure::Damage("its format is unknown")),
            }
            let head = meta.get(HEAD_KEY)?.and_then(|head| Head::decode(head.value()));
            let head = head.ok_or(Failure::Damage("its head is unreadable"))?;
            drop(meta);
            transaction.close()?;
            Ok(Self { path: path.to_owned(), database, head })
        })
    }

    /// Refuses a file that lacks commits up to this one.
    pub(super) fn require(&self, commit: u64) -> Result<(), Error> {
        if self.head.commit >= commit {
            return Ok(());
        }
        let missing = commit - self.head.commit;
        let reason = format!("its last commits are missing ({missing} of {commit})");
        Err(Error::Corrupt { path: self.path.clone(), reason })
    }

    pub(super) const fn head(&self) -> Head {
        self.head
    }

    /// Reads everything, and believes it only if it is what the head says.
    pub(super) fn load(&self) -> Result<Mvcc, Error> {
        guard(&self.path, || {
            let transaction = self.database.begin_read()?;
            let mut core = Mvcc::at(self.head.revision, self.head.compacted);
            core.leases.last = self.head.last_lease;
            let mut found = Head { count: 0, sum: 0, ..self.head };
            for row in transaction.open_table(LEASES)?.iter()? {
                let (id, lease) = row?;
                let (id, (ttl, deadline)) = (LeaseId(id.value()), lease.value());
                found.add(lease_checksum(id, Lease { ttl, deadline }));
                core.leases.set(id, Some(Lease { ttl, deadline }));
            }
            for row in transaction.open_table(CHANGES)?.iter()? {
                let (at, record) = row?;
                let (revision, sub) = at.value();
                let at = Position { revision: Revision(revision), sub };
                if at.revision > self.head.revision {
                    return Err(Failure::Damage("it holds changes past its revision"));
                }
                found.add(record::sum_of(record.value()));
                let record = Bytes::copy_from_slice(record.value());
                let (key, entry) = record::decode(at, record).map_err(Failure::Damage)?;
                core.load(key, at, entry);
            }
            if found != self.head {
                return Err(Failure::Damage("changes or leases are missing"));
            }
            Ok(core)
        })
    }

    /// Makes changes durable, and on the way removes records that history no longer needs.
    pub(super) fn write(
        &mut self,
        changes: &Changes,
        unseen: impl Iterator<Item = Position>,
    ) -> Result<(), Error> {
        self.commit(unseen, |tables| {
            for change in &changes.events {
                let event = &change.event;
                let at = Position { revision: event.revision(), sub: change.sub };
                let record = record::encode(at, event.key(), event.entry().map(Arc::as_ref));
                tables.insert(at, &record)?;
            }
            for (id, lease) in &changes.leases {
                tables.set_lease(*id, *lease)?;
            }
            tables.head.revision = changes.revision;
            tables.head.last_lease = changes.last_lease;
            Ok(())
        })
    }

    /// Makes a compaction durable; what it frees is removed by later writes.
    pub(super) fn compact(
        &mut self,
        to: Revision,
        unseen: impl Iterator<Item = Position>,
    ) -> Result<(), Error> {
        self.commit(unseen, |tables| {
            tables.head.compacted = to;
            Ok(())
        })
    }

    /// Undoes what a failed commit may have left: whatever `core` does not know.
    pub(super) fn align(&mut self, core: &Mvcc) -> Result<(), Error> {
        self.commit(std::iter::empty(), |tables| {
            tables.remove_after(core.revision())?;
            tables.replace_leases(core)?;
            tables.head.revision = core.revision();
            tables.head.last_lease = core.leases.last;
            Ok(())
        })
    }

    fn commit(
        &mut self,
        unseen: impl Iterator<Item = Position>,
        fill: impl FnOnce(&mut Tables<'_, '_>) -> Result<(), Failure>,
    ) -> Result<(), Error> {
        let mut head = self.head;
        head.commit = head.commit.wrapping_add(1);
        guard(&self.path, || {
            let transaction = self.database.begin_write()?;
            let mut tables = Tables::open(&transaction, &mut head)?;
            fill(&mut tables)?;
            for at in unseen {
                tables.remove(at)?;
            }
            drop(tables);
            write_head(&transaction, head)?;
            transaction.commit()?;
            Ok(())
        })?;
        self.head = head;
        Ok(())
    }

    /// Closes it, whatever state it is in.
    pub(super) fn close(self) {
        let Self { path, database, .. } = self;
        if panic::catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            tracing::warn!(path = %path.display(), "the data file could not be closed cleanly");
        }
    }
}

/// The tables of one transaction, and the head that goes with them.
struct Tables<'t, 'h> {
    changes: Table<'t, (u64, u32), &'static [u8]>,
    leases: Table<'t, u64, (u64, u64)>,
    head: &'h mut Head,
}

impl<'t, 'h> Tables<'t, 'h> {
    fn open(transaction: &'t WriteTransaction, head: &'h mut Head) -> Result<Self, Failure> {
        let changes = transaction.open_table(CHANGES)?;
        let leases = transaction.open_table(LEASES)?;
        Ok(Self { changes, leases, head })
    }

    fn insert(&mut self, at: Position, record: &[u8]) -> Result<(), Failure> {
        self.changes.insert((at.revision.0, at.sub), record)?;
        self.head.add(record::sum_of(record));
        Ok(())
    }

    fn remove(&mut self, at: Position) -> Result<(), Failure> {
        if let Some(record) = self.changes.remove((at.revision.0, at.sub))? {
            self.head.subtract(record::sum_of(record.value()));
        }
        Ok(())
    }

    fn remove_after(&mut self, revision: Revision) -> Result<(), Failure> {
        let after = (Bound::Excluded((revision.0, u32::MAX)), Bound::Unbounded);
        let rows: Result<Vec<_>, _> =
            self.changes.range(after)?.map(|row| row.map(|(at, _)| at.value())).collect();
        for (revision, sub) in rows? {
            self.remove(Position { revision: Revision(revision), sub })?;
        }
        Ok(())
    }

    fn replace_leases(&mut self, core: &Mvcc) -> Result<(), Failure> {
        let ids: Result<Vec<_>, _> =
            self.leases.iter()?.map(|row| row.map(|(id, _)| id.value())).collect();
        for id in ids? {
            self.set_lease(LeaseId(id), None)?;
        }
        for (id, lease) in core.leases.iter() {
            self.set_lease(id, Some(lease))?;
        }
        Ok(())
    }

    fn set_lease(&mut self, id: LeaseId, lease: Option<Lease>) -> Result<(), Failure> {
        let old = match lease {
            Some(lease) => {
                self.head.add(lease_checksum(id, lease));
                self.leases.insert(id.0, (lease.ttl, lease.deadline))?
            }
            None => self.leases.remove(id.0)?,
        };
        if let Some(old) = old {
            let (ttl, deadline) = old.value();
            self.head.subtract(lease_checksum(id, Lease { ttl, deadline }));
        }
        Ok(())
    }
}

fn write_head(transaction: &WriteTransaction, head: Head) -> Result<(), Failure> {
    transaction.open_table(META)?.insert(HEAD_KEY, &head.encode()[..])?;
    Ok(())
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_repair_callback(|_| {
        tracing::info!("the data file was not closed cleanly; checking it");
    });
    builder
}

fn lease_checksum(id: LeaseId, lease: Lease) -> u32 {
    checksum([id.0, lease.ttl, lease.deadline].map(u64::to_le_bytes).as_flattened())
}

/// What can go wrong with the file, before its name is known.
enum Failure {
    Redb(redb::Error),
    Damage(&'static str),
    Newer(u32),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

/// Runs what touches the file. redb asserts much of what it reads, so for a damaged file a panic
/// is an answer like any other.
fn guard<T>(path: &Path, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Error> {
    let corrupt = |reason| Error::Corrupt { path: path.to_owned(), reason };
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Failure::Damage(reason))) => Err(corrupt(reason.to_owned())),
        Ok(Err(Failure::Newer(found))) => {
            Err(Error::NewerFormat { path: path.to_owned(), found, supported: FORMAT })
        }
        Ok(Err(Failure::Redb(redb::Error::Io(error)))) => Err(io_error("use", path, error)),
        Ok(Err(Failure::Redb(error))) => Err(corrupt(error.to_string())),
        Err(_) => Err(corrupt("its structure makes no sense".to_owned())),
    }
}

pub(super) fn io_error(action: &'static str, path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
    let path = path.to_owned();
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::Full { path, source: Arc::new(error) },
        InvalidData | UnexpectedEof => Error::Corrupt { path, reason: error.to_string() },
        _ => Error::Io { action, path, source: Arc::new(error) },
    }
}
