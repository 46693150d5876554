//! What every engine owes its callers, as test cases that any engine can be put through.
//!
//! Run each of [`CASES`] on a new, empty store; a broken promise panics. The cases wait for
//! nothing but the store's own futures, so any executor does, with any clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

mod aliases;
mod compaction;
mod guarantees;
mod leases;
mod reads;
mod snapshots;
mod transactions;
mod watches;

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

pub use self::guarantees::{Observation, check_observation, check_truth};
use crate::{Entry, Event, KeyRange, LeaseId, Op, Revision, Store, Txn, TxnOutcome, Watch};

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    /// Checks it on a new, empty store.
    pub run: fn(Arc<dyn Store>) -> BoxFuture<'static, ()>,
}

/// Every promise.
pub const CASES: &[&[Case]] = &[
    reads::CASES,
    transactions::CASES,
    watches::CASES,
    aliases::CASES,
    guarantees::CASES,
    compaction::CASES,
    leases::CASES,
    snapshots::CASES,
];

/// Lists async functions as cases under their own names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[crate::conformance::Case] = &[$(crate::conformance::Case {
            name: stringify!($name),
            run: |store| Box::pin(async move { $name(&*store).await }),
        }),*];
    };
}
use cases;

async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    commit(store, Op::put(key.to_owned(), value.to_owned())).await.revision
}

async fn delete(store: &dyn Store, key: &str) -> Revision {
    commit(store, Op::delete(key.to_owned())).await.revision
}

async fn put_leased(store: &dyn Store, key: &str, lease: LeaseId) -> Revision {
    let (key, value) = (Bytes::from(key.to_owned()), Bytes::new());
    commit(store, Op::Put { key, value, lease: Some(lease) }).await.revision
}

async fn commit(store: &dyn Store, op: Op) -> TxnOutcome {
    store.commit(Txn::new().then(op)).await.unwrap()
}

/// A range's keys and values, as text.
fn texts(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| format!("{}={}", text(&entry.key), text(&entry.value))).collect()
}

fn listed(store: &dyn Store, prefix: &'static str, at: Option<Revision>) -> Vec<String> {
    texts(&store.list(&KeyRange::prefix(prefix), at, None).unwrap().entries)
}

/// An event as `revision key=value` or `revision key-`.
fn line(event: &Event) -> String {
    let (revision, key) = (event.revision(), text(event.key()));
    match event.entry() {
        Some(entry) => format!("{revision} {key}={}", text(&entry.value)),
        None => format!("{revision} {key}-"),
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// What a watch has to say right now.
fn pending(watch: &mut Watch) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(batch) = watch.next().now_or_never() {
        lines.extend(batch.unwrap().events.iter().map(|event| line(event)));
    }
    lines
}
