//! An object behind a URL as a source of bytes: what it is, so that it is noticed when it becomes
//! another, and its front, which came with the first answer.
//!
//! It is known by its strong `ETag`, where the server gives none by the time it was changed, and by
//! its length in any case. Every request names that as its condition (`If-Match`,
//! `If-Unmodified-Since`), and every answer is compared, since not every server minds conditions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Connection;
use super::crew;
use super::fault::Fault;
use super::fetch::{Fetch, Trying};
use super::head::Head;
use super::patience::Reins;
use super::wire::{Asked, Traffic, Wire};
use super::{Remote, url::Url};
use crate::pool;
use crate::s3::Ready;
use crate::source::{Bytes, How, Piece, Source, Unread};

/// Bytes of the first request of a model: enough for the head and the index of most.
pub(crate) const FRONT: u64 = 512 << 10;

/// Bytes of a request of a load: long enough that the time until its first byte is little beside it.
const READ: u64 = 16 << 20;

/// Ranges closer than this are cheaper in one request than in two.
const NEAR: u64 = 16 << 10;

/// Bytes that are held of what was said to be asked for.
const HELD: u64 = 32 << 20;

/// Ranges that are streamed beside each other, cores aside.
const STREAMS: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Object {
    pub(super) wire: Wire,
    identity: Identity,
    front: Vec<u8>,
    held: Mutex<HashMap<u64, Vec<u8>>>,
}

/// What tells a version of an object from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    len: u64,
    etag: Option<String>,
    modified: Option<String>,
}

impl Identity {
    /// Lines that make a server refuse if the object is another by now.
    fn conditions(&self) -> String {
        match (&self.etag, &self.modified) {
            (Some(etag), _) => format!("if-match: {etag}\r\n"),
            (None, Some(modified)) => format!("if-unmodified-since: {modified}\r\n"),
            (None, None) => String::new(),
        }
    }

    /// Whether an answer is of another version. What it does not say it does not contradict.
    fn differs(&self, head: &Head) -> bool {
        let other = |mine: &Option<String>, said: &Option<String>| match (mine, said) {
            (Some(mine), Some(said)) => mine != said,
            _ => false,
        };
        match &self.etag {
            // Servers behind one name may agree on a tag and not on a second.
            Some(_) => other(&self.etag, &head.etag),
            None => other(&self.modified, &head.modified),
        }
    }
}

impl Object {
    /// Asks for an object the first time: whether it is there, how long it is, and its front, of so
    /// many bytes.
    pub(crate) fn http(url: &Url, how: &Remote, front: u64) -> Result<Self, Fault> {
        Self::open(Wire::new(Asked::Url(url.clone()), how), front)
    }

    /// The same of another cache.
    pub(crate) fn peer(url: &Url, how: &Remote, front: u64) -> Result<Self, Fault> {
        Self::open(Wire::new(Asked::Peer(url.clone()), how), front)
    }

    /// The same of S3.
    pub(crate) fn s3(ready: Ready, how: &Remote, front: u64) -> Result<Self, Fault> {
        Self::open(Wire::new(Asked::S3(ready), how), front)
    }

    fn open(wire: Wire, front: u64) -> Result<Self, Fault> {
        let reins = Reins::default();
        let mut trying = Trying::default();
        loop {
            match first(&wire, front, &reins) {
                Ok((identity, front)) => {
                    return Ok(Self { wire, identity, front, held: Mutex::default() });
                }
                Err(fault) => trying.after(fault, &wire, &reins)?,
            }
        }
    }

    /// A connection on which the bytes of a range come next, or as many of its first ones as the
    /// server likes to give.
    pub(super) fn ask(&self, range: &Range<u64>, reins: &Reins) -> Result<Connection, Fault> {
        let (mut connection, head) = self.wire.get(range, &self.identity.conditions(), reins)?;
        match head.status {
            206 if self.identity.differs(&head) => Err(Fault::Changed),
            206 => {
                let (_, whole) = body(&mut connection, &head, range)?;
                match whole {
                    Some(whole) if whole != self.identity.len => Err(Fault::Changed),
                    _ => Ok(connection),
                }
            }
            200 if self.identity.differs(&head) => Err(Fault::Changed),
            200 => Err(Fault::NoRanges),
            // The conditions do not hold, or it became shorter than the range.
            412 | 416 => Err(Fault::Changed),
            _ => Err(self.wire.refusal(connection, &head)),
        }
    }

    /// The strong `ETag`, and the time when it was changed as the server writes it.
    pub(crate) fn validators(&self) -> (Option<&str>, Option<&str>) {
        (self.identity.etag.as_deref(), self.identity.modified.as_deref())
    }

