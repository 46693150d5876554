//! What the engines have in common: the core and its watches behind one lock, and [`Store`] in
//! terms of the one thing in which they differ, how a batch of changes is made to last.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::future::BoxFuture;

use crate::mvcc::{Changes, Mvcc, Overlay, Position};
use crate::watch::{Hub, Space};
use crate::{
    Alias, Entry, Error, KeyRange, Lease, LeaseId, Limits, Listing, Revision, Snapshot, Store, Txn,
    TxnOutcome, Watch,
};

/// The visible state of a store.
#[derive(Debug)]
pub(crate) struct Shared {
    core: RwLock<Mvcc>,
    hub: Arc<Hub>,
    limits: Limits,
}

impl Shared {
    pub(crate) fn new(core: Mvcc, limits: Limits) -> Self {
        let hub = Arc::new(Hub::new(core.revision()));
        Self { core: RwLock::new(core), hub, limits }
    }

    pub(crate) fn core(&self) -> RwLockReadGuard<'_, Mvcc> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn core_mut(&self) -> RwLockWriteGuard<'_, Mvcc> {
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes visible. The lock must have been held, or the caller the only writer, since
    /// they were evaluated.
    pub(crate) fn apply(&self, mut core: RwLockWriteGuard<'_, Mvcc>, changes: Changes) {
        let touched = self.hub.publish(&core, &changes);
        core.apply(changes);
        drop(core);
        touched.wake();
    }

    fn watch(&self, space: Space, range: KeyRange, from: Option<Revision>) -> Result<Watch, Error> {
        let core = self.core();
        let from = from.unwrap_or_else(|| core.revision().next());
        core.watchable(from)?;
        Ok(self.hub.watch(&core, space, range, from))
    }

    pub(crate) fn compact(&self, to: Revision) -> Vec<Position> {
        let forgotten = self.core_mut().compact(to);
        self.hub.trim(to);
        forgotten
    }

    pub(crate) fn close(&self) {
        self.hub.close();
    }
}

/// A step of a batch: reads the core and what the batch has staged, and stages more.
pub(crate) trait Step<T>:
    FnOnce(&Mvcc, &mut Overlay) -> Result<T, Error> + Send + 'static
{
}
impl<T, F: FnOnce(&Mvcc, &mut Overlay) -> Result<T, Error> + Send + 'static> Step<T> for F {}

/// How an engine writes.
pub(crate) trait Engine: Send + Sync + 'static {
    fn shared(&self) -> &Shared;

    /// Takes a step, and resolves once what it staged is durable and visible.
    fn write<T: Send + 'static>(&self, step: impl Step<T>) -> BoxFuture<'_, Result<T, Error>>;

    /// Forgets history.
    fn forget(&self, to: Revision) -> BoxFuture<'_, Result<(), Error>>;
}

impl<E: Engine> Store for E {
    fn revision(&self) -> Revision {
        self.shared().core().revision()
    }

    fn compacted(&self) -> Revision {
        self.shared().core().compacted()
    }

    fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Arc<Entry>>, Error> {
        self.shared().core().get(key, at)
    }

    fn list(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<Listing, Error> {
        self.shared().core().list(range, at, limit)
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, Error>> {
        let limits = self.shared().limits.clone();
        self.write(move |core, overlay| overlay.commit(core, txn, &limits))
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> Result<Watch, Error> {
        self.shared().watch(Space::Keys, range, from)
    }

    fn alias(&self, alias: Alias) {
        self.shared().core_mut().alias(alias);
    }

    fn list_aliased(&self, range: &KeyRange) -> Listing {
        self.shared().core().list_aliased(range)
    }

    fn watch_aliased(&self, range: KeyRange, from: Option<Revision>) -> Result<Watch, Error> {
        self.shared().watch(Space::Aliases, range, from)
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.forget(to)
    }

    fn grant(
        &self,
        id: Option<LeaseId>,
        ttl: u64,
        now: u64,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        self.write(move |core, overlay| overlay.grant(core, id, ttl, now))
    }

    fn keep_alive(&self, id: LeaseId, now: u64) -> BoxFuture<'_, Result<u64, Error>> {
        self.write(move |core, overlay| overlay.keep_alive(core, id, now))
    }

    fn revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        self.write(move |core, overlay| overlay.revoke(core, id))
    }

    fn expire(&self, now: u64) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        self.write(move |core, overlay| overlay.expire(core, now))
    }

    fn next_expiry(&self) -> Option<u64> {
        self.shared().core().leases.next_expiry()
    }

    fn lease(&self, id: LeaseId) -> Option<Lease> {
        self.shared().core().leases.get(id)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.shared().core())
    }
}
