//! What every engine offers.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Alias, Entry, Error, KeyRange, LeaseId, Revision, Snapshot, Txn, TxnOutcome, Watch};

/// A revisioned key-value store with watch.
///
/// Reads never wait for a disk. A write is visible to readers and watchers from when it is
/// durable, as the engine means it, and before its future resolves. It begins when its future is
/// first polled; if the future is dropped after that, it may still be made. Time is always an
/// argument, in milliseconds of whatever clock the caller keeps to.
pub trait Store: Send + Sync + 'static {
    /// The revision of the last write.
    fn revision(&self) -> Revision;

    /// Up to where history is gone: reads work from this revision on, watches after it.
    fn compacted(&self) -> Revision;

    /// The key, now or as of a revision.
    fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Arc<Entry>>, Error>;

    /// The keys of a range in order, now or as of a revision, at most `limit` of them. To go on
    /// after a partial list, list [`KeyRange::after`] its last key at its revision.
    fn list(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<Listing, Error>;

    /// Does a transaction.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, Error>>;

    /// Every change in a range from a revision on; without one, from now on.
    fn watch(&self, range: KeyRange, from: Option<Revision>) -> Result<Watch, Error>;

    /// Has entries be found under other keys too, from now on and among what is there: an index that
    /// is kept with every write, and is never written anywhere. Said once, before others use the store.
    /// Of two entries with one alias the later one has it.
    fn alias(&self, alias: Alias);

    /// The entries whose aliases lie in a range, in order of these, now.
    fn list_aliased(&self, range: &KeyRange) -> Listing;

    /// Every change, from a revision on, to an entry that has or had an alias in a range.
    fn watch_aliased(&self, range: KeyRange, from: Option<Revision>) -> Result<Watch, Error>;

    /// Forgets history: what no read at `to` or later can see.
    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), Error>>;

    /// Makes a lease that runs out `ttl` milliseconds after `now`. Without an id the store
    /// chooses one that it never chose before.
    fn grant(
        &self,
        id: Option<LeaseId>,
        ttl: u64,
        now: u64,
    ) -> BoxFuture<'_, Result<LeaseId, Error>>;

    /// Has a lease run out its time to live after `now`, and says when that is.
    fn keep_alive(&self, id: LeaseId, now: u64) -> BoxFuture<'_, Result<u64, Error>>;

    /// Ends a lease and deletes its keys, in one revision.
    fn revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>>;

    /// Revokes every lease that has run out, and names them.
    fn expire(&self, now: u64) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>>;

    /// When the next lease runs out.
    fn next_expiry(&self) -> Option<u64>;

    /// A lease, if it is there.
    fn lease(&self, id: LeaseId) -> Option<Lease>;

    /// All that the store holds as of now, to be written elsewhere at leisure.
    fn snapshot(&self) -> Snapshot;
}

/// Part of a range, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// As of when.
    pub revision: Revision,
    /// The entries, in key order.
    pub entries: Vec<Arc<Entry>>,
    /// Whether the range holds more than these.
    pub more: bool,
    /// How many the range holds.
    pub count: usize,
}

/// A time to live that keys can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Milliseconds that it lives after each renewal.
    pub ttl: u64,
    /// When it runs out.
    pub deadline: u64,
}
