//! Watches: where they start, what they deliver, when they end.

use futures::future::join;
use futures::{FutureExt, StreamExt};

use super::{cases, delete, line, listed, pending, put};
use crate::{Event, KeyRange, Op, Revision, Store, Txn};

cases![
    a_watch_starts_now,
    a_watch_starts_in_the_past,
    a_watch_starts_in_the_future,
    a_watch_sees_its_range_only,
    events_carry_what_was_before,
    a_waiting_watch_is_woken,
    watches_of_one_range_start_anywhere,
    an_ended_watch_leaves_the_others,
    a_watch_is_a_stream,
    a_list_and_a_watch_join_without_a_gap,
];

async fn a_watch_starts_now(store: &dyn Store) {
    put(store, "a", "1").await;
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    assert_eq!(pending(&mut watch), [""; 0]);
    put(store, "a", "2").await;
    delete(store, "a").await;
    assert_eq!(pending(&mut watch), ["3 a=2", "4 a-"]);
}

async fn a_watch_starts_in_the_past(store: &dyn Store) {
    for n in 2..6 {
        put(store, "a", &n.to_string()).await;
    }
    let check = |from, expected: &[&str]| {
        let mut watch = store.watch(KeyRange::all(), Some(Revision(from))).unwrap();
        assert_eq!(pending(&mut watch), expected, "from {from}");
    };
    check(0, &["2 a=2", "3 a=3", "4 a=4", "5 a=5"]);
    check(4, &["4 a=4", "5 a=5"]);
    check(5, &["5 a=5"]);
    check(6, &[]);
}

async fn a_watch_starts_in_the_future(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::all(), Some(Revision(4))).unwrap();
    for _ in 2..6 {
        put(store, "a", "").await;
    }
    assert_eq!(pending(&mut watch), ["4 a=", "5 a="]);
}

async fn a_watch_sees_its_range_only(store: &dyn Store) {
    let ranges = [
        (KeyRange::prefix("a/"), vec!["2 a/1=", "3 a/2=", "6 a/1-"]),
        (KeyRange::single("a/1"), vec!["2 a/1=", "6 a/1-"]),
        (KeyRange::half_open("a/2", "c"), vec!["3 a/2=", "4 b="]),
        (KeyRange::from("b"), vec!["4 b=", "5 c="]),
        (KeyRange::half_open("z", "a"), vec![]),
    ];
    let open = |(range, _): &(KeyRange, Vec<&str>)| store.watch(range.clone(), Some(Revision(2)));
    let mut before: Vec<_> = ranges.iter().map(open).collect();
    for key in ["a/1", "a/2", "b", "c"] {
        put(store, key, "").await;
    }
    delete(store, "a/1").await;
    let after = ranges.iter().map(open);
    for (watch, (range, expected)) in before.drain(..).chain(after).zip(ranges.iter().cycle()) {
        assert_eq!(pending(&mut watch.unwrap()), *expected, "{range:?}");
    }
}

async fn events_carry_what_was_before(store: &dyn Store) {
    let mut live = store.watch(KeyRange::all(), None).unwrap();
    put(store, "a", "1").await;
    put(store, "a", "2").await;
    delete(store, "a").await;
    put(store, "a", "3").await;
    let mut later = store.watch(KeyRange::all(), Some(Revision(3))).unwrap();
    let told = |event: &Event| {
        let before = event.previous().map(|entry| (entry.modified.0, entry.version));
        (event.revision().0, before, event.entry().map(|entry| entry.created.0))
    };
    let expected = [
        (2, None, Some(2)),
        (3, Some((2, 1)), Some(2)),
        (4, Some((3, 2)), None),
        (5, None, Some(5)),
    ];
    for (watch, expected) in [(&mut live, &expected[..]), (&mut later, &expected[1..])] {
        let events = watch.next().await.unwrap().events;
        assert_eq!(events.iter().map(|event| told(event)).collect::<Vec<_>>(), expected);
    }
}

async fn a_waiting_watch_is_woken(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::single("a"), None).unwrap();
    let mut next = Box::pin(watch.next());
    assert!((&mut next).now_or_never().is_none());
    put(store, "b", "").await;
    assert!((&mut next).now_or_never().is_none(), "not its range");
    let (batch, revision) = join(next, put(store, "a", "")).await;
    let batch = batch.unwrap();
    assert_eq!(batch.events[0].revision(), revision);
    assert_eq!(batch.progress, revision);
}

async fn watches_of_one_range_start_anywhere(store: &dyn Store) {
    for _ in 2..=6 {
        put(store, "a", "").await;
    }
    let start = |from| store.watch(KeyRange::all(), Some(Revision(from))).unwrap();
    // Each order of earlier and later starts, with the earlier watches still there.
    let mut watches = [start(5), start(3), start(7), start(4), start(2)];
    put(store, "a", "").await;
    for (watch, from) in watches.iter_mut().zip([5, 3, 7, 4, 2]) {
        let expected: Vec<_> = (from..=7).map(|revision| format!("{revision} a=")).collect();
        assert_eq!(pending(watch), expected);
    }
}

async fn an_ended_watch_leaves_the_others(store: &dyn Store) {
    let first = store.watch(KeyRange::all(), None).unwrap();
    let mut second = store.watch(KeyRange::all(), None).unwrap();
    put(store, "a", "1").await;
    drop(first);
    assert_eq!(pending(&mut second), ["2 a=1"]);
    drop(second);
    put(store, "a", "2").await;
    let mut third = store.watch(KeyRange::all(), Some(Revision(2))).unwrap();
    assert_eq!(pending(&mut third), ["2 a=1", "3 a=2"]);
}

async fn a_watch_is_a_stream(store: &dyn Store) {
    let watch = store.watch(KeyRange::all(), None).unwrap();
    let mut stream = Box::pin(watch.into_stream());
    put(store, "a", "1").await;
    let batch = stream.next().await.unwrap().unwrap();
    assert_eq!(batch.events.iter().map(|event| line(event)).collect::<Vec<_>>(), ["2 a=1"]);
    assert!(stream.next().now_or_never().is_none());
}

async fn a_list_and_a_watch_join_without_a_gap(store: &dyn Store) {
    put(store, "a", "1").await;
    put(store, "b", "1").await;
    let list = store.list(&KeyRange::all(), None, None).unwrap();
    store.commit(Txn::new().then(Op::put("b", "2")).then(Op::delete("a"))).await.unwrap();
    let mut watch = store.watch(KeyRange::all(), Some(list.revision.next())).unwrap();
    put(store, "c", "1").await;
    assert_eq!(super::texts(&list.entries), ["a=1", "b=1"]);
    assert_eq!(pending(&mut watch), ["4 b=2", "4 a-", "5 c=1"]);
    assert_eq!(listed(store, "", None), ["b=2", "c=1"]);
}
