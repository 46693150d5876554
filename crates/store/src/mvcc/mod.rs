//! The core that every engine shares: an index over history, the log of changes, the leases.
//!
//! Pure and synchronous: it takes no lock, no clock and no disk. An engine stages writes in an
//! [`Overlay`], makes the resulting [`Changes`] as durable as it promises, then applies them;
//! nothing that was not applied is visible here.

mod aliases;
mod history;
mod lease;
mod overlay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

pub(crate) use self::aliases::Aliases;
pub(crate) use self::history::{History, Position, Version};
pub(crate) use self::lease::Leases;
pub(crate) use self::overlay::{Change, Changes, Overlay};
use crate::{Alias, Entry, Error, Event, KeyRange, Listing, Revision};

#[derive(Debug)]
pub(crate) struct Mvcc {
    revision: Revision,
    compacted: Revision,
    keys: BTreeMap<Bytes, History>,
    /// Every change after `compacted`, in order.
    log: VecDeque<Arc<Event>>,
    pub(crate) leases: Leases,
    pub(crate) aliases: Aliases,
}

impl Default for Mvcc {
    fn default() -> Self {
        Self::at(Revision::FIRST, Revision(0))
    }
}

impl Mvcc {
    /// Empty, standing at a revision.
    pub(crate) fn at(revision: Revision, compacted: Revision) -> Self {
        Self {
            revision,
            compacted,
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            leases: Leases::default(),
            aliases: Aliases::default(),
        }
    }

