//! A revisioned key-value store with watch, over bytes.
//!
//! The semantics are etcd's: one revision counter for the whole store, every write at its own
//! revision, reads as of any revision that was not compacted, watches that deliver every change
//! of a range in order, without gap or duplicate, from any such revision. Two engines share one
//! synchronous core: [`MemoryStore`], which spawns nothing, owns no thread and reads no clock, and
//! [`DiskStore`], which makes a write durable before anyone sees it.
//!
//! One process has one store. It does not replicate, authenticate or decide when to compact.

mod api;
mod crc;
mod disk;
mod engine;
mod entry;
mod error;
mod memory;
mod mvcc;
mod range;
mod record;
mod snapshot;
mod txn;
mod watch;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use api::{Lease, Listing, Store};
pub use disk::{DiskOptions, DiskStore, Durability};
pub use entry::{Alias, Entry, Event, LeaseId, Revision};
pub use error::Error;
pub use memory::MemoryStore;
pub use range::KeyRange;
pub use snapshot::{RestoreOptions, Restored, Snapshot, restore};
pub use txn::{Compare, Condition, Limits, Op, OpResult, Test, Txn, TxnOutcome};
pub use watch::{Watch, WatchBatch};
