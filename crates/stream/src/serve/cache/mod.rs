//! A cache in front of an origin: each byte is read from there once, however many ask for it at once.
//!
//! An object is asked what it is when it is first wanted, and whether it still is when that is longer
//! ago than [`Cached::fresh`]; one at a time asks, the others wait for what it finds. Its bytes come in
//! chunks: whoever first wants one has it filled, by a thread that does not depend on that client, and
//! all read it while it comes. Chunks belong to a version of an object, so that versions are never
//! mixed. An origin that cannot be reached takes nothing away: what was known of an object holds for as
//! long as [`Cached::stale`]. What an object is, is found out again after a restart; its chunks are still
//! there.

mod chunk;
mod origin;
mod peers;
mod shelf;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use origin::Origin;
pub use peers::Peers;
use peers::Ring;
use rustix::fs::statvfs;
use sha2::{Digest as _, Sha256};
pub(super) use shelf::Lease;
use shelf::{Key, Shelf};

use super::ServeError;
use super::metrics::{Count, Metrics};
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
    /// How long it is taken for that while the origin cannot be asked.
    pub stale: Duration,
    /// Other caches in front of the same origin, with chunks of the same length.
    pub peers: Peers,
}

impl Cached {
    /// Alone, with chunks of 16 MiB, and objects that are asked about every ten seconds, and given for a day
    /// while the origin is down.
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
        let (fresh, stale) = (Duration::from_secs(10), Duration::from_secs(86_400));
        Self { origin, remote, dir, bytes, chunk, fresh, stale, peers: Peers::default() }
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
    ring: Ring,
    /// Chunks that are filled from the origin and those from peers, which wait for each other's origins:
    /// one never takes the other's turn.
    fills: [Turns; 2],
}

/// Chunks that may begin to be filled now.
#[derive(Debug)]
struct Turns {
    left: Mutex<u64>,
    freed: Condvar,
}

/// Whom a chunk may be had from that is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whence {
    /// The peer that is to have it, or the origin.
    Nearest,
    Origin,
}

/// What is known of an object; who holds it asks for all.
type Slot = Mutex<Option<Known>>;

#[derive(Debug)]
struct Known {
    thing: Arc<Thing>,
    /// When the origin was asked last.
    asked: Instant,
    /// When it last answered.
    told: Instant,
}

impl Known {
    fn new(thing: Arc<Thing>) -> Self {
        let now = Instant::now();
        Self { thing, asked: now, told: now }
    }
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Thing {
    path: String,
    object: Object,
    /// The same at peers, as they were asked for it.
    peers: Mutex<HashMap<SocketAddr, Arc<Object>>>,
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
        let turns = || Turns {
            left: Mutex::new((bytes / chunk / 4).clamp(1, FILLS)),
            freed: Condvar::new(),
        };
        let (shelf, slots, fills) = (Arc::new(shelf), Mutex::default(), [turns(), turns()]);
        let ring = Ring::new(how.peers.clone());
        Ok(Self { how, metrics, shelf, slots, ring, fills })
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
        if let Some(known) = &mut *known
            && !known.thing.gone.load(Ordering::Relaxed)
            && (known.asked.elapsed() < self.how.fresh || self.holds(known)?)
        {
            return Ok((Arc::clone(&known.thing), known.thing.version.clone()));
        }
        *known = None;
        match self.ask(path) {
            Ok(thing) => {
                let thing = Arc::new(thing);
                *known = Some(Known::new(Arc::clone(&thing)));
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
            path: path.to_owned(),
            object,
            peers: Mutex::default(),
            version,
            folder: format!("{digest}-{len}").into(),
            gone: AtomicBool::new(false),
        })
    }

    /// Whether what is known of an object may go on being given.
    fn holds(&self, known: &mut Known) -> Result<bool, Refusal> {
        self.metrics.origin_reads.add(1);
        let still = known.thing.object.is_still();
        known.asked = Instant::now();
        match still {
            Ok(still) => {
                known.told = known.asked;
                Ok(still)
            }
            Err(Fault::Missing { .. }) => Ok(false),
            Err(fault) if fault.is_transient() && known.told.elapsed() < self.how.stale => {
                self.metrics.stale.add(1);
                Ok(true)
            }
            Err(fault) => Err(origin::refusal(&fault)),
        }
    }

    /// The chunk that a byte is in, there or on its way, and the byte where it begins; those after it
    /// are sent for as well, up to an end.
    pub(super) fn chunk(
        self: &Arc<Self>,
        thing: &Arc<Thing>,
        wanted: &Range<u64>,
        whence: Whence,
    ) -> Result<(Lease, u64), Refusal> {
        let size = self.how.chunk.get();
        let nth = wanted.start / size;
        let lease = self.lease(thing, nth, whence, ROOM)?;
        let last = wanted.end.saturating_sub(1) / size;
        for next in nth + 1..=last.min(nth + AHEAD) {
            let key = Key { folder: Arc::clone(&thing.folder), nth: next };
            // Who needs it will see why it cannot be had.
            let ahead = || self.lease(thing, next, whence, Duration::ZERO);
            if !self.shelf.has(&key) && ahead().is_err() {
                break;
            }
        }
        Ok((lease, nth * size))
    }

