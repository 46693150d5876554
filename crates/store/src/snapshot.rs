//! Snapshots: the whole store as of one revision in one stream, and how to restore one.
//!
//! A snapshot holds the history that the store held, so a restored store answers reads and
//! watches as the original did. Clients that saw writes made after the snapshot would take the
//! restored store's next revisions for ones they know: [`RestoreOptions`] is the way out.

use std::borrow::Borrow;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::crc::Crc;
use crate::disk;
use crate::mvcc::{Mvcc, Position, Version};
use crate::record::{self, MAX_RECORD};
use crate::{Error, Lease, LeaseId, Revision};

const MAGIC: u64 = u64::from_le_bytes(*b"revstore");
const FORMAT: u64 = 1;

/// Everything a store held at a revision. It shares the store's memory and stays as it is.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: Revision,
    compacted: Revision,
    last_lease: u64,
    leases: Vec<(LeaseId, Lease)>,
    versions: Vec<(Bytes, Version)>,
}

impl Snapshot {
    pub(crate) fn of(core: &Mvcc) -> Self {
        Self {
            revision: core.revision(),
            compacted: core.compacted(),
            last_lease: core.leases.last,
            leases: core.leases.iter().collect(),
            versions: core.versions(),
        }
    }

    /// As of when.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// It as bytes, piece by piece as they are asked for, checksum last.
    pub fn into_chunks(self) -> impl Iterator<Item = Bytes> + Send {
        Chunks { snapshot: self, crc: Crc::new(), next: Part::Head }
    }

    /// Writes it out and says how many bytes that took. Making them durable is up to the caller.
    pub fn write_to(&self, mut target: impl Write) -> io::Result<u64> {
        let mut written = 0;
        for chunk in (Chunks { snapshot: self, crc: Crc::new(), next: Part::Head }) {
            target.write_all(&chunk)?;
            written += chunk.len() as u64;
        }
        target.flush()?;
        Ok(written)
    }
}

/// What of a snapshot comes next.
enum Part {
    Head,
    Version(usize),
    End,
}

/// A snapshot on its way out. Only the piece at hand is held beside the snapshot.
struct Chunks<S> {
    snapshot: S,
    crc: Crc,
    next: Part,
}

/// Pieces grow to about so many bytes.
const CHUNK: usize = 256 << 10;

impl<S: Borrow<Snapshot>> Iterator for Chunks<S> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let snapshot = self.snapshot.borrow();
        let mut chunk = BytesMut::new();
        let mut at = match self.next {
            Part::Head => {
                head(snapshot, &mut chunk);
                0
            }
            Part::Version(at) => at,
            Part::End => return None,
        };
        while chunk.len() < CHUNK
            && let Some((key, version)) = snapshot.versions.get(at)
        {
            let Version { at: position, entry } = version;
            let record = record::encode(*position, key, entry.as_deref());
            let (revision, sub) = (position.revision.0, u64::from(position.sub));
            numbers(&mut chunk, [revision, sub, record.len() as u64]);
            chunk.extend_from_slice(&record);
            at += 1;
        }
        self.next = Part::Version(at);
        self.crc.update(&chunk);
        if at == snapshot.versions.len() {
            let sum = std::mem::replace(&mut self.crc, Crc::new()).finish();
            chunk.extend_from_slice(&sum.to_le_bytes());
            self.next = Part::End;
        }
        Some(chunk.freeze())
    }
}

fn head(snapshot: &Snapshot, chunk: &mut BytesMut) {
    let (leases, versions) = (snapshot.leases.len() as u64, snapshot.versions.len() as u64);
    let (revision, compacted) = (snapshot.revision.0, snapshot.compacted.0);
    numbers(chunk, [MAGIC, FORMAT, revision, compacted, snapshot.last_lease, leases, versions]);
    for (id, lease) in &snapshot.leases {
        numbers(chunk, [id.0, lease.ttl, lease.deadline]);
    }
}

