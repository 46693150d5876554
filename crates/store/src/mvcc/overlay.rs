//! Writes that are decided but not yet made: a batch of transactions evaluated in order, each
//! seeing those before it, over a core that stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Mvcc;
use crate::{
    Entry, Error, Event, KeyRange, Lease, LeaseId, Limits, Op, OpResult, Revision, Txn, TxnOutcome,
};

/// What a batch comes to.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<Change>,
    /// The leases that changed; `None` for those that ended.
    pub(crate) leases: BTreeMap<LeaseId, Option<Lease>>,
    pub(crate) last_lease: u64,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.leases.is_empty()
    }
}

/// An event and its place among those of its revision.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) sub: u32,
    pub(crate) event: Arc<Event>,
}

/// A batch in the making. All calls must pass the same core.
#[derive(Debug)]
pub(crate) struct Overlay {
    changes: Changes,
    /// What the batch left in each key that it wrote.
    latest: BTreeMap<Bytes, Option<Arc<Entry>>>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn new(base: &Mvcc) -> Self {
        let changes = Changes {
            revision: base.revision(),
            events: Vec::new(),
            leases: BTreeMap::new(),
            last_lease: base.leases.last,
        };
        Self { changes, latest: BTreeMap::new(), bytes: 0 }
    }

    pub(crate) fn finish(self) -> Changes {
        self.changes
    }

