//! One lock for the quotas of each namespace, kept only while somebody uses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How many locks may lie about before those that nobody holds are dropped.
const KEPT: usize = 64;

/// The locks, by namespace. They are fair: whoever comes first is first.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<String, Arc<RwLock<()>>>>);

/// Holds a namespace's quotas until it is dropped.
#[derive(Debug)]
pub(super) enum Guard {
    /// Nobody changes them.
    Shared(#[expect(dead_code, reason = "held, not read")] OwnedRwLockReadGuard<()>),
    /// Nobody else looks at them.
    Alone(#[expect(dead_code, reason = "held, not read")] OwnedRwLockWriteGuard<()>),
}

impl Locks {
    fn of(&self, namespace: &str) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(namespace) {
            return Arc::clone(lock);
        }
        if locks.len() >= KEPT {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        let lock = Arc::default();
        locks.insert(namespace.to_owned(), Arc::clone(&lock));
        lock
    }

    /// For a write where there is no quota; none appears meanwhile.
    pub(super) async fn shared(&self, namespace: &str) -> Guard {
        Guard::Shared(self.of(namespace).read_owned().await)
    }

    /// For a write that charges or counts.
    pub(super) async fn alone(&self, namespace: &str) -> Guard {
        Guard::Alone(self.of(namespace).write_owned().await)
    }
}
