//! A cache in front of an origin: each byte is read from there once, however many ask for it at once.
//!
//! An object is asked what it is when it is first wanted, and whether it still is when that is longer
//! ago than [`Cached::fresh`]; one at a time asks, the others wait for what it finds. Its bytes come in
//! chunks: whoever first wants one has it filled, by a thread that does not depend on that client, and
//! all read it while it comes. Chunks belong to a version of an object, so that versions are never
//! mixed. What an object is, is found out again after a restart; its chunks are still there.

mod chunk;
mod origin;
mod shelf;

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use origin::Origin;
use rustix::fs::statvfs;
use sha2::{Digest as _, Sha256};
pub(super) use shelf::Lease;
use shelf::{Key, Shelf};

use super::ServeError;
use super::metrics::Metrics;
use super::refusal::Refusal;
use super::verdict::{Version, date};
use crate::remote::{Fault, Object, Patience, Remote};
use crate::source::{Source as _, Unread};

/// Bytes that come from the origin at a time, and who waits for them sees next.
const STEP: usize = 64 << 10;

/// Chunks that are asked for beyond the one that is being sent, so that one client alone is not slower
/// than several.
const AHEAD: u64 = 3;

/// Objects that are remembered. Each keeps a few connections.
const OBJECTS: usize = 256;

/// Connections that are kept for an object.
const KEPT: usize = 8;

/// How long is waited for room that others use.
const ROOM: Duration = Duration::from_secs(10);

/// The least room, in chunks: those being filled and those being sent need theirs at once.
const LEAST: u64 = 8;

/// Chunks that are filled at a time: of the room a quarter, and not more than this.
const FILLS: u64 = 32;

/// A cache in front of an origin.
#[derive(Clone, Debug)]
pub struct Cached {
    /// Where objects are.
    pub origin: Origin,
    /// How it is reached.
    pub remote: Remote,
    /// Where chunks are kept; another server must not have the same.
    pub dir: PathBuf,
    /// Bytes of chunks at most.
    pub bytes: u64,
    /// Bytes of a chunk. The cache must have room for eight.
    pub chunk: NonZero<u64>,
    /// How long an object is taken for what it was without asking the origin.
    pub fresh: Duration,
}

impl Cached {
    /// With chunks of 16 MiB, and objects that are asked about every ten seconds.
    pub fn new(origin: Origin, dir: PathBuf, bytes: u64) -> Self {
        let chunk = NonZero::new(16 << 20).unwrap_or(NonZero::<u64>::MIN);
        // A client has patience too, and more of it.
        let patience = Patience {
            tries: NonZero::new(4).unwrap_or(NonZero::<u32>::MIN),
            stall: Duration::from_secs(10),
            ..Patience::default()
        };
        let connections = NonZero::new(KEPT).unwrap_or(NonZero::<usize>::MIN);
        let remote = Remote { connections, patience, ..Remote::default() };
        Self { origin, remote, dir, bytes, chunk, fresh: Duration::from_secs(10) }
    }

