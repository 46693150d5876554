//! Watches: every change of a range in order, once, without gap, whole revisions at a time.
//!
//! Watches of one range, of keys or of aliases, share a feed, which holds pointers to the changes of that range since the
//! earliest revision that one of them asked for. A write looks up the feeds that it touches and
//! wakes their watches only. A watch is a position in its feed, so a slow one holds no memory of
//! its own: once compaction takes what it has not read, it gets [`Error::Compacted`].

mod ranges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::sync::Notify;

use self::ranges::Ranges;
use crate::mvcc::{Change, Changes, Mvcc};
use crate::{Entry, Error, Event, KeyRange, Revision};

/// A batch ends at the first whole revision after so many events.
const BATCH: usize = 512;

/// What a watch delivers at a time.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    /// Changes in order; those of one revision are never split between batches.
    pub events: Vec<Arc<Event>>,
    /// Every change of the range up to here has been delivered, with this batch.
    pub progress: Revision,
}

/// A watch on a range. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    feed: Arc<Feed>,
    /// The first revision that is not yet delivered.
    next: Revision,
}

impl Watch {
    /// Waits for changes. Dropping the future loses none.
    pub async fn next(&mut self) -> Result<WatchBatch, Error> {
        let feed = self.feed.clone();
        loop {
            let mut woken = std::pin::pin!(feed.wake.notified());
            woken.as_mut().enable();
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            woken.await;
        }
    }

    /// The changes that are there already, if any.
    pub fn try_next(&mut self) -> Result<Option<WatchBatch>, Error> {
        let visible = self.hub.visible();
        let feed = self.feed.log();
        if let Some(compacted) = feed.lost(self.next) {
            return Err(Error::Compacted { asked: self.next, compacted });
        }
        let first = feed.events.partition_point(|event| event.revision() < self.next);
        let mut events: Vec<Arc<Event>> = Vec::new();
        let mut progress = visible;
        for event in feed.events.range(first..) {
            let revision = event.revision();
            // What is not visible yet may not be there as a whole.
            if revision > visible {
                break;
            }
            if let Some(last) = events.last()
                && events.len() >= BATCH
                && last.revision() < revision
            {
                progress = last.revision();
                break;
            }
            events.push(event.clone());
        }
        drop(feed);
        if events.is_empty() {
            return if self.hub.closed.load(Ordering::Acquire) {
                Err(Error::Closed)
            } else {
                Ok(None)
            };
        }
        self.next = self.next.max(progress.next());
        Ok(Some(WatchBatch { events, progress }))
    }

    /// Every change of the range up to here has been delivered; a bookmark. It moves on with the
    /// store even while nothing happens in the range.
    #[must_use]
    pub fn progress(&self) -> Revision {
        let visible = self.hub.visible();
        let feed = self.feed.log();
        let first = feed.events.partition_point(|event| event.revision() < self.next);
        match feed.events.get(first) {
            _ if feed.lost(self.next).is_some() => self.next.previous(),
            Some(pending) if pending.revision() <= visible => pending.revision().previous(),
            _ => visible,
        }
    }

    /// The range.
    #[must_use]
    pub fn range(&self) -> &KeyRange {
        &self.feed.range
    }

    /// As a stream, which ends after its first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<WatchBatch, Error>> + Send {
        stream::try_unfold(self, async |mut watch| Ok(Some((watch.next().await?, watch))))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.leave(&self.feed);
    }
}

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Keys,
    Aliases,
}

/// The changes of one range, for all who watch it.
#[derive(Debug)]
struct Feed {
    space: Space,
    range: KeyRange,
    log: Mutex<FeedLog>,
    wake: Notify,
}

#[derive(Debug)]
struct FeedLog {
    watches: usize,
    /// Changes of the range after `since`, in order.
    events: VecDeque<Arc<Event>>,
    since: Revision,
    /// The last change that compaction took from it.
    trimmed: Option<Revision>,
}

impl FeedLog {
    /// Up to where changes are lost to whoever wants them from a revision on.
    fn lost(&self, from: Revision) -> Option<Revision> {
        self.trimmed.filter(|trimmed| *trimmed >= from)
    }
}

impl Feed {
    /// Whether a change belongs into it.
    fn takes(&self, core: &Mvcc, event: &Event) -> bool {
        match self.space {
            Space::Keys => self.range.contains(event.key()),
            Space::Aliases => names(core, event).any(|name| self.range.contains(&name)),
        }
    }

