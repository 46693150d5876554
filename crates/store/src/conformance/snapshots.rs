//! Snapshots: what they hold, and that they stay as they are.

use super::{cases, delete, put, put_leased};
use crate::{LeaseId, Store};

cases![a_snapshot_stays_as_it_is, a_snapshot_holds_history, a_large_snapshot_comes_in_pieces];

fn written(snapshot: &crate::Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = snapshot.write_to(&mut bytes).unwrap();
    assert_eq!(size, bytes.len() as u64);
    let chunks: Vec<bytes::Bytes> = snapshot.clone().into_chunks().collect();
    assert_eq!(chunks.concat(), bytes);
    assert!(chunks.iter().all(|chunk| chunk.len() < 2 << 20), "a piece is a piece");
    bytes
}

async fn a_snapshot_stays_as_it_is(store: &dyn Store) {
    put(store, "a", "1").await;
    let snapshot = store.snapshot();
    let before = written(&snapshot);
    put(store, "a", "2").await;
    store.grant(Some(LeaseId(1)), 1, 0).await.unwrap();
    let revision = store.revision();
    store.compact(revision).await.unwrap();
    assert_eq!(written(&snapshot), before);
    assert_ne!(written(&store.snapshot()), before);
}

async fn a_snapshot_holds_history(store: &dyn Store) {
    let lease = store.grant(None, 1, 0).await.unwrap();
    put_leased(store, "a", lease).await;
    put(store, "b", "first value").await;
    delete(store, "a").await;
    let revision = put(store, "b", "second value").await;
    let holds = |text: &str| {
        let bytes = written(&store.snapshot());
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    assert_eq!(store.snapshot().revision(), revision);
    assert!(holds("first value") && holds("second value"));
    store.compact(revision).await.unwrap();
    assert!(!holds("first value") && holds("second value"));
}

async fn a_large_snapshot_comes_in_pieces(store: &dyn Store) {
    let value = "x".repeat(100_000);
    for n in 0..10 {
        put(store, &format!("key/{n}"), &value).await;
    }
    let snapshot = store.snapshot();
    assert!(written(&snapshot).len() > 1_000_000);
    assert!(snapshot.into_chunks().count() > 2);
}