    /// Roughly how many bytes the batch writes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn commit(
        &mut self,
        base: &Mvcc,
        txn: Txn,
        limits: &Limits,
    ) -> Result<TxnOutcome, Error> {
        txn.validate(limits)?;
        let succeeded = txn.conditions.iter().all(|condition| {
            let entry = self.latest(base, &condition.key);
            condition.test.holds(entry.map(Arc::as_ref))
        });
        let branch = if succeeded { txn.then } else { txn.otherwise };
        for op in &branch {
            if let Op::Put { lease: Some(lease), .. } = op {
                self.lease(base, *lease)?;
            }
        }
        // From here on nothing fails, so no transaction is ever half staged.
        let mut writer = Writer::new(self.changes.revision.next());
        let results = branch.into_iter().map(|op| self.step(base, op, &mut writer)).collect();
        self.close(&writer);
        Ok(TxnOutcome { succeeded, revision: self.changes.revision, results })
    }

    fn step(&mut self, base: &Mvcc, op: Op, writer: &mut Writer) -> OpResult {
        match op {
            Op::Put { key, value, lease } => {
                let previous = self.latest(base, &key).cloned();
                let entry = Arc::new(Entry {
                    created: previous.as_ref().map_or(writer.revision, |entry| entry.created),
                    version: previous.as_ref().map_or(1, |entry| entry.version.saturating_add(1)),
                    modified: writer.revision,
                    key,
                    value,
                    lease,
                });
                let event = Event::Put { entry: entry.clone(), previous: previous.clone() };
                self.write(writer, event);
                OpResult::Put { entry, previous }
            }
            Op::Delete(range) => {
                let found = self.latest_in(base, &range);
                for previous in &found {
                    self.delete(writer, previous.clone());
                }
                OpResult::Delete(found)
            }
            Op::Get(range) => OpResult::Get(self.latest_in(base, &range)),
        }
    }

    fn delete(&mut self, writer: &mut Writer, previous: Arc<Entry>) {
        let (key, revision) = (previous.key.clone(), writer.revision);
        self.write(writer, Event::Delete { key, revision, previous });
    }

    fn write(&mut self, writer: &mut Writer, event: Event) {
        let entry = event.entry().cloned();
        self.bytes += event.key().len() + entry.as_ref().map_or(0, |entry| entry.value.len());
        self.latest.insert(event.key().clone(), entry);
        self.changes.events.push(Change { sub: writer.written, event: Arc::new(event) });
        writer.written += 1;
    }

    /// Ends a revision, which there was only if something was written.
    const fn close(&mut self, writer: &Writer) {
        if writer.written > 0 {
            self.changes.revision = writer.revision;
        }
    }

    fn latest<'a>(&'a self, base: &'a Mvcc, key: &Bytes) -> Option<&'a Arc<Entry>> {
        match self.latest.get(key) {
            Some(staged) => staged.as_ref(),
            None => base.latest(key),
        }
    }

    fn latest_in(&self, base: &Mvcc, range: &KeyRange) -> Vec<Arc<Entry>> {
        let mut found: Vec<_> = base
            .latest_in(range)
            .filter(|entry| !self.latest.contains_key(&entry.key))
            .cloned()
            .collect();
        let settled = found.len();
        let staged = self.latest.range::<[u8], _>(range.bounds());
        found.extend(staged.filter_map(|(_, entry)| entry.clone()));
        if found.len() > settled {
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        }
        found
    }

    fn lease(&self, base: &Mvcc, id: LeaseId) -> Result<Lease, Error> {
        let found = match self.changes.leases.get(&id) {
            Some(staged) => *staged,
            None => base.leases.get(id),
        };
        found.ok_or(Error::LeaseNotFound { lease: id })
    }

    pub(crate) fn grant(
        &mut self,
        base: &Mvcc,
        id: Option<LeaseId>,
        ttl: u64,
        now: u64,
    ) -> Result<LeaseId, Error> {
        let id = match id {
            Some(id) if self.lease(base, id).is_ok() => {
                return Err(Error::LeaseExists { lease: id });
            }
            Some(id) => id,
            None => {
                let mut next = self.changes.last_lease;
                loop {
                    next = next.wrapping_add(1);
                    if self.lease(base, LeaseId(next)).is_err() {
                        break;
                    }
                }
                self.changes.last_lease = next;
                LeaseId(next)
            }
        };
        let lease = Lease { ttl, deadline: now.saturating_add(ttl) };
        self.changes.leases.insert(id, Some(lease));
        Ok(id)
    }

    pub(crate) fn keep_alive(&mut self, base: &Mvcc, id: LeaseId, now: u64) -> Result<u64, Error> {
        let ttl = self.lease(base, id)?.ttl;
        let deadline = now.saturating_add(ttl);
        self.changes.leases.insert(id, Some(Lease { ttl, deadline }));
        Ok(deadline)
    }

    pub(crate) fn revoke(&mut self, base: &Mvcc, id: LeaseId) -> Result<Revision, Error> {
        self.lease(base, id)?;
        let on_it = |entry: &&Arc<Entry>| entry.lease == Some(id);
        let staged = self.latest.values().flatten().filter(on_it).cloned();
        let settled = base.leases.keys(id).filter(|key| !self.latest.contains_key(*key));
        let mut entries: Vec<_> =
            settled.filter_map(|key| base.latest(key)).cloned().chain(staged).collect();
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut writer = Writer::new(self.changes.revision.next());
        for entry in entries {
            self.delete(&mut writer, entry);
        }
        self.close(&writer);
        self.changes.leases.insert(id, None);
        Ok(self.changes.revision)
    }

    pub(crate) fn expire(&mut self, base: &Mvcc, now: u64) -> Result<Vec<LeaseId>, Error> {
        let settled = base.leases.until(now).filter(|id| !self.changes.leases.contains_key(id));
        let staged = self.changes.leases.iter().filter_map(|(id, lease)| {
            lease.is_some_and(|lease| lease.deadline <= now).then_some(*id)
        });
        let mut ended: Vec<_> = settled.chain(staged).collect();
        ended.sort_unstable();
        for id in &ended {
            self.revoke(base, *id)?;
        }
        Ok(ended)
    }
}

/// The revision being written.
struct Writer {
    revision: Revision,
    written: u32,
}

impl Writer {
    const fn new(revision: Revision) -> Self {
        Self { revision, written: 0 }
    }
}