    pub(crate) const fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) const fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(crate) fn get(
        &self,
        key: &[u8],
        at: Option<Revision>,
    ) -> Result<Option<Arc<Entry>>, Error> {
        let at = self.readable(at)?;
        Ok(self.keys.get(key).and_then(|history| history.at(at)).cloned())
    }

    pub(crate) fn list(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<Listing, Error> {
        let revision = self.readable(at)?;
        let mut found = self
            .keys
            .range::<[u8], _>(range.bounds())
            .filter_map(|(_, history)| history.at(revision));
        let entries: Vec<_> = match limit {
            Some(limit) => found.by_ref().take(limit).cloned().collect(),
            None => found.by_ref().cloned().collect(),
        };
        let rest = found.count();
        Ok(Listing { revision, more: rest > 0, count: entries.len() + rest, entries })
    }

    /// Names every entry from now on.
    pub(crate) fn alias(&mut self, alias: Alias) {
        let entries = self.keys.values().filter_map(History::latest);
        self.aliases = Aliases::of(alias, entries);
    }

    pub(crate) fn list_aliased(&self, range: &KeyRange) -> Listing {
        let keys = self.aliases.keys(range);
        let entries: Vec<_> = keys.filter_map(|key| self.latest(key)).cloned().collect();
        Listing { revision: self.revision, more: false, count: entries.len(), entries }
    }

    fn readable(&self, at: Option<Revision>) -> Result<Revision, Error> {
        let asked = at.unwrap_or(self.revision);
        if asked > self.revision {
            return Err(Error::Future { asked, current: self.revision });
        }
        if asked < self.compacted {
            return Err(Error::Compacted { asked, compacted: self.compacted });
        }
        Ok(asked)
    }

    pub(crate) fn latest(&self, key: &[u8]) -> Option<&Arc<Entry>> {
        self.keys.get(key)?.latest()
    }

    pub(crate) fn latest_in(&self, range: &KeyRange) -> impl Iterator<Item = &Arc<Entry>> {
        self.keys.range::<[u8], _>(range.bounds()).filter_map(|(_, history)| history.latest())
    }

    /// Whether a watch can start at a revision.
    pub(crate) fn watchable(&self, from: Revision) -> Result<(), Error> {
        if from <= self.compacted && self.compacted > Revision(0) {
            return Err(Error::Compacted { asked: from, compacted: self.compacted });
        }
        Ok(())
    }

    /// The changes that are still in the log, from a revision on.
    pub(crate) fn changes_from(
        &self,
        from: Revision,
    ) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let first = self.log.partition_point(|event| event.revision() < from);
        self.log.range(first..)
    }

    pub(crate) fn apply(&mut self, changes: Changes) {
        for change in changes.events {
            self.record(change);
        }
        self.revision = changes.revision;
        for (id, lease) in changes.leases {
            self.leases.set(id, lease);
        }
        self.leases.last = changes.last_lease;
    }

    fn record(&mut self, change: Change) {
        let Change { sub, event } = change;
        let at = Position { revision: event.revision(), sub };
        self.relate(event.previous(), event.entry(), event.key());
        self.aliases.replace(event.previous(), event.entry());
        self.insert(event.key(), Version { at, entry: event.entry().cloned() });
        self.log.push_back(event);
    }

    /// Takes in a version that was read back. Positions must ascend.
    pub(crate) fn load(&mut self, key: Bytes, at: Position, entry: Option<Arc<Entry>>) {
        let previous = self.latest(&key).cloned();
        self.relate(previous.as_ref(), entry.as_ref(), &key);
        self.insert(&key, Version { at, entry: entry.clone() });
        if at.revision > self.compacted {
            let event = match (entry, previous) {
                (Some(entry), previous) => Event::Put { entry, previous },
                (None, Some(previous)) => Event::Delete { key, revision: at.revision, previous },
                // A deletion of nothing says nothing.
                (None, None) => return,
            };
            self.log.push_back(Arc::new(event));
        }
    }

    fn insert(&mut self, key: &Bytes, version: Version) {
        match self.keys.get_mut(key) {
            Some(history) => history.push(version),
            None => drop(self.keys.insert(key.clone(), History::new(version))),
        }
    }

    fn relate(&mut self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>, key: &Bytes) {
        let (old, new) = (old.and_then(|entry| entry.lease), new.and_then(|entry| entry.lease));
        if old == new {
            return;
        }
        if let Some(lease) = old {
            self.leases.detach(lease, key);
        }
        if let Some(lease) = new {
            self.leases.attach(lease, key.clone());
        }
    }

    /// Whether history can be compacted up to a revision.
    pub(crate) const fn compactable(&self, to: Revision) -> Result<(), Error> {
        if to.0 <= self.compacted.0 {
            return Err(Error::Compacted { asked: to, compacted: self.compacted });
        }
        if to.0 > self.revision.0 {
            return Err(Error::Future { asked: to, current: self.revision });
        }
        Ok(())
    }

    /// Forgets what no read at `to` or later can see, and says what that was.
    ///
    /// Costs the changes since the last compaction, not the keys.
    pub(crate) fn compact(&mut self, to: Revision) -> Vec<Position> {
        let passed = self.log.partition_point(|event| event.revision() <= to);
        let changed: BTreeSet<Bytes> =
            self.log.drain(..passed).map(|event| event.key().clone()).collect();
        self.log.shrink_to(2 * self.log.len());
        self.compacted = self.compacted.max(to);
        let mut forgotten = Vec::new();
        for key in changed {
            if let Some(history) = self.keys.get_mut(&key) {
                forgotten.extend(history.unseen_from(to).map(|version| version.at));
                if !history.compact(to) {
                    self.keys.remove(&key);
                }
            }
        }
        forgotten
    }

    /// Forgets what was loaded although no read could see it, and says what that was.
    pub(crate) fn sweep(&mut self) -> Vec<Position> {
        let compacted = self.compacted;
        let mut forgotten = Vec::new();
        // Collecting in order packs the map's nodes, which growing it left half empty.
        let keys = std::mem::take(&mut self.keys).into_iter();
        self.keys = keys
            .filter_map(|(key, mut history)| {
                forgotten.extend(history.unseen_from(compacted).map(|version| version.at));
                history.compact(compacted).then_some((key, history))
            })
            .collect();
        forgotten
    }

    /// Moves on to a later revision at which nothing happened.
    pub(crate) fn skip_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Every version of every key, in the order in which they were written.
    pub(crate) fn versions(&self) -> Vec<(Bytes, Version)> {
        let mut all: Vec<_> = self
            .keys
            .iter()
            .flat_map(|(key, history)| {
                history.versions().map(|version| (key.clone(), version.clone()))
            })
            .collect();
        all.sort_unstable_by_key(|(_, version)| version.at);
        all
    }
}