    /// Bytes that it must have room for at least.
    pub fn least(&self) -> u64 {
        self.chunk.get().saturating_mul(LEAST)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cache {
    how: Cached,
    metrics: Arc<Metrics>,
    shelf: Arc<Shelf>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// Chunks that may begin to be filled now.
    fills: Mutex<u64>,
    filled: Condvar,
}

/// What is known of an object; who holds it asks for all.
type Slot = Mutex<Option<Known>>;

#[derive(Debug)]
struct Known {
    thing: Arc<Thing>,
    asked: Instant,
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Thing {
    object: Object,
    version: Version,
    folder: Arc<str>,
    /// Whether the origin said that there is another by now.
    gone: AtomicBool,
}

impl Cache {
    pub(super) fn open(how: Cached, metrics: Arc<Metrics>) -> Result<Self, ServeError> {
        let (bytes, least) = (how.bytes, how.least());
        if bytes < least {
            return Err(ServeError::CacheSmall { bytes, least });
        }
        let wrong = |source| ServeError::CacheDir { path: how.dir.clone(), source };
        let chunk = how.chunk.get();
        let shelf = Shelf::open(&how.dir, bytes, chunk, Arc::clone(&metrics)).map_err(wrong)?;
        let disk = statvfs(&how.dir).map_err(|errno| wrong(errno.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(metrics.cached.get());
        if bytes > free {
            return Err(ServeError::DiskSmall { path: how.dir, free });
        }
        let fills = Mutex::new((bytes / chunk / 4).clamp(1, FILLS));
        let (shelf, slots, filled) = (Arc::new(shelf), Mutex::default(), Condvar::new());
        Ok(Self { how, metrics, shelf, slots, fills, filled })
    }

    /// What a path is at the origin.
    pub(super) fn find(&self, path: &str) -> Result<(Arc<Thing>, Version), Refusal> {
        let slot = {
            let mut slots = locked(&self.slots);
            if slots.len() >= OBJECTS {
                // Those that nobody asks about now are asked about again.
                slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
            Arc::clone(slots.entry(path.to_owned()).or_default())
        };
        let mut known = locked(&slot);
        if let Some(Known { thing, asked }) = &mut *known
            && !thing.gone.load(Ordering::Relaxed)
        {
            let fresh = asked.elapsed() < self.how.fresh;
            if fresh || self.is_still(thing)? {
                if !fresh {
                    *asked = Instant::now();
                }
                return Ok((Arc::clone(thing), thing.version.clone()));
            }
        }
        *known = None;
        match self.ask(path) {
            Ok(thing) => {
                let thing = Arc::new(thing);
                *known = Some(Known { thing: Arc::clone(&thing), asked: Instant::now() });
                let version = thing.version.clone();
                Ok((thing, version))
            }
            Err(refusal) => {
                drop(known);
                locked(&self.slots).remove(path);
                Err(refusal)
            }
        }
    }

    fn ask(&self, path: &str) -> Result<Thing, Refusal> {
        self.metrics.origin_reads.add(1);
        let object =
            self.how.origin.find(path, &self.how.remote).map_err(|f| origin::refusal(&f))?;
        let (etag, modified) = object.validators();
        if etag.is_none() && modified.is_none() {
            let line =
                "the origin gives neither ETag nor Last-Modified: no version is told from the next";
            return Err(Refusal::new(502, line));
        }
        let len = object.len();
        let origin = &self.how.origin;
        let named = format!("{origin}\n{path}\n{etag:?}\n{modified:?}\n{}", self.how.chunk);
        let digest: String =
            Sha256::digest(named).iter().take(16).map(|b| format!("{b:02x}")).collect();
        // A tag that is the origin's is the same at every cache in front of it.
        let etag = etag.map_or_else(|| format!("\"{digest}-{len:x}\""), str::to_owned);
        let version = Version { len, etag, modified: modified.and_then(date) };
        Ok(Thing {
            object,
            version,
            folder: format!("{digest}-{len}").into(),
            gone: AtomicBool::new(false),
        })
    }

    fn is_still(&self, thing: &Thing) -> Result<bool, Refusal> {
        self.metrics.origin_reads.add(1);
        match thing.object.is_still() {
            Ok(still) => Ok(still),
            Err(Fault::Missing { .. }) => Ok(false),
            Err(fault) => Err(origin::refusal(&fault)),
        }
    }

    /// The chunk that a byte is in, there or on its way, and the byte where it begins; those after it
    /// are sent for as well, up to an end.
    pub(super) fn chunk(
        self: &Arc<Self>,
        thing: &Arc<Thing>,
        wanted: &Range<u64>,
    ) -> Result<(Lease, u64), Refusal> {
        let size = self.how.chunk.get();
        let nth = wanted.start / size;
        let lease = self.lease(thing, nth, ROOM)?;
        let last = wanted.end.saturating_sub(1) / size;
        for next in nth + 1..=last.min(nth + AHEAD) {
            let key = Key { folder: Arc::clone(&thing.folder), nth: next };
            // Who needs it will see why it cannot be had.
            if !self.shelf.has(&key) && self.lease(thing, next, Duration::ZERO).is_err() {
                break;
            }
        }
        Ok((lease, nth * size))
    }

    fn lease(
        self: &Arc<Self>,
        thing: &Arc<Thing>,
        nth: u64,
        wait: Duration,
    ) -> Result<Lease, Refusal> {
        let key = Key { folder: Arc::clone(&thing.folder), nth };
        let size = self.how.chunk.get();
        let len = shelf::length(thing.version.len, size, nth).ok_or_else(Refusal::missing)?;
        let (lease, new) = self.shelf.take(&key, len, wait)?;
        if !new {
            self.metrics.hits.add(1);
            return Ok(lease);
        }
        self.metrics.misses.add(1);
        // The thread has a lease of its own, so that the chunk is filled whoever leaves.
        let (mine, _) = self.shelf.take(&key, len, Duration::ZERO)?;
        let (cache, thing, start) = (Arc::clone(self), Arc::clone(thing), nth * size);
        let spawned = thread::Builder::new()
            .name("fill".to_owned())
            .spawn(move || cache.fill(&thing, &mine, start..start + len));
        if let Err(error) = spawned {
            let why = Refusal::new(503, format!("no thread can be started: {error}"));
            lease.fail(why.clone());
            return Err(why);
        }
        Ok(lease)
    }

    fn fill(&self, thing: &Thing, lease: &Lease, range: Range<u64>) {
        let mut fills = locked(&self.fills);
        while *fills == 0 {
            fills = self.filled.wait(fills).unwrap_or_else(PoisonError::into_inner);
        }
        *fills -= 1;
        drop(fills);
        let done = self.read(thing, lease, range).and_then(|()| lease.finish());
        *locked(&self.fills) += 1;
        self.filled.notify_one();
        if let Err(why) = done {
            self.metrics.fills_failed.add(1);
            lease.fail(why);
        }
    }

    /// Reads a range of the origin into its chunk.
    fn read(&self, thing: &Thing, lease: &Lease, range: Range<u64>) -> Result<(), Refusal> {
        let write = |bytes: &[u8]| {
            self.metrics.origin_bytes.add(bytes.len() as u64);
            lease.chunk().append(bytes).map_err(|error| shelf::unwritable(&error))
        };
        let front = range.start..range.end.min(thing.object.front_len());
        let mut at = range.start;
        if let Some(bytes) = thing.object.front(&front).filter(|bytes| !bytes.is_empty()) {
            write(bytes)?;
            at = front.end;
        }
        if at == range.end {
            return Ok(());
        }
        self.metrics.origin_reads.add(1);
        let mut bytes = thing.object.bytes(at..range.end);
        let mut step = vec![0; STEP];
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(STEP).min(STEP);
            bytes.next(&mut step[..len]).map_err(|unread| match unread {
                Unread::Remote(fault) => {
                    let gone = matches!(fault, Fault::Changed | Fault::Missing { .. });
                    thing.gone.fetch_or(gone, Ordering::Relaxed);
                    origin::refusal(&fault)
                }
                Unread::File(error) => Refusal::of_file(&error),
            })?;
            write(&step[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
