//! The leases, when they run out, and which keys hang on them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{Lease, LeaseId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    table: BTreeMap<LeaseId, Lease>,
    by_deadline: BTreeSet<(u64, LeaseId)>,
    attached: BTreeSet<(LeaseId, Bytes)>,
    /// The last id that the store chose.
    pub(crate) last: u64,
}

impl Leases {
    pub(crate) fn get(&self, id: LeaseId) -> Option<Lease> {
        self.table.get(&id).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, Lease)> {
        self.table.iter().map(|(id, lease)| (*id, *lease))
    }

    pub(crate) fn set(&mut self, id: LeaseId, lease: Option<Lease>) {
        let old = match lease {
            Some(lease) => {
                self.by_deadline.insert((lease.deadline, id));
                self.table.insert(id, lease)
            }
            None => self.table.remove(&id),
        };
        if let Some(old) = old
            && Some(old.deadline) != lease.map(|lease| lease.deadline)
        {
            self.by_deadline.remove(&(old.deadline, id));
        }
    }

    pub(crate) fn next_expiry(&self) -> Option<u64> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// The leases that have run out by `now`.
    pub(crate) fn until(&self, now: u64) -> impl Iterator<Item = LeaseId> {
        self.by_deadline.iter().take_while(move |(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    pub(crate) fn attach(&mut self, id: LeaseId, key: Bytes) {
        self.attached.insert((id, key));
    }

    pub(crate) fn detach(&mut self, id: LeaseId, key: &Bytes) {
        self.attached.remove(&(id, key.clone()));
    }

    /// The keys on a lease, in order.
    pub(crate) fn keys(&self, id: LeaseId) -> impl Iterator<Item = &Bytes> {
        self.attached
            .range((id, Bytes::new())..)
            .take_while(move |(of, _)| *of == id)
            .map(|(_, key)| key)
    }
}
