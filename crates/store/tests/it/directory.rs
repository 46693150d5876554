//! The data directory: who may have it, what may be in it, and restoring a snapshot into one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use store::{
    DiskOptions, DiskStore, Error, KeyRange, LeaseId, MemoryStore, Op, RestoreOptions, Restored,
    Revision, Store, Txn, restore,
};

fn open(path: &Path) -> Result<DiskStore, Error> {
    DiskStore::open(path, DiskOptions::default())
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn put(store: &dyn Store, key: &'static str, value: &'static str) -> Revision {
    wait(store.commit(Txn::new().then(Op::put(key, value)))).unwrap().revision
}

#[test]
fn a_directory_has_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on/demand");
    let store = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(&error, Error::Locked { pid: Some(found), .. } if *found == pid), "{error}");
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()) && text.contains(&pid.to_string()), "{text}");
    drop(store);
    open(&path).unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = open(&file.join("data")).unwrap_err();
    assert!(matches!(error, Error::Io { action: "create", .. }), "{error}");
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
}

#[test]
fn what_was_acknowledged_before_closing_is_there_after_opening() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let watch = store.watch(KeyRange::all(), None).unwrap();
    let last = put(&store, "a", "1");
    let queued = store.commit(Txn::new().then(Op::put("b", "1")));
    drop(queued);
    drop(store);
    let mut watch = watch;
    assert_eq!(wait(watch.next()).unwrap().progress, last);
    assert!(matches!(wait(watch.next()), Err(Error::Closed)));
    let store = open(directory.path()).unwrap();
    assert_eq!(store.revision(), last, "a future that was never polled writes nothing");
}

/// Puts, deletes and a lease, part of it compacted.
fn sample() -> MemoryStore {
    let store = MemoryStore::new();
    wait(async {
        let lease = store.grant(None, 100, 1_000).await.unwrap();
        for n in 0..20 {
            let (key, value) = (format!("key/{}", n % 6).into(), format!("{n}").into());
            let lease = (n % 3 == 0).then_some(lease);
            store.commit(Txn::new().then(Op::Put { key, value, lease })).await.unwrap();
        }
        store.commit(Txn::new().then(Op::delete("key/3"))).await.unwrap();
        store.compact(Revision(10)).await.unwrap();
    });
    store
}

fn snapshot(store: &dyn Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.snapshot().write_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_restored_store_is_the_one_that_was_saved() {
    let directory = tempfile::tempdir().unwrap();
    let original = sample();
    let saved = snapshot(&original);
    let done = restore(&saved[..], directory.path(), RestoreOptions::default()).unwrap();
    let (revision, compacted) = (original.revision(), original.compacted());
    assert_eq!(done, Restored { revision, compacted, keys: 5 });
    for _ in 0..2 {
        let store = open(directory.path()).unwrap();
        assert_eq!(snapshot(&store), saved, "history, leases and all");
        assert_eq!(store.next_expiry(), Some(1_100));
    }
    let store = open(directory.path()).unwrap();
    let expired = wait(store.expire(1_100)).unwrap();
    assert_eq!(expired, [LeaseId(1)]);
    assert_eq!(store.list(&KeyRange::all(), None, Some(0)).unwrap().count, 4);
}

#[test]
fn a_bumped_restore_turns_away_those_who_saw_more() {
    let original = sample();
    let saved = snapshot(&original);
    let now = original.revision();
    let later = put(&original, "key/1", "seen, then lost");
    let directory = tempfile::tempdir().unwrap();
    let options = RestoreOptions { bump_revision: 1_000, mark_compacted: true };
    let done = restore(&saved[..], directory.path(), options).unwrap();
    let bumped = Revision(now.0 + 1_000);
    assert_eq!(done, Restored { revision: bumped, compacted: bumped, keys: 5 });
    let store = open(directory.path()).unwrap();
    let watch = |from: Revision| store.watch(KeyRange::all(), Some(from));
    assert!(matches!(watch(later.next()), Err(Error::Compacted { .. })), "an informer lists again");
    assert!(watch(bumped.next()).is_ok());
    let found = store.list(&KeyRange::all(), None, None).unwrap();
    let expected = original.list(&KeyRange::all(), Some(now), None).unwrap();
    assert_eq!(found.entries, expected.entries);
    assert_eq!(put(&store, "key/1", "new"), bumped.next());
}

#[test]
fn a_restore_touches_no_data_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let saved = snapshot(&sample());
    let again = || restore(&saved[..], directory.path(), RestoreOptions::default()).unwrap_err();
    let store = open(directory.path()).unwrap();
    let last = put(&store, "mine", "");
    assert!(matches!(again(), Error::Locked { .. }));
    drop(store);
    assert!(matches!(again(), Error::Occupied { .. }));
    assert_eq!(open(directory.path()).unwrap().revision(), last);
}

#[test]
fn a_data_file_that_is_gone_or_old_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("store.redb");
    let store = open(directory.path()).unwrap();
    put(&store, "a", "1");
    drop(store);
    let old = fs::read(&data).unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, "a", "2");
    let saved = snapshot(&store);
    drop(store);
    fs::write(&data, old).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("its last commits are missing (1 of 2)"), "{error}");
    fs::write(&data, "").unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("store.redb is damaged: it is empty"), "{error}");
    assert_eq!(fs::metadata(&data).unwrap().len(), 0, "an empty file is not made a store");
    fs::remove_file(&data).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
    assert!(!data.exists());
    // The remedy that the message names works.
    restore(&saved[..], directory.path(), RestoreOptions::default()).unwrap();
    assert_eq!(open(directory.path()).unwrap().revision(), Revision(3));
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let saved = snapshot(&sample());
    let check = |what: String, damaged: &[u8]| {
        let directory = tempfile::tempdir().unwrap();
        match restore(damaged, directory.path(), RestoreOptions::default()) {
            Err(Error::BadSnapshot { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        assert!(!directory.path().join("store.redb").exists(), "{what}: left half a store");
    };
    for at in 0..saved.len() {
        check(format!("cut at {at}"), &saved[..at]);
        let mut damaged = saved.clone();
        damaged[at] ^= 1 << (at % 8);
        check(format!("byte {at}"), &damaged);
    }
}

#[test]
fn values_survive_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 4_000, 5_000, 100_000, 1_500_000];
    let store = Arc::new(open(directory.path()).unwrap());
    let value = |size: usize| (0..size).map(|n| (n * 31 % 251) as u8).collect::<Vec<_>>();
    for size in sizes {
        let txn = Txn::new().then(Op::put(format!("{size}"), value(size)));
        wait(store.commit(txn)).unwrap();
    }
    drop(store);
    let store = open(directory.path()).unwrap();
    for size in sizes {
        let entry = store.get(size.to_string().as_bytes(), None).unwrap().unwrap();
        assert!(entry.value == value(size), "{size} bytes");
    }
}
