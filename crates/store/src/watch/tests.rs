//! What watches cost: whom a write wakes, and what a watch keeps in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt;

use super::*;
use crate::{MemoryStore, Op, Store, Txn};

fn put(store: &MemoryStore, key: &'static str) {
    store.commit(Txn::new().then(Op::put(key, "value"))).now_or_never().unwrap().unwrap();
}

fn compact(store: &MemoryStore) {
    store.compact(store.revision()).now_or_never().unwrap().unwrap();
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_write_wakes_only_those_who_watch_it() {
    let store = MemoryStore::new();
    let ranges = [
        (KeyRange::prefix("a/"), 1),
        (KeyRange::prefix("a/"), 1),
        (KeyRange::single("a/1"), 1),
        (KeyRange::single("a/2"), 0),
        (KeyRange::prefix("b/"), 0),
        (KeyRange::all(), 1),
    ];
    let mut watches: Vec<_> =
        ranges.iter().map(|(range, _)| store.watch(range.clone(), None).unwrap()).collect();
    let mut waiting: Vec<_> = watches
        .iter_mut()
        .map(|watch| {
            let woken = Arc::new(Woken::default());
            let mut next: Pin<Box<_>> = Box::pin(watch.next());
            let waker = Waker::from(woken.clone());
            assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            (next, waker, woken)
        })
        .collect();
    put(&store, "a/1");
    for ((next, waker, woken), (range, expected)) in waiting.iter_mut().zip(&ranges) {
        assert_eq!(woken.0.load(Ordering::Relaxed), *expected, "{range:?}");
        let polled = next.as_mut().poll(&mut Context::from_waker(waker));
        assert_eq!(matches!(polled, Poll::Ready(Ok(_))), *expected == 1, "{range:?}");
    }
}

#[test]
fn a_write_wakes_only_those_who_watch_its_alias() {
    let store = MemoryStore::new();
    store.alias(|entry| Some(entry.value.clone()));
    let mut watches: Vec<_> = (0..100)
        .map(|n: usize| {
            let name = KeyRange::single(n.to_string());
            store.watch_aliased(name, None).unwrap()
        })
        .collect();
    let put = |value: &'static str| {
        store.commit(Txn::new().then(Op::put("a", value))).now_or_never().unwrap().unwrap();
    };
    put("7");
    put("9");
    let told: Vec<_> = watches
        .iter_mut()
        .enumerate()
        .filter_map(|(n, watch)| Some((n, watch.try_next().unwrap()?.events.len())))
        .collect();
    assert_eq!(told, [(7, 2), (9, 1)], "who has it, and who had it");
    let hub = watches[0].hub.clone();
    drop(watches);
    assert_eq!(hub.feeds().all().count(), 0, "nobody is left to feed");
}

#[test]
fn watches_share_feeds_and_events() {
    let store = MemoryStore::new();
    let mut watches: Vec<_> =
        (0..100).map(|_| store.watch(KeyRange::prefix("a"), None).unwrap()).collect();
    let hub = watches[0].hub.clone();
    assert_eq!(hub.feeds().all().count(), 1);
    put(&store, "a");
    let batches: Vec<_> =
        watches.iter_mut().map(|watch| watch.try_next().unwrap().unwrap()).collect();
    assert!(batches.iter().all(|batch| Arc::ptr_eq(&batch.events[0], &batches[0].events[0])));
    drop(watches);
    assert_eq!(hub.feeds().all().count(), 0, "nobody is left to feed");
}

#[test]
fn a_slow_watch_keeps_no_history() {
    let store = MemoryStore::new();
    let slow = store.watch(KeyRange::all(), None).unwrap();
    let mut other = store.watch(KeyRange::all(), None).unwrap();
    put(&store, "a");
    let event = Arc::downgrade(&other.try_next().unwrap().unwrap().events[0]);
    assert!(event.upgrade().is_some());
    put(&store, "a");
    compact(&store);
    assert!(event.upgrade().is_none(), "the slow watch has not read it, and must not keep it");
    assert_eq!(slow.feed.log().events.len(), 0);
}

#[test]
fn a_revision_that_is_being_published_is_not_seen_in_part() {
    let store = MemoryStore::new();
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    put(&store, "a");
    // As if the writer had filled the feed but not yet announced the revision.
    watch.hub.visible.store(1, Ordering::Release);
    assert!(watch.try_next().unwrap().is_none());
    assert_eq!(watch.progress(), Revision(1));
    watch.hub.visible.store(2, Ordering::Release);
    assert_eq!(watch.try_next().unwrap().unwrap().progress, Revision(2));
}
