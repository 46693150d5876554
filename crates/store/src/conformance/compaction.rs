//! Compaction: what stays readable, what is too old, what it does to watches.

use super::{cases, delete, listed, pending, put};
use crate::{Error, KeyRange, Revision, Store};

cases![
    what_is_after_stays,
    what_is_before_is_too_old,
    only_history_can_be_compacted,
    a_deleted_key_is_gone,
    a_slow_watch_is_told,
    a_watch_that_is_up_to_date_goes_on,
    a_quiet_watch_goes_on,
];

async fn history(store: &dyn Store) {
    put(store, "a", "2").await;
    put(store, "b", "3").await;
    put(store, "a", "4").await;
    delete(store, "b").await;
    put(store, "a", "6").await;
}

async fn what_is_after_stays(store: &dyn Store) {
    history(store).await;
    store.compact(Revision(4)).await.unwrap();
    assert_eq!((store.compacted(), store.revision()), (Revision(4), Revision(6)));
    assert_eq!(listed(store, "", Some(Revision(4))), ["a=4", "b=3"]);
    assert_eq!(listed(store, "", Some(Revision(5))), ["a=4"]);
    assert_eq!(listed(store, "", None), ["a=6"]);
    let mut watch = store.watch(KeyRange::all(), Some(Revision(5))).unwrap();
    let events = watch.next().await.unwrap().events;
    let before: Vec<_> =
        events.iter().map(|event| event.previous().map(|entry| entry.modified.0)).collect();
    assert_eq!(before, [Some(3), Some(4)], "what was before is known across a compaction");
}

async fn what_is_before_is_too_old(store: &dyn Store) {
    history(store).await;
    store.compact(Revision(4)).await.unwrap();
    let old = |error: Error, revision| match error {
        Error::Compacted { asked, compacted } => {
            assert_eq!((asked, compacted), (Revision(revision), Revision(4)));
        }
        other => panic!("{other}"),
    };
    let at = Some(Revision(3));
    old(store.get(b"a", at).unwrap_err(), 3);
    old(store.list(&KeyRange::all(), at, None).unwrap_err(), 3);
    old(store.watch(KeyRange::all(), at).unwrap_err(), 3);
    // The changes of the compacted revision itself are gone as well.
    old(store.watch(KeyRange::all(), Some(Revision(4))).unwrap_err(), 4);
}

async fn only_history_can_be_compacted(store: &dyn Store) {
    history(store).await;
    store.compact(Revision(4)).await.unwrap();
    for to in [4, 3, 0] {
        let error = store.compact(Revision(to)).await.unwrap_err();
        assert!(matches!(error, Error::Compacted { .. }), "{error}");
    }
    let error = store.compact(Revision(7)).await.unwrap_err();
    assert!(matches!(error, Error::Future { current: Revision(6), .. }), "{error}");
    store.compact(Revision(6)).await.unwrap();
    assert_eq!(listed(store, "", None), ["a=6"]);
}

async fn a_deleted_key_is_gone(store: &dyn Store) {
    history(store).await;
    store.compact(Revision(5)).await.unwrap();
    assert_eq!(listed(store, "", Some(Revision(5))), ["a=4"]);
    assert_eq!(put(store, "b", "7").await, Revision(7));
    let entry = store.get(b"b", None).unwrap().unwrap();
    assert_eq!((entry.created, entry.version), (Revision(7), 1));
}

async fn a_slow_watch_is_told(store: &dyn Store) {
    let mut slow = store.watch(KeyRange::prefix("a"), None).unwrap();
    history(store).await;
    store.compact(Revision(4)).await.unwrap();
    for _ in 0..2 {
        let error = slow.next().await.unwrap_err();
        assert!(matches!(error, Error::Compacted { .. }), "{error}");
        assert!(slow.progress() < Revision(2), "it has not delivered the change at 2");
    }
}

async fn a_watch_that_is_up_to_date_goes_on(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    history(store).await;
    assert_eq!(pending(&mut watch).len(), 5);
    store.compact(Revision(6)).await.unwrap();
    put(store, "a", "7").await;
    assert_eq!(pending(&mut watch), ["7 a=7"]);
}

async fn a_quiet_watch_goes_on(store: &dyn Store) {
    let mut quiet = store.watch(KeyRange::single("c"), Some(Revision(2))).unwrap();
    history(store).await;
    store.compact(Revision(6)).await.unwrap();
    assert_eq!(quiet.progress(), Revision(6));
    put(store, "c", "7").await;
    assert_eq!(pending(&mut quiet), ["7 c=7"], "it lost nothing, since nothing was in its range");
}