    fn log(&self) -> MutexGuard<'_, FeedLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The aliases before and after a change; each once.
fn names(core: &Mvcc, event: &Event) -> impl Iterator<Item = Bytes> {
    let name = |entry: Option<&Arc<Entry>>| entry.and_then(|entry| core.aliases.name(entry));
    let (before, after) = (name(event.previous()), name(event.entry()));
    let other = before.filter(|before| after.as_ref() != Some(before));
    after.into_iter().chain(other)
}

/// Where writes meet watches.
#[derive(Debug)]
pub(crate) struct Hub {
    feeds: Mutex<Feeds>,
    /// Up to where feeds are complete.
    visible: AtomicU64,
    closed: AtomicBool,
}

/// All feeds.
#[derive(Debug, Default)]
struct Feeds {
    keys: Ranges<Arc<Feed>>,
    aliases: Ranges<Arc<Feed>>,
}

impl Feeds {
    fn of(&mut self, space: Space) -> &mut Ranges<Arc<Feed>> {
        match space {
            Space::Keys => &mut self.keys,
            Space::Aliases => &mut self.aliases,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Feed>> {
        self.keys.values().chain(self.aliases.values())
    }
}

/// The feeds that a write touched; dropping it without a call leaves their watches asleep.
#[must_use]
#[derive(Default)]
pub(crate) struct Touched {
    keys: BTreeMap<KeyRange, Arc<Feed>>,
    aliases: BTreeMap<KeyRange, Arc<Feed>>,
}

impl Touched {
    /// Hands a change to a feed that it belongs into; once, though two aliases may lead there.
    fn take(&mut self, feed: &Arc<Feed>, event: &Arc<Event>) {
        let mut log = feed.log();
        if log.events.back().is_none_or(|last| !Arc::ptr_eq(last, event)) {
            log.events.push_back(event.clone());
        }
        let feeds = match feed.space {
            Space::Keys => &mut self.keys,
            Space::Aliases => &mut self.aliases,
        };
        feeds.entry(feed.range.clone()).or_insert_with(|| feed.clone());
    }

    pub(crate) fn wake(self) {
        for feed in self.keys.values().chain(self.aliases.values()) {
            feed.wake.notify_waiters();
        }
    }
}

impl Hub {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            feeds: Mutex::default(),
            visible: AtomicU64::new(revision.0),
            closed: AtomicBool::new(false),
        }
    }

    fn visible(&self) -> Revision {
        Revision(self.visible.load(Ordering::Acquire))
    }

    fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a watch. The core must not change meanwhile.
    pub(crate) fn watch(
        self: &Arc<Self>,
        core: &Mvcc,
        space: Space,
        range: KeyRange,
        from: Revision,
    ) -> Watch {
        let mut all = self.feeds();
        let feeds = all.of(space);
        let feed = feeds.get(&range).cloned().unwrap_or_else(|| {
            let log = FeedLog {
                watches: 0,
                events: VecDeque::new(),
                since: core.revision(),
                trimmed: None,
            };
            let (log, wake) = (Mutex::new(log), Notify::new());
            let feed = Arc::new(Feed { space, range: range.clone(), log, wake });
            feeds.insert(range, feed.clone());
            feed
        });
        let mut log = feed.log();
        log.watches += 1;
        if from <= log.since {
            let missing = core
                .changes_from(from)
                .rev()
                .filter(|event| event.revision() <= log.since && feed.takes(core, event));
            for event in missing.cloned().collect::<Vec<_>>() {
                log.events.push_front(event);
            }
            log.since = from.previous();
        }
        drop(log);
        drop(all);
        Watch { hub: self.clone(), feed, next: from }
    }

    fn leave(&self, feed: &Feed) {
        let mut feeds = self.feeds();
        let mut log = feed.log();
        log.watches -= 1;
        if log.watches == 0 {
            feeds.of(feed.space).remove(&feed.range);
        }
    }

    /// Hands changes to the feeds that they touch.
    pub(crate) fn publish(&self, core: &Mvcc, changes: &Changes) -> Touched {
        let mut touched = Touched::default();
        let mut feeds = self.feeds();
        for Change { event, .. } in &changes.events {
            feeds.keys.holding(event.key(), &mut |feed| touched.take(feed, event));
            for name in names(core, event) {
                feeds.aliases.holding(&name, &mut |feed| touched.take(feed, event));
            }
        }
        self.visible.store(changes.revision.0, Ordering::Release);
        touched
    }

    /// Forgets changes up to a revision.
    pub(crate) fn trim(&self, to: Revision) {
        for feed in self.feeds().all() {
            let mut log = feed.log();
            let passed = log.events.partition_point(|event| event.revision() <= to);
            let last = log.events.drain(..passed).next_back();
            log.trimmed = last.map(|event| event.revision()).or(log.trimmed);
            let kept = log.events.len();
            log.events.shrink_to(2 * kept);
        }
    }

    /// Ends every watch once it has delivered what there is.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for feed in self.feeds().all() {
            feed.wake.notify_waiters();
        }
    }
}