    /// Asks once whether it still is what it was, for the price of a byte. Of one without bytes that
    /// cannot be told.
    pub(crate) fn is_still(&self) -> Result<bool, Fault> {
        if self.identity.len == 0 {
            return Ok(false);
        }
        match self.ask(&(0..1), &Reins::default()) {
            Ok(mut connection) => {
                // Read so that the connection can be asked again.
                let _ = connection.read(&mut [0]);
                self.wire.keep(connection);
                Ok(true)
            }
            Err(Fault::Changed) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// How many bytes came with the first answer.
    pub(crate) fn front_len(&self) -> u64 {
        self.front.len() as u64
    }

    /// Bytes that came with the first answer.
    pub(crate) fn front(&self, range: &Range<u64>) -> Option<&[u8]> {
        let place = |offset| usize::try_from(offset).ok();
        self.front.get(place(range.start)?..place(range.end)?)
    }
}

/// The first question: what the object is, and its front.
fn first(wire: &Wire, front: u64, reins: &Reins) -> Result<(Identity, Vec<u8>), Fault> {
    let (mut connection, head) = wire.get(&(0..front), "", reins)?;
    let len = match head.status {
        206 => {
            let (_, whole) = body(&mut connection, &head, &(0..front))?;
            let unknown = || "a range of an object whose length it does not tell".to_owned();
            whole.ok_or_else(|| Fault::Protocol(unknown()))?
        }
        // All of it at once will do if that is no more than what was asked for.
        200 if head.length.is_some_and(|length| length <= front) && head.encoding.is_none() => {
            head.length.unwrap_or_default()
        }
        200 => return Err(Fault::NoRanges),
        416 if head.range.is_some_and(|given| given.whole == Some(0)) => 0,
        _ => return Err(wire.refusal(connection, &head)),
    };
    let left = if len == 0 { 0 } else { connection.left() };
    let mut front = vec![0; usize::try_from(left).unwrap_or_default()];
    let mut at = 0;
    while at < front.len() {
        at += connection.read(&mut front[at..])?;
    }
    wire.keep(connection);
    Ok((Identity { len, etag: head.etag, modified: head.modified }, front))
}

/// Makes the connection ready for the body of an answer to a range, which must be what was asked for
/// or the beginning of it: how many bytes come, and how many the object has.
fn body(
    connection: &mut Connection,
    head: &Head,
    asked: &Range<u64>,
) -> Result<(u64, Option<u64>), Fault> {
    let wrong = |what: String| Err(Fault::Protocol(what));
    if let Some(encoding) = &head.encoding {
        return wrong(format!("the encoding {encoding:?}, which was not asked for"));
    }
    if head.chunked {
        return wrong("a range in chunks".to_owned());
    }
    let Some((first, last)) = head.range.and_then(|given| given.bytes) else {
        return wrong("a range and no Content-Range".to_owned());
    };
    if first != asked.start || last >= asked.end {
        let (start, end) = (asked.start, asked.end - 1);
        return wrong(format!("bytes {first} to {last} where {start} to {end} were asked for"));
    }
    let len = last - first + 1;
    if head.length.is_some_and(|length| length != len) {
        return wrong(format!("another length than that of its range, {len}"));
    }
    connection.expect(len);
    Ok((len, head.range.and_then(|given| given.whole)))
}

impl Source for Object {
    fn len(&self) -> u64 {
        self.identity.len
    }

    fn read_size(&self) -> u64 {
        READ
    }

    fn streams(&self) -> usize {
        pool::cores().max(STREAMS).min(self.wire.how.connections.get())
    }

    fn bytes(&self, range: Range<u64>) -> Box<dyn Bytes + '_> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        if let Some(bytes) = self.front(&range) {
            return Box::new(Held { bytes: bytes.to_vec(), at: 0 });
        }
        if let Some(bytes) = locked(&self.held).get(&range.start).filter(|b| b.len() >= len) {
            return Box::new(Held { bytes: bytes[..len].to_vec(), at: 0 });
        }
        Box::new(Fetch::new(self, range, Arc::default()))
    }

    fn fill(&self, jobs: Vec<Vec<Piece<'_>>>, how: &How<'_>) -> Result<(), Unread> {
        let most = how.threads.unwrap_or(self.wire.how.connections).get();
        crew::fill(self, jobs, most, how.progress).map_err(Unread::Remote)
    }

    fn expect(&self, ranges: &[Range<u64>]) -> Result<(), Unread> {
        let mut room = HELD;
        let mut wanted: Vec<(u64, Vec<u8>)> = Vec::new();
        for range in ranges.iter().filter(|range| self.front(range).is_none()) {
            let len = range.end - range.start;
            let Some(rest) = room.checked_sub(len) else { break };
            room = rest;
            wanted.push((range.start, vec![0; usize::try_from(len).unwrap_or_default()]));
        }
        wanted.sort_by_key(|(start, _)| *start);
        let mut jobs: Vec<Vec<Piece<'_>>> = Vec::new();
        let mut end = 0;
        for (start, bytes) in &mut wanted {
            let near = start.checked_sub(end).is_some_and(|gap| gap <= NEAR);
            end = *start + bytes.len() as u64;
            match jobs.last_mut().filter(|_| near) {
                Some(job) => job.push((*start, bytes)),
                None => jobs.push(vec![(*start, bytes)]),
            }
        }
        let most = self.wire.how.connections.get();
        crew::fill(self, jobs, most, &|_| {}).map_err(Unread::Remote)?;
        *locked(&self.held) = wanted.into_iter().collect();
        Ok(())
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(self.wire.traffic())
    }
}

/// A range that is here already.
struct Held {
    bytes: Vec<u8>,
    at: usize,
}

impl Bytes for Held {
    fn next(&mut self, into: &mut [u8]) -> Result<(), Unread> {
        into.copy_from_slice(&self.bytes[self.at..self.at + into.len()]);
        self.at += into.len();
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
