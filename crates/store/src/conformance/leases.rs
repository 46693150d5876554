//! Leases: when they run out, and what they take with them. Time is made up throughout.

use super::{cases, listed, pending, put, put_leased};
use crate::{Error, KeyRange, Lease, LeaseId, Op, Revision, Store, Txn};

cases![
    a_lease_ends_after_its_time,
    a_lease_can_be_kept_alive,
    an_ended_lease_deletes_its_keys_at_once,
    a_key_follows_its_last_write,
    leases_that_end_together_end_in_order,
    lease_ids_are_not_reused,
    what_is_not_there_cannot_be_used,
];

async fn a_lease_ends_after_its_time(store: &dyn Store) {
    assert_eq!(store.next_expiry(), None);
    let lease = store.grant(None, 100, 1_000).await.unwrap();
    assert_eq!(store.lease(lease), Some(Lease { ttl: 100, deadline: 1_100 }));
    assert_eq!(store.next_expiry(), Some(1_100));
    put_leased(store, "a", lease).await;
    assert_eq!(store.get(b"a", None).unwrap().unwrap().lease, Some(lease));
    assert_eq!(store.expire(1_099).await.unwrap(), []);
    assert_eq!(listed(store, "", None), ["a="]);
    assert_eq!(store.expire(1_100).await.unwrap(), [lease]);
    assert_eq!(listed(store, "", None), [""; 0]);
    assert_eq!((store.next_expiry(), store.lease(lease)), (None, None));
}

async fn a_lease_can_be_kept_alive(store: &dyn Store) {
    let lease = store.grant(None, 100, 0).await.unwrap();
    put_leased(store, "a", lease).await;
    assert_eq!(store.keep_alive(lease, 90).await.unwrap(), 190);
    assert_eq!(store.next_expiry(), Some(190));
    assert_eq!(store.expire(189).await.unwrap(), []);
    assert_eq!(store.expire(190).await.unwrap(), [lease]);
    assert_eq!(store.keep_alive(LeaseId(lease.0), 190).await.ok(), None);
}

async fn an_ended_lease_deletes_its_keys_at_once(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    let lease = store.grant(None, 100, 0).await.unwrap();
    put_leased(store, "b", lease).await;
    put_leased(store, "a", lease).await;
    put(store, "c", "").await;
    assert_eq!(store.revoke(lease).await.unwrap(), Revision(5));
    assert_eq!(pending(&mut watch), ["2 b=", "3 a=", "4 c=", "5 a-", "5 b-"]);
    let bare = store.grant(None, 100, 0).await.unwrap();
    assert_eq!(store.revoke(bare).await.unwrap(), Revision(5), "nothing hung on it");
}

async fn a_key_follows_its_last_write(store: &dyn Store) {
    let first = store.grant(None, 100, 0).await.unwrap();
    let second = store.grant(None, 200, 0).await.unwrap();
    for key in ["deleted", "detached", "moved", "stays"] {
        put_leased(store, key, first).await;
    }
    put(store, "detached", "").await;
    put_leased(store, "moved", second).await;
    super::delete(store, "deleted").await;
    put(store, "deleted", "again").await;
    assert_eq!(store.expire(100).await.unwrap(), [first]);
    assert_eq!(listed(store, "", None), ["deleted=again", "detached=", "moved="]);
    assert_eq!(store.expire(200).await.unwrap(), [second]);
    assert_eq!(listed(store, "", None), ["deleted=again", "detached="]);
}

async fn leases_that_end_together_end_in_order(store: &dyn Store) {
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    for (id, key) in [(30, "c"), (10, "a"), (20, "b")] {
        let lease = store.grant(Some(LeaseId(id)), 100 - id, 0).await.unwrap();
        put_leased(store, key, lease).await;
    }
    assert_eq!(store.expire(100).await.unwrap(), [10, 20, 30].map(LeaseId));
    assert_eq!(pending(&mut watch)[3..], ["5 a-", "6 b-", "7 c-"]);
}

async fn lease_ids_are_not_reused(store: &dyn Store) {
    let first = store.grant(None, 1, 0).await.unwrap();
    store.grant(Some(LeaseId(first.0 + 1)), 1, 0).await.unwrap();
    let second = store.grant(None, 1, 0).await.unwrap();
    assert_eq!(second, LeaseId(first.0 + 2), "the next one is taken");
    store.revoke(second).await.unwrap();
    assert_eq!(store.grant(None, 1, 0).await.unwrap(), LeaseId(first.0 + 3));
}

async fn what_is_not_there_cannot_be_used(store: &dyn Store) {
    let lease = LeaseId(7);
    let lost = |error| matches!(error, Error::LeaseNotFound { lease: LeaseId(7) });
    assert!(lost(store.keep_alive(lease, 0).await.unwrap_err()));
    assert!(lost(store.revoke(lease).await.unwrap_err()));
    let put = Op::Put { key: "a".into(), value: "".into(), lease: Some(lease) };
    assert!(lost(store.commit(Txn::new().then(put.clone())).await.unwrap_err()));
    // A branch that is not taken asks for nothing.
    store.commit(Txn::new().otherwise(put)).await.unwrap();
    store.grant(Some(lease), 1, 0).await.unwrap();
    let again = store.grant(Some(lease), 1, 0).await.unwrap_err();
    assert!(matches!(again, Error::LeaseExists { lease: LeaseId(7) }), "{again}");
}
