//! The engine that keeps everything in memory: for tests and simulation.
//!
//! A write is made when its future is first polled, under a lock, and the future never waits. It
//! spawns nothing, owns no thread and reads no clock, so it fits a paused clock and one thread.

use futures::future::BoxFuture;

use crate::engine::{Engine, Shared, Step};
use crate::mvcc::{Mvcc, Overlay};
use crate::{Error, Limits, Revision};

/// A store that ends with the process.
#[derive(Debug)]
pub struct MemoryStore(Shared);

impl MemoryStore {
    /// An empty store with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// An empty store.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self(Shared::new(Mvcc::default(), limits))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for MemoryStore {
    fn shared(&self) -> &Shared {
        &self.0
    }

    fn write<T: Send + 'static>(&self, step: impl Step<T>) -> BoxFuture<'_, Result<T, Error>> {
        Box::pin(async move {
            let core = self.0.core_mut();
            let mut overlay = Overlay::new(&core);
            let done = step(&core, &mut overlay)?;
            self.0.apply(core, overlay.finish());
            Ok(done)
        })
    }

    fn forget(&self, to: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.0.core().compactable(to)?;
            self.0.compact(to);
            Ok(())
        })
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.0.close();
    }
}
