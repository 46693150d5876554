//! Counts whatever happens in a runtime, so that somebody can wait until nothing does.

use std::sync::Arc;

use tokio::sync::watch;

/// Goes up with every change of a cache and every step of a queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<watch::Sender<u64>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Activity {
    pub(super) fn bump(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the count is another than `seen`.
    pub(super) async fn changes_from(&self, seen: u64) {
        let mut receiver = self.0.subscribe();
        // The sender is `self`, so there is no end to wait for.
        let _ = receiver.wait_for(|count| *count != seen).await;
    }
}
