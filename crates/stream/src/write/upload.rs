//! An object of S3 in the making: bytes in whatever order, sent in parts as these are whole.
//!
//! No more is held than the parts that are being filled. The first part is held to the end where what
//! stands before everything is known last only. What is dropped unfinished is aborted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Sink;
use crate::error::Error;
use crate::location::Location;
use crate::pool;
use crate::remote::{Fault, Store};

/// Bytes of a part: long beside the time until its answer, and above the least that S3 takes, 5 MiB.
const PART: u64 = 8 << 20;

/// The same where the length is not known beforehand: 10,000 of them are 160 GB.
const UNKNOWN: u64 = 16 << 20;

/// The most parts of an object (AWS, "Amazon S3 multipart upload limits").
const PARTS: u64 = 10_000;

/// Tensors that are sent beside each other, cores aside.
const STREAMS: usize = 8;

/// See the module.
pub(super) struct Upload {
    store: Store,
    place: Location,
    /// Bytes of every part but the last.
    part: u64,
    /// Bytes of all parts, where they are known.
    len: Option<u64>,
    id: Mutex<Option<String>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Parts that are being filled, by their places.
    open: BTreeMap<u64, Part>,
    /// Tags of those that were sent, by their numbers.
    sent: BTreeMap<u32, String>,
}

struct Part {
    bytes: Vec<u8>,
    /// Bytes that are still to come.
    missing: u64,
}

impl Upload {
    /// An object whose length may be known.
    pub(super) fn new(store: Store, place: &Location, len: Option<u64>) -> Self {
        // One part is kept free for what comes with the first.
        let least = |len: u64| len.div_ceil(PARTS - 1).next_multiple_of(1 << 20);
        let part = len.map_or(UNKNOWN, |len| PART.max(least(len)));
        let (id, state) = (Mutex::default(), Mutex::default());
        Self { store, place: place.clone(), part, len, id, state }
    }

    /// Sends what is left, with `front` before everything, and makes it an object. All bytes have been
    /// put, `len` in all.
    pub(super) fn finish(self, mut front: Vec<u8>, len: u64) -> Result<(), Error> {
        let open = std::mem::take(&mut locked(&self.state).open);
        let mut first = None;
        for (place, mut part) in open {
            let here = self.part.min(len - place * self.part);
            part.bytes.truncate(usize::try_from(here).unwrap_or(usize::MAX));
            if place == 0 {
                first = Some(part.bytes);
            } else {
                self.send(place, &part.bytes)?;
            }
        }
        if let Some(first) = first {
            front.extend_from_slice(&first);
            if locked(&self.id).is_none() {
                return self.store.whole(&front).map_err(|fault| self.failed(fault));
            }
            self.send(0, &front)?;
        }
        let done = {
            let (id, state) = (locked(&self.id), locked(&self.state));
            let id = id.as_deref().unwrap_or_default();
            self.store.complete(id, &state.sent)
        };
        done.map_err(|fault| self.failed(fault))?;
        *locked(&self.id) = None;
        Ok(())
    }

    /// Whether a part waits for the end, which makes an object of one part the work of one request.
    fn is_held(&self, place: u64) -> bool {
        place == 0 && self.len.is_none_or(|len| len <= self.part)
    }

    fn send(&self, place: u64, bytes: &[u8]) -> Result<(), Error> {
        let number = place + 1;
        if number > PARTS {
            return Err(self.failed(Fault::Long { most: PARTS * self.part }));
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let id = self.begun()?;
        let tag = self.store.part(&id, number, bytes).map_err(|fault| self.failed(fault))?;
        locked(&self.state).sent.insert(number, tag);
        Ok(())
    }

    /// The name of the upload, which begins with its first part.
    fn begun(&self) -> Result<String, Error> {
        let mut id = locked(&self.id);
        if let Some(id) = &*id {
            return Ok(id.clone());
        }
        let new = self.store.begin().map_err(|fault| self.failed(fault))?;
        Ok(id.insert(new).clone())
    }

    fn failed(&self, fault: Fault) -> Error {
        Error::Send { place: self.place.clone(), source: Box::new(fault) }
    }
}

impl Sink for Upload {
    fn put(&self, mut bytes: &[u8], mut at: u64) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (place, within) = (at / self.part, at % self.part);
            let whole = match self.len {
                Some(len) => self.part.min(len - place * self.part),
                None => self.part,
            };
            let here = (whole - within).min(bytes.len() as u64);
            let (now, rest) = bytes.split_at(usize::try_from(here).unwrap_or(usize::MAX));
            let mut state = locked(&self.state);
            let part = state.open.entry(place).or_insert_with(|| Part {
                bytes: vec![0; usize::try_from(whole).unwrap_or(usize::MAX)],
                missing: whole,
            });
            let from = usize::try_from(within).unwrap_or(usize::MAX);
            part.bytes[from..from + now.len()].copy_from_slice(now);
            part.missing -= here;
            let full = part.missing == 0 && !self.is_held(place);
            let full = full.then(|| state.open.remove(&place)).flatten();
            drop(state);
            if let Some(part) = full {
                self.send(place, &part.bytes)?;
            }
            (bytes, at) = (rest, at + here);
        }
        Ok(())
    }

    fn streams(&self) -> Option<usize> {
        Some(pool::cores().max(STREAMS).min(self.store.connections()))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(id) = locked(&self.id).take() {
            self.store.abort(&id);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
