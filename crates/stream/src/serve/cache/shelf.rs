//! Chunks on the disk: which are there, which go when room is needed, and that none is half.
//!
//! A chunk is a file of its own: `DIR/VERSION-LEN/N`, where VERSION names one version of one object and
//! LEN is its length in bytes. It has a name that ends in `.tmp` until all of it is written and on the
//! disk, so that whatever bears a number is whole, after a kill as after a power cut. What is not of
//! its length is deleted at the start. The kernel's page cache is the memory before the disk: a chunk
//! that was just written or sent is sent from there.
//!
//! The chunk that nobody has used for longest goes first; one that is being used stays. The order
//! of use is forgotten at a restart, where the time of writing stands in.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::chunk::Chunk;
use crate::serve::metrics::Metrics;
use crate::serve::refusal::Refusal;

/// Which chunk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// `VERSION-LEN`.
    pub(super) folder: Arc<str>,
    pub(super) nth: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    limit: u64,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    freed: Condvar,
    /// Held as long as the shelf is, so that no second server has the same directory.
    _lock: File,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    tick: u64,
    chunks: HashMap<Key, Entry>,
    /// Those that nobody uses, the one that was used longest ago first.
    idle: BTreeMap<u64, Key>,
}

#[derive(Debug)]
struct Entry {
    len: u64,
    /// Its place in `idle`; without one it is used.
    tick: Option<u64>,
    users: usize,
    /// Open while it is used.
    open: Option<Arc<Chunk>>,
}

/// A chunk that stays as long as this does.
#[derive(Debug)]
pub(crate) struct Lease {
    shelf: Arc<Shelf>,
    key: Key,
    chunk: Arc<Chunk>,
}

