//! Aliases: entries are found, and watched, under other keys as under their own.

use bytes::Bytes;

use super::{cases, delete, pending, put, texts};
use crate::{Entry, KeyRange, Op, Revision, Store, Txn};

cases![
    a_list_by_alias_is_of_now,
    what_was_there_before_is_named_too,
    a_watch_by_alias_sees_who_comes_and_who_goes,
    a_watch_by_alias_starts_in_the_past,
    watches_by_key_see_nothing_twice,
    a_compaction_leaves_aliases,
];

/// The value before a slash, and the key: `p` with `n1/x` is also found as `n1/p`.
fn by_node(entry: &Entry) -> Option<Bytes> {
    let node = entry.value.split(|byte| *byte == b'/').next().filter(|node| !node.is_empty())?;
    Some([node, b"/", &entry.key].concat().into())
}

fn on(store: &dyn Store, node: &'static str) -> Vec<String> {
    let listing = store.list_aliased(&KeyRange::prefix(node));
    assert_eq!((listing.revision, listing.more), (store.revision(), false));
    assert_eq!(listing.count, listing.entries.len());
    texts(&listing.entries)
}

async fn a_list_by_alias_is_of_now(store: &dyn Store) {
    store.alias(by_node);
    for (key, value) in [("c", "n1/"), ("a", "n1/"), ("b", "n2/"), ("d", "")] {
        put(store, key, value).await;
    }
    assert_eq!(on(store, "n1/"), ["a=n1/", "c=n1/"]);
    put(store, "a", "n1/x").await;
    put(store, "c", "n2/").await;
    assert_eq!(
        (on(store, "n1/"), on(store, "n2/")),
        (vec!["a=n1/x".into()], vec!["b=n2/".into(), "c=n2/".into()])
    );
    delete(store, "b").await;
    put(store, "c", "").await;
    assert_eq!(on(store, "n2/"), [""; 0]);
    let txn = Txn::new().then(Op::delete("a")).then(Op::put("b", "n1/"));
    store.commit(txn).await.unwrap();
    assert_eq!(on(store, "n1/"), ["b=n1/"]);
}

async fn what_was_there_before_is_named_too(store: &dyn Store) {
    put(store, "a", "n1/").await;
    put(store, "b", "n1/").await;
    delete(store, "b").await;
    assert_eq!(on(store, "n1/"), [""; 0], "nobody has said how");
    store.alias(by_node);
    assert_eq!(on(store, "n1/"), ["a=n1/"]);
}

async fn a_watch_by_alias_sees_who_comes_and_who_goes(store: &dyn Store) {
    store.alias(by_node);
    let open = |node| store.watch_aliased(KeyRange::prefix(node), None).unwrap();
    let (mut first, mut second) = (open("n1/"), open("n2/"));
    put(store, "a", "").await;
    put(store, "a", "n1/").await;
    put(store, "a", "n1/x").await;
    assert_eq!(pending(&mut first), ["3 a=n1/", "4 a=n1/x"]);
    assert_eq!(pending(&mut second), [""; 0]);
    put(store, "a", "n2/").await;
    delete(store, "a").await;
    assert_eq!(pending(&mut first), ["5 a=n2/"]);
    assert_eq!(pending(&mut second), ["5 a=n2/", "6 a-"]);
    assert_eq!(first.progress(), Revision(6));
}

async fn a_watch_by_alias_starts_in_the_past(store: &dyn Store) {
    store.alias(by_node);
    for (key, value) in [("a", "n1/"), ("b", "n2/"), ("a", "n2/"), ("c", "n1/")] {
        put(store, key, value).await;
    }
    let mut all = store.watch_aliased(KeyRange::prefix("n1/"), Some(Revision(2))).unwrap();
    assert_eq!(pending(&mut all), ["2 a=n1/", "4 a=n2/", "5 c=n1/"]);
    let mut late = store.watch_aliased(KeyRange::prefix("n1/"), Some(Revision(4))).unwrap();
    assert_eq!(pending(&mut late), ["4 a=n2/", "5 c=n1/"]);
}

async fn watches_by_key_see_nothing_twice(store: &dyn Store) {
    store.alias(by_node);
    let mut keys = store.watch(KeyRange::all(), None).unwrap();
    let mut aliases = store.watch_aliased(KeyRange::all(), None).unwrap();
    put(store, "n1/a", "n1/").await;
    put(store, "n1/a", "n2/").await;
    put(store, "b", "").await;
    assert_eq!(pending(&mut keys), ["2 n1/a=n1/", "3 n1/a=n2/", "4 b="]);
    assert_eq!(pending(&mut aliases), ["2 n1/a=n1/", "3 n1/a=n2/"], "once, though both names fit");
}

async fn a_compaction_leaves_aliases(store: &dyn Store) {
    store.alias(by_node);
    put(store, "a", "n1/").await;
    put(store, "a", "n1/x").await;
    put(store, "b", "n1/").await;
    delete(store, "b").await;
    store.compact(store.revision()).await.unwrap();
    assert_eq!(on(store, "n1/"), ["a=n1/x"]);
    let lost = store.watch_aliased(KeyRange::prefix("n1/"), Some(Revision(3)));
    assert!(matches!(lost, Err(crate::Error::Compacted { .. })));
}
