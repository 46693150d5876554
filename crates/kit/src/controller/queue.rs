//! The work queue: which key is reconciled next, and when.
//!
//! Guarantees: a key is never taken twice at once; a key that is added while it is worked on is taken
//! again afterwards, once; a delayed key comes at its time and not before; keys come out in the order
//! in which they became ready. Pure: time is an argument, so that a test needs no clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Why a key waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Its plan named a deadline.
    Wake,
    /// Its last reconcile failed.
    Retry,
}

/// What became of a reconcile, as the queue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// Success; to be looked at again at this time, or when something changes.
    Settled(Option<Instant>),
    /// A failure that only a change can mend.
    AwaitChange,
    /// A failure; to be tried again at this time.
    Retry(Instant),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Ready,
    Running,
    /// Added again while it is worked on.
    Dirty,
}

#[derive(Debug, Default)]
struct Entry {
    state: State,
    failures: u32,
    delayed: Option<(Slot, Waits)>,
}

/// A time, and a number that keeps keys of one time in order.
type Slot = (Instant, u64);

/// A key to work on now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken<K> {
    pub(super) key: K,
    /// How often in a row it failed before.
    pub(super) failures: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Queue<K> {
    entries: BTreeMap<K, Entry>,
    ready: VecDeque<K>,
    delayed: BTreeMap<Slot, K>,
    next: u64,
}