impl Shelf {
    /// Takes a directory, and what is whole in it.
    pub(super) fn open(
        dir: &Path,
        limit: u64,
        chunk: u64,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let lock = OpenOptions::new().create(true).append(true).open(dir.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another server uses it")
            }
            fs::TryLockError::Error(error) => error,
        })?;
        let mut state = State::default();
        for (_, key, len) in scan(dir, chunk)? {
            state.used += len;
            state.chunks.insert(key.clone(), Entry { len, tick: None, users: 0, open: None });
            state.rest(&key);
        }
        let (state, freed) = (Mutex::new(state), Condvar::new());
        let shelf = Self { dir: dir.to_owned(), limit, metrics, state, freed, _lock: lock };
        let mut state = shelf.lock();
        shelf.make_room(&mut state, 0);
        shelf.metrics.cached.set(state.used);
        drop(state);
        Ok(shelf)
    }

    /// A chunk of so many bytes, and whether it is to be filled by whoever asked. Waits so long for
    /// room that others use.
    pub(super) fn take(
        self: &Arc<Self>,
        key: &Key,
        len: u64,
        wait: Duration,
    ) -> Result<(Lease, bool), Refusal> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some(chunk) = self.known(&mut state, key) {
                return Ok((Lease { shelf: Arc::clone(self), key: key.clone(), chunk }, false));
            }
            if self.make_room(&mut state, len) {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let line = "every chunk of the cache is in use: give it more bytes";
                return Err(Refusal::new(503, line));
            }
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let file = fs::create_dir_all(self.dir.join(&*key.folder)).and_then(|()| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).open(self.half(key))
        });
        let file = file.map_err(|error| unwritable(&error))?;
        let chunk = Arc::new(Chunk::empty(file, len));
        let open = Some(Arc::clone(&chunk));
        state.used += len;
        self.metrics.cached.set(state.used);
        state.chunks.insert(key.clone(), Entry { len, tick: None, users: 1, open });
        Ok((Lease { shelf: Arc::clone(self), key: key.clone(), chunk }, true))
    }

    /// Whether a chunk is here or on its way.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.lock().chunks.contains_key(key)
    }

    /// A chunk that is here or on its way, with one user more.
    fn known(&self, state: &mut State, key: &Key) -> Option<Arc<Chunk>> {
        let entry = state.chunks.get_mut(key)?;
        let chunk = match &entry.open {
            Some(chunk) => Arc::clone(chunk),
            None => match File::open(self.path(key)) {
                Ok(file) => Arc::new(Chunk::whole(file, entry.len)),
                // Somebody deleted it: it is asked for again.
                Err(_) => {
                    self.forget(state, key);
                    return None;
                }
            },
        };
        entry.open = Some(Arc::clone(&chunk));
        entry.users += 1;
        if let Some(tick) = entry.tick.take() {
            state.idle.remove(&tick);
        }
        Some(chunk)
    }

    /// Deletes what was not used for longest until so many bytes fit; whether they do.
    fn make_room(&self, state: &mut State, len: u64) -> bool {
        while state.used + len > self.limit {
            let Some((_, key)) = state.idle.pop_first() else { return false };
            // One that is gone already takes no room either.
            let _ = fs::remove_file(self.path(&key));
            self.forget(state, &key);
            self.metrics.evictions.add(1);
        }
        true
    }

    fn forget(&self, state: &mut State, key: &Key) {
        if let Some(entry) = state.chunks.remove(key) {
            state.used -= entry.len;
            self.metrics.cached.set(state.used);
            if let Some(tick) = entry.tick {
                state.idle.remove(&tick);
            }
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(&*key.folder).join(key.nth.to_string())
    }

    fn half(&self, key: &Key) -> PathBuf {
        self.dir.join(&*key.folder).join(format!("{}.tmp", key.nth))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Puts a chunk that nobody uses behind all others.
    fn rest(&mut self, key: &Key) {
        self.tick += 1;
        if let Some(entry) = self.chunks.get_mut(key) {
            entry.tick = Some(self.tick);
            entry.open = None;
            self.idle.insert(self.tick, key.clone());
        }
    }
}

impl Lease {
    pub(crate) fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// Gives a chunk that is filled its name, once it is on the disk.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        let named = self
            .chunk
            .file
            .sync_data()
            .and_then(|()| fs::rename(self.shelf.half(&self.key), self.shelf.path(&self.key)));
        named.map_err(|error| unwritable(&error))
    }

    /// Takes a chunk away that cannot be filled: who waits for it is told, who asks next begins anew.
    pub(super) fn fail(&self, why: Refusal) {
        let mut state = self.shelf.lock();
        // Gives its bytes back although others still have it open.
        let _ = self.chunk.file.set_len(0);
        let _ = fs::remove_file(self.shelf.half(&self.key));
        self.shelf.forget(&mut state, &self.key);
        drop(state);
        self.chunk.fail(why);
        self.shelf.freed.notify_all();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.shelf.lock();
        let mine = |open: &Arc<Chunk>| Arc::ptr_eq(open, &self.chunk);
        // It may have failed, and another may have its name by now.
        let Some(entry) = state.chunks.get_mut(&self.key) else { return };
        if !entry.open.as_ref().is_some_and(mine) {
            return;
        }
        entry.users -= 1;
        if entry.users == 0 {
            state.rest(&self.key);
            self.shelf.freed.notify_all();
        }
    }
}

pub(super) fn unwritable(error: &io::Error) -> Refusal {
    Refusal::new(503, format!("the cache cannot be written: {error}"))
}

/// The whole chunks of a directory, the oldest first. Everything else in its folders is deleted.
fn scan(dir: &Path, chunk: u64) -> io::Result<Vec<(std::time::SystemTime, Key, u64)>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(dir)? {
        let folder = folder?;
        let name = folder.file_name();
        let of =
            name.to_str().and_then(|name| Some((name, name.rsplit_once('-')?.1.parse().ok()?)));
        // What does not look like ours is not ours to delete.
        let Some((name, whole)) = of.filter(|_| folder.path().is_dir()) else { continue };
        let name: Arc<str> = name.into();
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let metadata = file.metadata()?;
            let nth: Option<u64> = file.file_name().to_str().and_then(|name| name.parse().ok());
            let want = nth.and_then(|nth| length(whole, chunk, nth));
            match nth.filter(|_| want == Some(metadata.len())) {
                Some(nth) => {
                    let key = Key { folder: Arc::clone(&name), nth };
                    found.push((metadata.modified()?, key, metadata.len()));
                }
                None => fs::remove_file(file.path())?,
            }
        }
        // Fails unless it is empty.
        let _ = fs::remove_dir(folder.path());
    }
    found.sort_by_key(|(modified, _, _)| *modified);
    Ok(found)
}

