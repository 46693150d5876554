//! One range, in spite of what passes: asked for again from the byte where it broke.
//!
//! A failure that passes is waited out, longer each time it comes again without a byte between; one
//! that does not pass ends the range at once. A read can be called off from outside by its reins.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use super::fault::Fault;
use super::object::Object;
use super::patience::{Reins, chance};
use super::wire::Wire;
use crate::source::{Bytes, Unread};

/// Tries of a host that never answered: a name or a port that is wrong should not take minutes.
const STRANGER: u32 = 3;

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Trying {
    failures: u32,
    /// Whether the first failure is the last.
    once: bool,
}

impl Trying {
    /// Waits after a failure that passes.
    ///
    /// # Errors
    /// The failure, if it does not pass or came too often.
    pub(super) fn after(&mut self, fault: Fault, wire: &Wire, reins: &Reins) -> Result<(), Fault> {
        if reins.is_over() {
            return Err(Fault::Cancelled);
        }
        if !fault.is_transient() || self.once {
            return Err(fault);
        }
        self.failures += 1;
        let patience = &wire.how.patience;
        let stranger = fault.is_unreached() && !wire.has_met();
        let tries =
            if stranger { STRANGER.min(patience.tries.get()) } else { patience.tries.get() };
        if self.failures >= tries {
            return Err(Fault::GaveUp { tries, last: Box::new(fault) });
        }
        wire.counts.retries.fetch_add(1, Ordering::Relaxed);
        let asked = match &fault {
            Fault::Unavailable { after, .. } => *after,
            _ => None,
        };
        let wait = patience.wait(self.failures, chance());
        if reins.wait(asked.map_or(wait, |asked| asked.max(wait))) {
            Ok(())
        } else {
            Err(Fault::Cancelled)
        }
    }
}

/// See the module.
pub(super) struct Fetch<'o> {
    object: &'o Object,
    reins: Arc<Reins>,
    at: u64,
    end: u64,
    body: Option<Connection>,
    trying: Trying,
}

impl<'o> Fetch<'o> {
    pub(super) fn new(object: &'o Object, range: Range<u64>, reins: Arc<Reins>) -> Self {
        reins.set_at(range.start);
        let (at, end) = (range.start, range.end);
        Self { object, reins, at, end, body: None, trying: Trying::default() }
    }

    /// One that fails at its first failure.
    pub(super) fn once(object: &'o Object, range: Range<u64>, reins: Arc<Reins>) -> Self {
        let trying = Trying { once: true, ..Trying::default() };
        Self { trying, ..Self::new(object, range, reins) }
    }

    /// The next byte that it wants.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Fills this with the next bytes.
    pub(super) fn read(&mut self, mut into: &mut [u8]) -> Result<(), Fault> {
        while !into.is_empty() {
            match self.some(into) {
                Ok(got) => {
                    into = &mut into[got..];
                    self.at += got as u64;
                    self.reins.set_at(self.at);
                    self.object.wire.counts.bytes.fetch_add(got as u64, Ordering::Relaxed);
                    self.trying.failures = 0;
                }
                Err(fault) => {
                    self.body = None;
                    self.reins.release();
                    self.trying.after(fault, &self.object.wire, &self.reins)?;
                }
            }
        }
        Ok(())
    }

    /// Reads and forgets what lies before an offset.
    pub(super) fn skip_to(&mut self, offset: u64) -> Result<(), Fault> {
        let mut waste = [0; 16 << 10];
        while self.at < offset {
            let step = usize::try_from(offset - self.at).unwrap_or(usize::MAX).min(waste.len());
            self.read(&mut waste[..step])?;
        }
        Ok(())
    }

    fn some(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        let mut body = match self.body.take() {
            Some(body) => body,
            None => self.object.ask(&(self.at..self.end), &self.reins)?,
        };
        let got = body.read(into)?;
        if body.left() > 0 {
            self.body = Some(body);
        } else {
            self.reins.release();
            self.object.wire.keep(body);
        }
        Ok(got)
    }
}

impl Bytes for Fetch<'_> {
    fn next(&mut self, into: &mut [u8]) -> Result<(), Unread> {
        self.read(into).map_err(Unread::Remote)
    }
}