impl<K: Ord + Clone> Queue<K> {
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), ready: VecDeque::new(), delayed: BTreeMap::new(), next: 0 }
    }

    /// Something that concerns the key has changed. Says whether that makes new work.
    pub(super) fn add(&mut self, key: K) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.state {
            State::Idle => {
                entry.state = State::Ready;
                self.ready.push_back(key);
                true
            }
            State::Running => {
                entry.state = State::Dirty;
                true
            }
            State::Ready | State::Dirty => false,
        }
    }

    /// Makes the keys whose time has come ready; says how late each wake is.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<Duration> {
        let mut lags = Vec::new();
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let ((due, _), key) = first.remove_entry();
            let waits = self.entries.get_mut(&key).and_then(|entry| entry.delayed.take());
            if matches!(waits, Some((_, Waits::Wake))) {
                lags.push(now - due);
            }
            self.add(key);
        }
        lags
    }

    /// The next key to work on. What it waited for is forgotten: its reconcile says it anew.
    pub(super) fn take(&mut self) -> Option<Taken<K>> {
        let key = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&key)?;
        entry.state = State::Running;
        if let Some((slot, _)) = entry.delayed.take() {
            self.delayed.remove(&slot);
        }
        Some(Taken { key, failures: entry.failures })
    }

    /// A key that was taken is no longer worked on.
    pub(super) fn done(&mut self, key: &K, done: Done) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let dirty = entry.state == State::Dirty;
        entry.state = State::Idle;
        let delay = match done {
            Done::Settled(wake) => {
                entry.failures = 0;
                wake.map(|at| (at, Waits::Wake))
            }
            Done::AwaitChange => {
                entry.failures = entry.failures.saturating_add(1);
                None
            }
            Done::Retry(at) => {
                entry.failures = entry.failures.saturating_add(1);
                Some((at, Waits::Retry))
            }
        };
        if dirty {
            entry.state = State::Ready;
            self.ready.push_back(key.clone());
        } else if let Some((at, waits)) = delay {
            let slot = (at, self.next);
            self.next += 1;
            entry.delayed = Some((slot, waits));
            self.delayed.insert(slot, key.clone());
        } else {
            // Failures of a key that awaits a change are forgotten: the change makes it another.
            self.entries.remove(key);
        }
    }

    /// When the next delayed key becomes ready.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    /// How many keys are ready to be taken.
    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Nothing is ready, worked on, or waiting to be tried again; wakes may lie ahead.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty()
            && self.entries.values().all(|entry| {
                entry.state == State::Idle && !matches!(entry.delayed, Some((_, Waits::Retry)))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SECOND: Duration = Duration::from_secs(1);

    fn take(queue: &mut Queue<u8>) -> Option<u8> {
        queue.take().map(|taken| taken.key)
    }

    #[test]
    fn a_key_is_queued_once_and_in_order() {
        let mut queue = Queue::new();
        assert_eq!([2, 1, 2].map(|key| queue.add(key)), [true, true, false]);
        assert_eq!(queue.depth(), 2);
        assert_eq!(
            [take(&mut queue), take(&mut queue), take(&mut queue)],
            [Some(2), Some(1), None]
        );
    }

    #[test]
    fn a_change_during_the_work_brings_the_key_back_once() {
        let mut queue = Queue::new();
        queue.add(1);
        assert_eq!(take(&mut queue), Some(1));
        queue.add(1);
        queue.add(1);
        assert_eq!(take(&mut queue), None, "never twice at once");
        queue.done(&1, Done::Settled(None));
        assert_eq!(take(&mut queue), Some(1));
        queue.done(&1, Done::Settled(None));
        assert_eq!(take(&mut queue), None);
        assert!(queue.entries.is_empty(), "nothing is kept of a settled key");
    }

    #[test]
    fn a_wake_comes_at_its_time_and_leaves_the_queue_idle() {
        let now = Instant::now();
        let mut queue = Queue::new();
        queue.add(1);
        take(&mut queue);
        queue.done(&1, Done::Settled(Some(now + SECOND)));
        assert!(queue.is_idle());
        assert_eq!(queue.next_deadline(), Some(now + SECOND));
        assert!(queue.advance(now).is_empty());
        assert_eq!(take(&mut queue), None);
        assert_eq!(queue.advance(now + SECOND * 3)[..], [SECOND * 2], "two seconds late");
        assert_eq!(take(&mut queue), Some(1));
    }

    #[test]
    fn a_change_cancels_the_wake_and_a_retry_keeps_the_queue_busy() {
        let now = Instant::now();
        let mut queue = Queue::new();
        queue.add(1);
        take(&mut queue);
        queue.done(&1, Done::Retry(now + SECOND));
        assert!(!queue.is_idle());
        queue.add(1);
        assert_eq!(queue.take(), Some(Taken { key: 1, failures: 1 }));
        assert_eq!(queue.next_deadline(), None);
        queue.done(&1, Done::Retry(now + SECOND));
        queue.advance(now + SECOND);
        assert_eq!(queue.take(), Some(Taken { key: 1, failures: 2 }));
        queue.done(&1, Done::Settled(None));
        queue.add(1);
        assert_eq!(queue.take(), Some(Taken { key: 1, failures: 0 }));
    }

    proptest! {
        /// Whatever happens, no key is in two hands, and none that was added is lost.
        #[test]
        fn no_key_is_lost_or_doubled(steps in prop::collection::vec((0..4_u8, 0..5_u8), 0..200)) {
            let mut now = Instant::now();
            let mut queue = Queue::new();
            let mut hands = BTreeSet::new();
            let mut owed = BTreeSet::new();
            for (what, key) in steps {
                match what {
                    0 => {
                        queue.add(key);
                        owed.insert(key);
                    }
                    1 => {
                        queue.advance(now);
                        if let Some(key) = take(&mut queue) {
                            prop_assert!(hands.insert(key));
                            owed.remove(&key);
                        }
                    }
                    2 if hands.remove(&key) => queue.done(&key, Done::Settled(None)),
                    3 if hands.remove(&key) => {
                        queue.done(&key, Done::Retry(now + SECOND));
                        owed.insert(key);
                    }
                    _ => now += SECOND,
                }
            }
            for key in std::mem::take(&mut hands) {
                queue.done(&key, Done::Settled(None));
            }
            queue.advance(now + SECOND * 1000);
            while let Some(key) = take(&mut queue) {
                owed.remove(&key);
                queue.done(&key, Done::Settled(None));
            }
            prop_assert!(owed.is_empty(), "lost: {owed:?}");
            prop_assert!(queue.is_idle());
        }
    }
}