/// Bytes of a chunk of an object, if it has that many chunks.
pub(super) fn length(whole: u64, chunk: u64, nth: u64) -> Option<u64> {
    let start = nth.checked_mul(chunk).filter(|start| *start < whole)?;
    Some(chunk.min(whole - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 10;

    fn shelf(dir: &Path, limit: u64) -> Arc<Shelf> {
        Arc::new(Shelf::open(dir, limit, CHUNK, Arc::default()).unwrap())
    }

    fn key(nth: u64) -> Key {
        Key { folder: "version-95".into(), nth }
    }

    fn filled(shelf: &Arc<Shelf>, nth: u64) {
        let len = length(95, CHUNK, nth).unwrap();
        let (lease, new) = shelf.take(&key(nth), len, Duration::ZERO).unwrap();
        assert!(new);
        lease.chunk().append(&vec![nth as u8; len as usize]).unwrap();
        lease.finish().unwrap();
    }

    fn has(shelf: &Shelf, nth: u64) -> bool {
        shelf.has(&key(nth))
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let place = tempfile::tempdir().unwrap();
        let shelf = shelf(place.path(), 30);
        (0..3).for_each(|nth| filled(&shelf, nth));
        assert!(!shelf.take(&key(0), CHUNK, Duration::ZERO).unwrap().1);
        let used = shelf.take(&key(1), CHUNK, Duration::ZERO).unwrap().0;
        filled(&shelf, 9);
        filled(&shelf, 5);
        assert_eq!([0, 1, 2, 5, 9].map(|nth| has(&shelf, nth)), [false, true, false, true, true]);
        drop(used);
        let on_disk = fs::read_dir(place.path().join("version-95")).unwrap();
        let bytes: u64 = on_disk.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!((bytes, shelf.lock().used), (25, 25));
    }

    #[test]
    fn only_what_is_whole_is_there_after_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let first = shelf(place.path(), 100);
        (0..3).for_each(|nth| filled(&first, nth));
        let half = first.take(&key(3), CHUNK, Duration::ZERO).unwrap().0;
        half.chunk().append(b"half").unwrap();
        assert!(Shelf::open(place.path(), 100, CHUNK, Arc::default()).is_err(), "it is in use");
        // As a kill does: nothing is put in order.
        let copy = tempfile::tempdir().unwrap();
        let folder = copy.path().join("version-95");
        fs::create_dir(&folder).unwrap();
        for file in fs::read_dir(place.path().join("version-95")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
        fs::write(folder.join("1"), "short").unwrap();
        fs::write(folder.join("10"), "0123456789").unwrap();
        let again = shelf(copy.path(), 100);
        assert_eq!([0, 1, 2, 3, 10].map(|nth| has(&again, nth)), [true, false, true, false, false]);
        assert!(!folder.join("3.tmp").exists() && !folder.join("1").exists());
        drop(again);
        let less = shelf(copy.path(), 10);
        assert_eq!(less.lock().used, 10, "another limit holds at once");
    }

    #[test]
    fn who_waits_for_what_cannot_be_had_is_told() {
        let place = tempfile::tempdir().unwrap();
        let shelf = shelf(place.path(), 10);
        let (filling, _) = shelf.take(&key(0), CHUNK, Duration::ZERO).unwrap();
        let (waiting, new) = shelf.take(&key(0), CHUNK, Duration::ZERO).unwrap();
        assert!(!new);
        filling.chunk().append(b"abc").unwrap();
        assert_eq!(waiting.chunk().beyond(0), Ok(3));
        std::thread::scope(|scope| {
            let told = scope.spawn(|| waiting.chunk().beyond(3));
            filling.fail(Refusal::new(502, "gone"));
            assert_eq!(told.join().unwrap(), Err(Refusal::new(502, "gone")));
        });
        // Its room is free although it is still held.
        filled(&shelf, 1);
        drop((filling, waiting));
        assert_eq!(shelf.lock().used, CHUNK);
    }
}
