//! A chunk of an object in a file: whole, or as much of it as has come yet.
//!
//! Who wants bytes that are still to come waits for them, and reads on while the rest comes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::serve::refusal::Refusal;

/// See the module.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) file: File,
    len: u64,
    state: Mutex<State>,
    grown: Condvar,
}

#[derive(Debug)]
struct State {
    /// Bytes from the first that are there.
    ready: u64,
    failed: Option<Refusal>,
}

impl Chunk {
    /// One that is to come.
    pub(super) fn empty(file: File, len: u64) -> Self {
        let state = Mutex::new(State { ready: 0, failed: None });
        Self { file, len, state, grown: Condvar::new() }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// One that is there.
    pub(super) fn whole(file: File, len: u64) -> Self {
        let state = Mutex::new(State { ready: len, failed: None });
        Self { file, len, state, grown: Condvar::new() }
    }

    /// Adds the next bytes.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // Only who fills it writes, so that what is ready cannot have changed meanwhile.
        let at = self.lock().ready;
        self.file.write_all_at(bytes, at)?;
        self.lock().ready = at + bytes.len() as u64;
        self.grown.notify_all();
        Ok(())
    }

    /// Says that no more comes.
    pub(super) fn fail(&self, why: Refusal) {
        self.lock().failed = Some(why);
        self.grown.notify_all();
    }

    /// Waits until there is more than so many bytes: how many there are.
    pub(crate) fn beyond(&self, at: u64) -> Result<u64, Refusal> {
        let mut state = self.lock();
        loop {
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            if state.ready > at {
                return Ok(state.ready);
            }
            state = self.grown.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
