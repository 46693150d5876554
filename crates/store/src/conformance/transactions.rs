//! Transactions: conditions, atomicity, one revision, and what is refused.

use std::sync::Arc;

use super::{cases, commit, delete, listed, put, texts};
use crate::{Compare, Error, KeyRange, LeaseId, Op, OpResult, Revision, Store, Test, Txn};

cases![
    conditions_choose_the_branch,
    all_conditions_must_hold,
    a_transaction_has_one_revision,
    steps_see_the_steps_before_them,
    what_writes_nothing_makes_no_revision,
    a_key_is_written_once,
    sizes_are_bounded,
    what_is_refused_changes_nothing,
];

async fn conditions_choose_the_branch(store: &dyn Store) {
    use Compare::{Equal, Greater, Less, NotEqual};
    put(store, "a", "1").await;
    put(store, "a", "2").await;
    let check = async |key: &'static str, test: Test, expected| {
        let txn = Txn::new().when(key, test.clone()).then(Op::get("a")).otherwise(Op::get("x"));
        let outcome = store.commit(txn).await.unwrap();
        assert_eq!(outcome.succeeded, expected, "{key} {test:?}");
        let OpResult::Get(found) = &outcome.results[0] else { panic!("a get answers as a get") };
        assert_eq!(found.len(), usize::from(expected), "the other branch was taken");
    };
    check("a", Test::Exists, true).await;
    check("a", Test::Absent, false).await;
    check("x", Test::Exists, false).await;
    check("x", Test::Absent, true).await;
    let numbers = [
        (Equal, 3, 2, true),
        (Equal, 2, 3, false),
        (NotEqual, 2, 3, true),
        (NotEqual, 3, 2, false),
        (Less, 4, 3, true),
        (Less, 3, 2, false),
        (Greater, 2, 1, true),
        (Greater, 3, 2, false),
    ];
    for (compare, modified, other, expected) in numbers {
        check("a", Test::Modified(compare, Revision(modified)), expected).await;
        check("a", Test::Created(compare, Revision(other)), expected).await;
        check("a", Test::Version(compare, other), expected).await;
    }
    for (compare, value, expected) in
        [(Equal, "2", true), (NotEqual, "2", false), (Less, "3", true), (Greater, "2", false)]
    {
        check("a", Test::Value(compare, value.into()), expected).await;
        check("x", Test::Value(compare, value.into()), false).await;
    }
    check("x", Test::Modified(Equal, Revision(0)), true).await;
    check("x", Test::Created(Equal, Revision(0)), true).await;
    check("x", Test::Version(Equal, 0), true).await;
}

async fn all_conditions_must_hold(store: &dyn Store) {
    put(store, "a", "1").await;
    for (second, expected) in [(Test::Absent, true), (Test::Exists, false)] {
        let txn = Txn::new().when("a", Test::Exists).when("b", second);
        assert_eq!(store.commit(txn).await.unwrap().succeeded, expected);
    }
    assert!(store.commit(Txn::new()).await.unwrap().succeeded, "no condition always holds");
}

async fn a_transaction_has_one_revision(store: &dyn Store) {
    put(store, "c", "1").await;
    let txn = Txn::new().then(Op::put("a", "1")).then(Op::put("b", "1")).then(Op::delete("c"));
    assert_eq!(store.commit(txn).await.unwrap().revision, Revision(3));
    for entry in store.list(&KeyRange::all(), None, None).unwrap().entries {
        assert_eq!(entry.modified, Revision(3));
    }
    assert_eq!(listed(store, "", Some(Revision(2))), ["c=1"]);
    assert_eq!(listed(store, "", Some(Revision(3))), ["a=1", "b=1"]);
}

async fn steps_see_the_steps_before_them(store: &dyn Store) {
    put(store, "b", "1").await;
    put(store, "d", "1").await;
    let txn = Txn::new()
        .then(Op::Get(KeyRange::all()))
        .then(Op::put("c", "2"))
        .then(Op::Delete(KeyRange::half_open("a", "c")))
        .then(Op::put("d", "2"))
        .then(Op::Get(KeyRange::all()));
    let results: Vec<_> = store
        .commit(txn)
        .await
        .unwrap()
        .results
        .iter()
        .map(|result| match result {
            OpResult::Get(found) => format!("get {}", texts(found).join(" ")),
            OpResult::Delete(gone) => format!("delete {}", texts(gone).join(" ")),
            OpResult::Put { entry, previous } => {
                let previous: Vec<_> = previous.iter().cloned().collect();
                let entry = texts(&[Arc::clone(entry)]).join("");
                format!("put {entry} was {}", texts(&previous).join(""))
            }
        })
        .collect();
    let expected = ["get b=1 d=1", "put c=2 was ", "delete b=1", "put d=2 was d=1", "get c=2 d=2"];
    assert_eq!(results, expected);
}