    fn lease(
        self: &Arc<Self>,
        thing: &Arc<Thing>,
        nth: u64,
        whence: Whence,
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
        let peer = self.ring.owner(&key).filter(|_| whence == Whence::Nearest);
        let (cache, thing, start) = (Arc::clone(self), Arc::clone(thing), nth * size);
        let spawned = thread::Builder::new()
            .name("fill".to_owned())
            .spawn(move || cache.fill(&thing, &mine, start..start + len, peer));
        if let Err(error) = spawned {
            let why = Refusal::new(503, format!("no thread can be started: {error}"));
            lease.fail(why.clone());
            return Err(why);
        }
        Ok(lease)
    }

    fn fill(&self, thing: &Thing, lease: &Lease, range: Range<u64>, peer: Option<SocketAddr>) {
        let broke = Err(Refusal::new(500, "it broke"));
        let mut filling = Filling { metrics: &self.metrics, lease, done: broke };
        let [origins, peers] = &self.fills;
        let mut at = range.start;
        if let Some(peer) = peer {
            let _turn = peers.take();
            self.metrics.peer_reads.add(1);
            if self.ask_peer(thing, lease, &mut at, range.end, peer).is_err() {
                self.metrics.peer_failed.add(1);
                self.ring.failed(peer);
            }
        }
        let read = if at < range.end {
            let _turn = origins.take();
            self.read(thing, lease, at..range.end)
        } else {
            Ok(())
        };
        filling.done = read.and_then(|()| lease.finish());
    }

    /// Reads a range that a peer is to have into its chunk, and moves `at` past what has come.
    fn ask_peer(
        &self,
        thing: &Thing,
        lease: &Lease,
        at: &mut u64,
        end: u64,
        peer: SocketAddr,
    ) -> Result<(), Refusal> {
        let object = thing.at(peer)?;
        copy(&object, lease, at, end, &self.metrics.peer_bytes).map_err(|broke| {
            locked(&thing.peers).remove(&peer);
            broke.refusal()
        })
    }

    /// Reads a range of the origin into its chunk.
    fn read(&self, thing: &Thing, lease: &Lease, range: Range<u64>) -> Result<(), Refusal> {
        let front = range.start..range.end.min(thing.object.front_len());
        let mut at = range.start;
        if let Some(bytes) = thing.object.front(&front).filter(|bytes| !bytes.is_empty()) {
            self.metrics.origin_bytes.add(bytes.len() as u64);
            lease.chunk().append(bytes).map_err(|error| shelf::unwritable(&error))?;
            at = front.end;
        }
        if at == range.end {
            return Ok(());
        }
        self.metrics.origin_reads.add(1);
        copy(&thing.object, lease, &mut at, range.end, &self.metrics.origin_bytes).map_err(
            |broke| {
                let gone = matches!(
                    broke,
                    Broke::Source(Unread::Remote(Fault::Changed | Fault::Missing { .. }))
                );
                thing.gone.fetch_or(gone, Ordering::Relaxed);
                broke.refusal()
            },
        )
    }
}

/// Reads a range of an object into its chunk, and moves `at` past what has come.
fn copy(
    object: &Object,
    lease: &Lease,
    at: &mut u64,
    end: u64,
    counted: &Count,
) -> Result<(), Broke> {
    let mut bytes = object.bytes(*at..end);
    let mut step = vec![0; STEP];
    while *at < end {
        let len = usize::try_from(end - *at).unwrap_or(STEP).min(STEP);
        bytes.next(&mut step[..len]).map_err(Broke::Source)?;
        counted.add(len as u64);
        lease.chunk().append(&step[..len]).map_err(Broke::Shelf)?;
        *at += len as u64;
    }
    Ok(())
}

/// Why a chunk is not whole.
enum Broke {
    /// It cannot be had.
    Source(Unread),
    /// It cannot be kept.
    Shelf(io::Error),
}

impl Broke {
    fn refusal(&self) -> Refusal {
        match self {
            Self::Source(Unread::Remote(fault)) => origin::refusal(fault),
            Self::Source(Unread::File(error)) => Refusal::of_file(error),
            Self::Shelf(error) => shelf::unwritable(error),
        }
    }
}

impl Thing {
    /// The same version at a peer.
    fn at(&self, peer: SocketAddr) -> Result<Arc<Object>, Refusal> {
        let mut peers = locked(&self.peers);
        if let Some(object) = peers.get(&peer) {
            return Ok(Arc::clone(object));
        }
        let object = origin::at_peer(peer, &self.path).map_err(|fault| origin::refusal(&fault))?;
        let same = object.validators().0 == Some(self.version.etag.as_str());
        if !same || object.len() != self.version.len {
            return Err(Refusal::new(502, "a peer has another version"));
        }
        let object = Arc::new(object);
        peers.insert(peer, Arc::clone(&object));
        Ok(object)
    }
}

impl Turns {
    /// Waits for a turn, which ends when what is returned is dropped.
    fn take(&self) -> Turn<'_> {
        let mut left = locked(&self.left);
        while *left == 0 {
            left = self.freed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
        Turn(self)
    }
}

struct Turn<'t>(&'t Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *locked(&self.0.left) += 1;
        self.0.freed.notify_one();
    }
}

/// A chunk that is being filled. However that ends, who waits for it is told.
struct Filling<'c> {
    metrics: &'c Metrics,
    lease: &'c Lease,
    done: Result<(), Refusal>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if let Err(why) = &self.done {
            self.metrics.fills_failed.add(1);
            self.lease.fail(why.clone());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
