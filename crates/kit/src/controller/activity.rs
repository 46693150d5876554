//! Counts whatever happens in a runtime, so that somebody can wait until nothing does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Goes up with every change of a cache and every step of a queue. Cheap to clone.
///
/// Who waits is woken in the order in which they began to wait: a channel of the last value wakes its
/// receivers in a random order, and no two runs would be the same run.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    changed: Notify,
}

impl Activity {
    pub(super) fn bump(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }

    pub(super) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// Waits until the count is another than `seen`.
    pub(super) async fn changes_from(&self, seen: u64) {
        let mut changed = std::pin::pin!(self.0.changed.notified());
        loop {
            // From here on a change is not missed.
            changed.as_mut().enable();
            if self.count() != seen {
                return;
            }
            changed.as_mut().await;
            changed.set(self.0.changed.notified());
        }
    }
}
