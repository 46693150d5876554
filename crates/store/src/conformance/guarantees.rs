//! What a watch promises, under etcd's names, checked on what was recorded: Ordered, Unique,
//! Atomic, Reliable, Resumable, Bookmarkable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{join, join_all, poll_fn};

use super::{cases, delete, put};
use crate::{Entry, Event, KeyRange, Op, Revision, Store, Txn};

cases![
    watches_keep_their_promises_among_writers,
    large_batches_keep_revisions_whole,
    progress_follows_the_store,
];

/// What one watch delivered.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What it watched.
    pub range: KeyRange,
    /// The first revision that it asked for.
    pub from: Revision,
    /// Its batches: the events, then the progress that came with them. A batch may be empty.
    pub batches: Vec<(Vec<Arc<Event>>, Revision)>,
}

/// Checks what one watch delivered against all that happened, in order.
pub fn check_observation(truth: &[Arc<Event>], observed: &Observation) {
    let Observation { range, from, batches } = observed;
    let in_range = |event: &&Arc<Event>| event.revision() >= *from && range.contains(event.key());
    let expected: Vec<_> = truth.iter().filter(in_range).collect();
    let mut delivered = 0;
    let mut last: Option<(Revision, Bytes)> = None;
    for (events, progress) in batches {
        for event in events {
            let here = (event.revision(), event.key().clone());
            if let Some((revision, _)) = &last {
                assert!(*revision <= here.0, "Ordered: {:?} after {last:?}", here);
            }
            assert!(last.as_ref() != Some(&here), "Unique: {here:?} twice");
            assert!(event.revision() <= *progress, "Bookmarkable: {here:?} is past {progress}");
            assert_eq!(
                expected.get(delivered).map(|event| event.as_ref()),
                Some(event.as_ref()),
                "Reliable, Resumable: a change was left out, repeated or made up from {from}",
            );
            delivered += 1;
            last = Some(here);
        }
        if let (Some(next), Some((revision, _))) = (expected.get(delivered), &last) {
            assert!(next.revision() > *revision, "Atomic: {revision} was split");
        }
        if let Some(next) = expected.get(delivered) {
            assert!(
                next.revision() > *progress,
                "Bookmarkable: {progress} was announced before {:?}",
                next.revision(),
            );
        }
    }
}

/// Checks that a history makes sense by itself: every event follows from the one before it on the
/// same key.
pub fn check_truth(truth: &[Arc<Event>]) {
    let mut keys: BTreeMap<Bytes, Arc<Entry>> = BTreeMap::new();
    let mut last = Revision(0);
    for event in truth {
        assert!(event.revision() >= last, "Ordered: {} after {last}", event.revision());
        last = event.revision();
        let before = keys.get(event.key());
        assert_eq!(event.previous(), before, "what was before {event:?}");
        match event.entry() {
            Some(entry) => {
                let fresh = (event.revision(), 1);
                let expected = before.map_or(fresh, |before| (before.created, before.version + 1));
                assert_eq!((entry.created, entry.version), expected, "{event:?}");
                keys.insert(event.key().clone(), entry.clone());
            }
            None => drop(keys.remove(event.key())),
        }
    }
}

async fn watches_keep_their_promises_among_writers(store: &dyn Store) {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 40;
    let writer = |writer: usize| async move {
        for round in 0..ROUNDS {
            let (own, shared) = (format!("w{writer}/{}", round % 5), format!("s/{}", round % 3));
            let txn = Txn::new()
                .then(Op::put(own.clone(), format!("{round}")))
                .then(Op::put(shared, format!("{writer}")));
            store.commit(txn).await.unwrap();
            step_aside().await;
            if round % 4 == 3 {
                delete(store, &own).await;
            }
        }
    };
    let writers = async {
        join_all((0..WRITERS).map(writer)).await;
        // Every watch ends with this one.
        let end = Txn::new().then(Op::put("s/end", "")).then(Op::put("w2/end", ""));
        store.commit(end).await.unwrap();
    };
    let watcher = |range: KeyRange, restart: usize| async move {
        let from = Revision(2);
        let mut batches: Vec<(Vec<Arc<Event>>, Revision)> = Vec::new();
        let mut watch = store.watch(range.clone(), Some(from)).unwrap();
        let ended = |(events, _): &(Vec<Arc<Event>>, _)| {
            events.iter().any(|event| event.key().ends_with(b"/end"))
        };
        while !batches.last().is_some_and(ended) {
            let batch = watch.next().await.unwrap();
            if (batches.len() + 1).is_multiple_of(restart) {
                // Resumable: ended, and taken up again where its progress says.
                watch = store.watch(range.clone(), Some(batch.progress.next())).unwrap();
            }
            batches.push((batch.events, batch.progress));
        }
        Observation { range, from, batches }
    };
    let ranges = [KeyRange::all(), KeyRange::prefix("s/"), KeyRange::prefix("w2/")];
    let watchers = ranges
        .iter()
        .flat_map(|range| [1, 3, usize::MAX].map(|restart| watcher(range.clone(), restart)));
    let (observations, ()) = join(join_all(watchers), writers).await;
    let truth = history(store).await;
    assert_eq!(truth.len(), WRITERS * (ROUNDS * 2 + ROUNDS / 4) + 2);
    check_truth(&truth);
    for observed in &observations {
        assert!(observed.batches.len() > 1, "it watched nothing happen");
        check_observation(&truth, observed);
    }
}

/// Everything that happened, read back by one watch.
async fn history(store: &dyn Store) -> Vec<Arc<Event>> {
    let mut watch = store.watch(KeyRange::all(), Some(Revision(2))).unwrap();
    let mut events = Vec::new();
    while let Some(batch) = watch.next().now_or_never() {
        events.extend(batch.unwrap().events);
    }
    events
}

/// Lets the other futures of the task run.
async fn step_aside() {
    let mut passed = false;
    poll_fn(|context| {
        if std::mem::replace(&mut passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn large_batches_keep_revisions_whole(store: &dyn Store) {
    for first in 0..20 {
        let ops = (0..100).map(|n| Op::put(format!("{}", first * 100 + n), ""));
        store.commit(Txn { then: ops.collect(), ..Txn::new() }).await.unwrap();
    }
    let gone = Txn::new().then(Op::Delete(KeyRange::all()));
    let last = store.commit(gone).await.unwrap().revision;
    let mut watch = store.watch(KeyRange::all(), Some(Revision(2))).unwrap();
    let (mut batches, mut truth) = (Vec::new(), Vec::new());
    while watch.progress() < last {
        let batch = watch.next().await.unwrap();
        truth.extend(batch.events.iter().cloned());
        batches.push((batch.events, batch.progress));
    }
    assert!(batches.len() > 1, "the history is too short to be split");
    assert_eq!(truth.len(), 4_000);
    let observed = Observation { range: KeyRange::all(), from: Revision(2), batches };
    check_observation(&truth, &observed);
}

async fn progress_follows_the_store(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::prefix("a"), None).unwrap();
    assert_eq!(watch.progress(), Revision(1));
    put(store, "b", "").await;
    assert_eq!(watch.progress(), Revision(2), "nothing happened in the range");
    put(store, "a", "").await;
    put(store, "b", "").await;
    assert_eq!(watch.progress(), Revision(2), "the change at 3 is not delivered yet");
    assert_eq!(watch.next().await.unwrap().progress, Revision(4));
    assert_eq!(watch.progress(), Revision(4));
}