async fn what_writes_nothing_makes_no_revision(store: &dyn Store) {
    put(store, "a", "1").await;
    assert_eq!(delete(store, "nothing").await, Revision(2));
    assert_eq!(commit(store, Op::get("a")).await.revision, Revision(2));
    let refused = Txn::new().when("a", Test::Absent).then(Op::put("a", "2"));
    assert_eq!(store.commit(refused).await.unwrap().revision, Revision(2));
    assert_eq!(store.revision(), Revision(2));
    assert_eq!(put(store, "a", "1").await, Revision(3), "the same value is a write");
}

async fn a_key_is_written_once(store: &dyn Store) {
    let twice = |txn: Txn| async move {
        let error = store.commit(txn).await.unwrap_err();
        assert!(matches!(&error, Error::DuplicateKey { key } if key == "a"), "{error}");
    };
    twice(Txn::new().then(Op::put("a", "1")).then(Op::put("b", "")).then(Op::put("a", "2"))).await;
    twice(Txn::new().then(Op::put("a", "1")).then(Op::delete("a"))).await;
    twice(Txn::new().then(Op::Delete(KeyRange::all())).then(Op::put("a", "1"))).await;
    twice(Txn::new().otherwise(Op::put("a", "1")).otherwise(Op::put("a", "2"))).await;
    let branches = Txn::new().then(Op::put("a", "1")).otherwise(Op::put("a", "2"));
    store.commit(branches).await.unwrap();
    let overlapping =
        Txn::new().then(Op::Delete(KeyRange::all())).then(Op::Delete(KeyRange::prefix("a")));
    let outcome = store.commit(overlapping).await.unwrap();
    assert_eq!(outcome.results[1], OpResult::Delete(Vec::new()), "the first deleted it");
}

async fn sizes_are_bounded(store: &dyn Store) {
    let large = async |txn: Txn, what: &str| {
        let error = store.commit(txn).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(matches!(error, Error::TooLarge { size, limit, .. } if size > limit), "{error}");
    };
    let empty = store.commit(Txn::new().then(Op::put("", "1"))).await.unwrap_err();
    assert!(matches!(empty, Error::EmptyKey));
    let bytes = |size| vec![b'x'; size];
    large(Txn::new().then(Op::put(bytes(1 << 20), "")), "key").await;
    large(Txn::new().when(bytes(1 << 20), Test::Exists), "key").await;
    large(Txn::new().then(Op::put("a", bytes(16 << 20))), "value").await;
    let many = |count, size| Txn {
        then: (0..count).map(|n| Op::put(format!("{n}"), bytes(size))).collect(),
        ..Txn::new()
    };
    large(many(10_000, 0), "operations").await;
    large(many(100, 1 << 20), "transaction").await;
    let conditions = (0..10_000).fold(Txn::new(), |txn, _| txn.when("a", Test::Absent));
    large(conditions, "conditions").await;
}

async fn what_is_refused_changes_nothing(store: &dyn Store) {
    put(store, "a", "1").await;
    let watch = store.watch(KeyRange::all(), None).unwrap();
    let lost = Op::Put { key: "b".into(), value: "1".into(), lease: Some(LeaseId(404)) };
    let txn = Txn::new().then(Op::put("a", "2")).then(Op::delete("a0")).then(lost);
    let error = store.commit(txn).await.unwrap_err();
    assert!(matches!(error, Error::LeaseNotFound { lease: LeaseId(404) }), "{error}");
    assert_eq!(listed(store, "", None), ["a=1"]);
    assert_eq!(store.revision(), Revision(2));
    assert_eq!(put(store, "a", "3").await, Revision(3));
    let mut watch = watch;
    assert_eq!(super::pending(&mut watch), ["3 a=3"]);
}