fn numbers<const N: usize>(chunk: &mut BytesMut, numbers: [u64; N]) {
    chunk.extend_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
}

/// How to restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Continue so many revisions past the snapshot's, beyond any that a client may have seen.
    pub bump_revision: u64,
    /// Forget all history, so that a client that saw something later than the snapshot is told
    /// that its revision is too old, and lists again, instead of keeping what is no more.
    pub mark_compacted: bool,
}

/// What a restore left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Where the store stands.
    pub revision: Revision,
    /// Up to where its history is gone.
    pub compacted: Revision,
    /// How many keys it holds.
    pub keys: usize,
}

/// Restores a snapshot into a data directory, which must hold no data and is left so on failure.
pub fn restore(
    source: impl Read,
    directory: &Path,
    options: RestoreOptions,
) -> Result<Restored, Error> {
    let mut core = read(source)?;
    core.skip_to(Revision(core.revision().0.saturating_add(options.bump_revision)));
    if options.mark_compacted {
        core.compact(core.revision());
    }
    disk::create(directory, &core)?;
    let keys = core.list(&crate::KeyRange::all(), None, Some(0))?.count;
    Ok(Restored { revision: core.revision(), compacted: core.compacted(), keys })
}

fn read(source: impl Read) -> Result<Mvcc, Error> {
    let mut source = Source { source, crc: Crc::new() };
    let [magic, format] = source.numbers()?;
    if magic != MAGIC {
        return Err(bad("it is not a snapshot of this store"));
    }
    if format != FORMAT {
        return Err(bad(format!("its format is {format}, this release reads {FORMAT}")));
    }
    let [revision, compacted, last_lease, leases, versions] = source.numbers()?;
    if compacted > revision {
        return Err(bad("it is compacted past its revision"));
    }
    let mut core = Mvcc::at(Revision(revision), Revision(compacted));
    core.leases.last = last_lease;
    for _ in 0..leases {
        let [id, ttl, deadline] = source.numbers()?;
        core.leases.set(LeaseId(id), Some(Lease { ttl, deadline }));
    }
    let mut last = None;
    for _ in 0..versions {
        let [at, sub, length] = source.numbers()?;
        let sub = u32::try_from(sub).map_err(|_| bad("a position is out of range"))?;
        let at = Position { revision: Revision(at), sub };
        if Some(at) <= last || at.revision > core.revision() {
            return Err(bad("its changes are out of order"));
        }
        last = Some(at);
        let (key, entry) = record::decode(at, source.record(length)?).map_err(bad)?;
        core.load(key, at, entry);
    }
    let expected = source.crc.finish();
    let mut sum = [0; 4];
    source.fill(&mut sum)?;
    if u32::from_le_bytes(sum) != expected {
        return Err(bad("its checksum is wrong"));
    }
    Ok(core)
}

fn bad(reason: impl Into<String>) -> Error {
    Error::BadSnapshot { reason: reason.into() }
}

struct Source<R> {
    source: R,
    crc: Crc,
}

impl<R: Read> Source<R> {
    fn fill(&mut self, target: &mut [u8]) -> Result<(), Error> {
        self.source.read_exact(target).map_err(unreadable)?;
        self.crc.update(target);
        Ok(())
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], Error> {
        let mut bytes = [[0; 8]; N];
        self.fill(bytes.as_flattened_mut())?;
        Ok(bytes.map(u64::from_le_bytes))
    }

    fn record(&mut self, length: u64) -> Result<Bytes, Error> {
        // A damaged length must not have memory set aside for data that is not there.
        const STEP: usize = 1 << 20;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= MAX_RECORD)
            .ok_or_else(|| bad("a record's length is out of range"))?;
        let mut record = BytesMut::with_capacity(length.min(STEP));
        while record.len() < length {
            let start = record.len();
            record.resize(length.min(start + STEP), 0);
            self.fill(&mut record[start..])?;
        }
        Ok(record.freeze())
    }
}

fn unreadable(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("it is cut short"),
        _ => bad(Arc::new(error).to_string()),
    }
}
