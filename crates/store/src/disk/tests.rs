//! The disk engine from inside: failing disks, shared commits, tidying, formats.

use std::io::ErrorKind;
use std::path::Path;

use futures::future::join_all;

use super::backend::faults::{Faults, Kind};
use super::*;
use crate::{Entry, KeyRange, Op, Store, Txn};

fn open(path: &Path) -> (DiskStore, Faults) {
    let backend = Backend::new(Durability::Relaxed);
    let faults = backend.faults.clone();
    let mut directory = Directory::lock(path).unwrap();
    if !directory.has_data().unwrap() {
        directory.create(&Mvcc::default()).unwrap();
    }
    (DiskStore::start(directory, backend, Limits::default()).unwrap(), faults)
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn put(store: &DiskStore, key: &str, size: usize) -> Result<Revision, Error> {
    let put = Op::put(key.to_owned(), vec![b'x'; size]);
    wait(store.commit(Txn::new().then(put))).map(|outcome| outcome.revision)
}

fn entries(store: &DiskStore) -> Vec<Entry> {
    let all = store.list(&KeyRange::all(), None, None).unwrap().entries;
    all.iter().map(|entry| Entry::clone(entry)).collect()
}

/// Lets a write fail at each of its steps in turn: it must not show, neither then nor after the
/// disk has recovered, nor after the store is opened again.
#[test]
fn a_failed_commit_leaves_no_trace() {
    let mut failures = 0;
    for kind in [Kind::Write, Kind::Sync] {
        for (after, error) in
            (0..8).flat_map(|n| [(n, ErrorKind::StorageFull), (n, ErrorKind::Other)])
        {
            let directory = tempfile::tempdir().unwrap();
            let (store, faults) = open(directory.path());
            put(&store, "before", 100).unwrap();
            let lease = wait(store.grant(None, 100, 0)).unwrap();
            let (seen, revision) = (entries(&store), store.revision());
            let mut watch = store.watch(KeyRange::all(), None).unwrap();
            faults.set(Some((kind, after, error)));
            let puts = (0..3).map(|n| {
                store.commit(Txn::new().then(Op::put(format!("during/{n}"), vec![b'y'; 9_000])))
            });
            let outcomes = wait(join_all(puts));
            let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            failures += failed;
            for outcome in &outcomes {
                match outcome {
                    Err(Error::Full { .. }) => assert_eq!(error, ErrorKind::StorageFull),
                    Err(Error::Io { .. }) => assert_eq!(error, ErrorKind::Other),
                    Err(other) => panic!("{kind:?} {after}: {other}"),
                    Ok(_) => {}
                }
            }
            if failed == outcomes.len() {
                assert_eq!(entries(&store), seen);
                assert_eq!(store.revision(), revision);
                assert!(watch.try_next().unwrap().is_none(), "{kind:?} {after}");
                assert_eq!(wait(store.keep_alive(lease, 50)).ok(), None);
                assert_eq!(store.next_expiry(), Some(100));
            }
            faults.set(None);
            let last = put(&store, "after", 100).unwrap();
            assert_eq!(last.0, revision.0 + 1 + (outcomes.len() - failed) as u64);
            let seen = entries(&store);
            drop(store);
            let (store, _) = open(directory.path());
            assert_eq!(entries(&store), seen, "{kind:?} {after}");
            assert_eq!((store.revision(), store.next_expiry()), (last, Some(100)));
        }
    }
    assert!(failures > 20, "the faults were hardly met: {failures}");
}

#[test]
fn a_failed_compaction_can_be_repeated() {
    for kind in [Kind::Write, Kind::Sync] {
        for after in 0..6 {
            let directory = tempfile::tempdir().unwrap();
            let (store, faults) = open(directory.path());
            for n in 0..20 {
                put(&store, &format!("{}", n % 3), 100).unwrap();
            }
            faults.set(Some((kind, after, ErrorKind::StorageFull)));
            let done = wait(store.compact(Revision(15)));
            assert_eq!(store.compacted().0, if done.is_ok() { 15 } else { 0 });
            faults.set(None);
            put(&store, "after", 100).unwrap();
            match wait(store.compact(Revision(15))) {
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            let seen = entries(&store);
            drop(store);
            let (store, _) = open(directory.path());
            assert_eq!((entries(&store), store.compacted()), (seen, Revision(15)));
        }
    }
}

#[test]
fn writes_that_wait_share_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = open(directory.path());
    // Each commit syncs at least once; so few must do for all.
    faults.set(Some((Kind::Sync, 100, ErrorKind::Other)));
    let puts = (0..1_000).map(|n| store.commit(Txn::new().then(Op::put(format!("{n}"), ""))));
    let outcomes = wait(join_all(puts));
    let revisions: Vec<_> =
        outcomes.into_iter().map(|outcome| outcome.unwrap().revision.0).collect();
    assert_eq!(
        revisions,
        (2..1_002).collect::<Vec<_>>(),
        "each has a revision of its own, in order"
    );
}

#[test]
fn what_history_does_not_need_is_removed_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(directory.path());
    let records = || {
        let data = directory.path().join("store.redb");
        let file = DataFile::open(&data, &Backend::new(Durability::Relaxed)).unwrap();
        let head = file.head();
        file.close();
        head.count
    };
    for n in 0..3_000 {
        put(&store, &format!("{}", n % 10), 10).unwrap();
    }
    wait(store.compact(store.revision())).unwrap();
    drop(store);
    // Whatever was left over when it closed is found and removed by the next.
    let (store, _) = open(directory.path());
    for n in 0..4 {
        put(&store, &format!("{n}"), 10).unwrap();
    }
    drop(store);
    assert_eq!(records(), 14);
}

#[test]
fn a_newer_format_is_refused() {
    use redb::{Database, TableDefinition};
    const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let data = directory.path().join("store.redb");
    let database = Database::create(&data).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", &2_u32.to_le_bytes()[..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = DiskStore::open(directory.path(), DiskOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 2, supported: 1, .. }), "{error}");
    assert!(error.to_string().contains("store.redb has data format 2"), "{error}");
}

#[test]
fn a_beginning_that_was_cut_short_starts_over() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("store.redb.partial"), "half of it").unwrap();
    let (store, _) = open(directory.path());
    assert_eq!(put(&store, "a", 1).unwrap(), Revision(2));
    assert!(!directory.path().join("store.redb.partial").exists());
}
