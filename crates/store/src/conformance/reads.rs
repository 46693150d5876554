//! Reading keys and ranges, now and in the past.

use super::{cases, commit, delete, listed, put, texts};
use crate::{Error, KeyRange, Op, OpResult, Revision, Store};

cases![
    a_new_store_is_empty_at_revision_one,
    an_entry_knows_its_history,
    a_past_revision_reads_as_it_was,
    a_list_goes_on_where_it_stopped,
    a_list_can_only_count,
    the_future_cannot_be_read,
    values_are_shared_not_copied,
    keys_are_any_bytes,
];

async fn a_new_store_is_empty_at_revision_one(store: &dyn Store) {
    assert_eq!(store.revision(), Revision(1));
    assert_eq!(store.compacted(), Revision(0));
    assert_eq!(store.get(b"a", None).unwrap(), None);
    let all = store.list(&KeyRange::all(), None, None).unwrap();
    assert_eq!((all.revision, all.count, all.more), (Revision(1), 0, false));
    assert_eq!(put(store, "a", "1").await, Revision(2));
    assert_eq!(store.revision(), Revision(2));
}

async fn an_entry_knows_its_history(store: &dyn Store) {
    let facts = || {
        let entry = store.get(b"a", None).unwrap().unwrap();
        (entry.created.0, entry.modified.0, entry.version)
    };
    put(store, "a", "1").await;
    assert_eq!(facts(), (2, 2, 1));
    put(store, "b", "1").await;
    put(store, "a", "2").await;
    assert_eq!(facts(), (2, 4, 2));
    delete(store, "a").await;
    assert_eq!(store.get(b"a", None).unwrap(), None);
    put(store, "a", "3").await;
    assert_eq!(facts(), (6, 6, 1), "a key that was deleted starts over");
}

async fn a_past_revision_reads_as_it_was(store: &dyn Store) {
    put(store, "a", "1").await;
    put(store, "b", "1").await;
    put(store, "a", "2").await;
    delete(store, "b").await;
    put(store, "b", "2").await;
    let check = |at, expected: &[&str]| {
        assert_eq!(listed(store, "", Some(Revision(at))), expected, "at {at}");
        for key in ["a", "b"] {
            let found = store.get(key.as_bytes(), Some(Revision(at))).unwrap();
            let found = found.map(|entry| texts(&[entry])).unwrap_or_default();
            let expected: Vec<_> = expected.iter().filter(|text| text.starts_with(key)).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{key} at {at}");
        }
    };
    check(0, &[]);
    check(1, &[]);
    check(2, &["a=1"]);
    check(3, &["a=1", "b=1"]);
    check(4, &["a=2", "b=1"]);
    check(5, &["a=2"]);
    check(6, &["a=2", "b=2"]);
}

async fn a_list_goes_on_where_it_stopped(store: &dyn Store) {
    for key in ["p/1", "p/2", "p/3", "p/4", "p/5", "q"] {
        put(store, key, "").await;
    }
    let mut range = KeyRange::prefix("p/");
    let first = store.list(&range, None, Some(2)).unwrap();
    assert_eq!(texts(&first.entries), ["p/1=", "p/2="]);
    assert_eq!((first.more, first.count), (true, 5));
    // What happens in between does not show.
    delete(store, "p/4").await;
    put(store, "p/6", "").await;
    let at = Some(first.revision);
    range = range.after(&first.entries[1].key);
    let second = store.list(&range, at, Some(2)).unwrap();
    assert_eq!(texts(&second.entries), ["p/3=", "p/4="]);
    assert_eq!((second.more, second.count, second.revision), (true, 3, first.revision));
    let last = store.list(&range.after(b"p/4"), at, Some(2)).unwrap();
    assert_eq!(texts(&last.entries), ["p/5="]);
    assert_eq!((last.more, last.count), (false, 1));
}

async fn a_list_can_only_count(store: &dyn Store) {
    put(store, "a", "").await;
    put(store, "b", "").await;
    delete(store, "a").await;
    let count = |range, limit| {
        let listing = store.list(&range, None, Some(limit)).unwrap();
        (listing.entries.len(), listing.count, listing.more)
    };
    assert_eq!(count(KeyRange::all(), 0), (0, 1, true));
    assert_eq!(count(KeyRange::all(), 1), (1, 1, false));
    assert_eq!(count(KeyRange::half_open("z", "a"), 5), (0, 0, false));
}

async fn the_future_cannot_be_read(store: &dyn Store) {
    put(store, "a", "").await;
    let future =
        |error| matches!(error, Error::Future { asked: Revision(3), current: Revision(2) });
    let at = Some(Revision(3));
    assert!(future(store.get(b"a", at).unwrap_err()));
    assert!(future(store.list(&KeyRange::all(), at, None).unwrap_err()));
}

async fn values_are_shared_not_copied(store: &dyn Store) {
    put(store, "a", "some value").await;
    let first = store.get(b"a", None).unwrap().unwrap();
    let second = store.list(&KeyRange::all(), None, None).unwrap().entries.remove(0);
    assert_eq!(first.value.as_ptr(), second.value.as_ptr());
}

async fn keys_are_any_bytes(store: &dyn Store) {
    let keys: [&'static [u8]; 4] = [b"\0", b"\x7f\0\xff", b"\xff", b"\xff\xff"];
    for key in keys {
        commit(store, Op::put(key, key)).await;
    }
    let found = store.list(&KeyRange::all(), None, None).unwrap().entries;
    assert_eq!(found.iter().map(|entry| &entry.key[..]).collect::<Vec<_>>(), keys);
    let OpResult::Delete(gone) =
        commit(store, Op::Delete(KeyRange::prefix(&b"\xff"[..]))).await.results.remove(0)
    else {
        panic!("a delete answers as a delete")
    };
    assert_eq!(gone.len(), 2);
}
