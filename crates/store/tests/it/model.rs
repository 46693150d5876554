//! Random operations on an engine and on the most naive model of one, which must agree.
//!
//! The model keeps one list of all changes and answers every question by going through it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use proptest::prelude::*;
use store::{
    Compare, Condition, DiskOptions, DiskStore, Durability, Entry, Error, Event, KeyRange, LeaseId,
    MemoryStore, Op, OpResult, Revision, Store, Test, Txn, TxnOutcome, Watch,
};

const KEYS: [&str; 6] = ["a", "a/b", "a/c", "b", "b/x", "c"];

/// What a test does to a store.
#[derive(Clone, Debug)]
enum Action {
    /// All at once, so that the disk engine makes batches of them.
    Commit(Vec<Txn>),
    Compact {
        back: u64,
    },
    Grant {
        ttl: u64,
    },
    KeepAlive(u64),
    Revoke(u64),
    Expire {
        later: u64,
    },
    List {
        range: KeyRange,
        back: u64,
        limit: Option<usize>,
    },
    Watch {
        range: KeyRange,
        back: u64,
    },
    Drain,
    Reopen,
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&KEYS[..])
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        key().prop_map(KeyRange::single),
        key().prop_map(KeyRange::prefix),
        (key(), key()).prop_map(|(start, end)| KeyRange::half_open(start, end)),
        Just(KeyRange::all()),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    use Compare::{Equal, Greater, Less, NotEqual};
    let compare = || prop::sample::select(&[Equal, NotEqual, Less, Greater][..]);
    let test = prop_oneof![
        Just(Test::Exists),
        Just(Test::Absent),
        (compare(), 0..12_u64).prop_map(|(compare, at)| Test::Modified(compare, Revision(at))),
        (compare(), 0..12_u64).prop_map(|(compare, at)| Test::Created(compare, Revision(at))),
        (compare(), 0..4_u64).prop_map(|(compare, version)| Test::Version(compare, version)),
        (compare(), 0..4_u8).prop_map(|(compare, n)| Test::Value(compare, n.to_string().into())),
    ];
    (key(), test).prop_map(|(key, test)| Condition { key: key.into(), test })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (key(), 0..4_u8, prop::option::weighted(0.3, 1..4_u64)).prop_map(|(key, n, lease)| {
            Op::Put { key: key.into(), value: n.to_string().into(), lease: lease.map(LeaseId) }
        }),
        3 => range().prop_map(Op::Delete),
        2 => range().prop_map(Op::Get),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let ops = || prop::collection::vec(op(), 0..4);
    let txn = (prop::collection::vec(condition(), 0..2), ops(), ops())
        .prop_map(|(conditions, then, otherwise)| Txn { conditions, then, otherwise });
    prop_oneof![
        20 => prop::collection::vec(txn, 1..5).prop_map(Action::Commit),
        2 => (0..8_u64).prop_map(|back| Action::Compact { back }),
        2 => (1..20_u64).prop_map(|ttl| Action::Grant { ttl }),
        1 => (1..4_u64).prop_map(Action::KeepAlive),
        1 => (1..4_u64).prop_map(Action::Revoke),
        2 => (0..10_u64).prop_map(|later| Action::Expire { later }),
        6 => (range(), 0..8_u64, prop::option::of(0..4_usize))
            .prop_map(|(range, back, limit)| Action::List { range, back, limit }),
        3 => (range(), 0..8_u64).prop_map(|(range, back)| Action::Watch { range, back }),
        4 => Just(Action::Drain),
        1 => Just(Action::Reopen),
    ]
}

/// The naive store.
#[derive(Default)]
struct Model {
    revision: u64,
    compacted: u64,
    /// When, which key, and what it then held.
    changes: Vec<(u64, String, Option<Arc<Entry>>)>,
    leases: BTreeMap<u64, (u64, u64)>,
    last_lease: u64,
}

impl Model {
    fn state(&self, at: u64) -> BTreeMap<&str, &Arc<Entry>> {
        let mut state = BTreeMap::new();
        for (_, key, entry) in self.changes.iter().filter(|(revision, ..)| *revision <= at) {
            match entry {
                Some(entry) => state.insert(&key[..], entry),
                None => state.remove(&key[..]),
            };
        }
        state
    }

    fn list(&self, range: &KeyRange, at: u64) -> Vec<Arc<Entry>> {
        let state = self.state(at).into_iter();
        state.filter(|(key, _)| range.contains(key.as_bytes())).map(|(_, e)| e.clone()).collect()
    }

    /// The current value; those that the revision under way wrote included.
    fn latest(&self, key: &str) -> Option<Arc<Entry>> {
        self.state(u64::MAX).get(key).map(|entry| (*entry).clone())
    }

    fn readable(&self, at: u64) -> bool {
        (self.compacted..=self.revision).contains(&at)
    }

    fn holds(&self, condition: &Condition) -> bool {
        let entry = self.latest(std::str::from_utf8(&condition.key).unwrap());
        let number = |compare: &Compare, found: u64, given: u64| match compare {
            Compare::Equal => found == given,
            Compare::NotEqual => found != given,
            Compare::Less => found < given,
            Compare::Greater => found > given,
        };
        let of = |field: fn(&Entry) -> u64| entry.as_deref().map_or(0, field);
        match &condition.test {
            Test::Exists => entry.is_some(),
            Test::Absent => entry.is_none(),
            Test::Modified(compare, given) => number(compare, of(|e| e.modified.0), given.0),
            Test::Created(compare, given) => number(compare, of(|e| e.created.0), given.0),
            Test::Version(compare, given) => number(compare, of(|e| e.version), *given),
            Test::Value(compare, given) => {
                entry.is_some_and(|e| number(compare, e.value[0].into(), given[0].into()))
            }
        }
    }

    fn duplicates(ops: &[Op]) -> bool {
        let keys = ops.iter().filter_map(|op| match op {
            Op::Put { key, .. } => Some(key),
            _ => None,
        });
        let deleted = |key: &[u8]| {
            ops.iter().any(|op| matches!(op, Op::Delete(range) if range.contains(key)))
        };
        let keys: Vec<_> = keys.collect();
        keys.iter().enumerate().any(|(n, key)| keys[..n].contains(key) || deleted(key))
    }

    fn commit(&mut self, txn: &Txn) -> Result<(bool, Vec<OpResult>), ()> {
        if Self::duplicates(&txn.then) || Self::duplicates(&txn.otherwise) {
            return Err(());
        }
        let succeeded = txn.conditions.iter().all(|condition| self.holds(condition));
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let unknown = |op: &Op| matches!(op, Op::Put { lease: Some(id), .. } if !self.leases.contains_key(&id.0));
        if ops.iter().any(unknown) {
            return Err(());
        }
        let revision = self.revision + 1;
        let results = ops.iter().map(|op| self.step(op, revision)).collect();
        self.settle();
        Ok((succeeded, results))
    }

    fn step(&mut self, op: &Op, revision: u64) -> OpResult {
        match op {
            Op::Put { key, value, lease } => {
                let name = String::from_utf8(key.to_vec()).unwrap();
                let previous = self.latest(&name);
                let entry = Arc::new(Entry {
                    key: key.clone(),
                    value: value.clone(),
                    created: previous.as_ref().map_or(Revision(revision), |e| e.created),
                    modified: Revision(revision),
                    version: previous.as_ref().map_or(0, |e| e.version) + 1,
                    lease: *lease,
                });
                self.changes.push((revision, name, Some(entry.clone())));
                OpResult::Put { entry, previous }
            }
            Op::Delete(range) => {
                let gone = self.list(range, u64::MAX);
                for entry in &gone {
                    let name = String::from_utf8(entry.key.to_vec()).unwrap();
                    self.changes.push((revision, name, None));
                }
                OpResult::Delete(gone)
            }
            Op::Get(range) => OpResult::Get(self.list(range, u64::MAX)),
        }
    }

    fn settle(&mut self) {
        self.revision =
            self.changes.last().map_or(self.revision, |(at, ..)| self.revision.max(*at));
    }

    fn compare(&mut self, outcome: Result<TxnOutcome, Error>, txn: &Txn) {
        match (outcome, self.commit(txn)) {
            (Ok(outcome), Ok((succeeded, results))) => {
                assert_eq!(outcome.succeeded, succeeded);
                assert_eq!(outcome.results, results);
                assert_eq!(outcome.revision.0, self.revision);
            }
            (Err(Error::DuplicateKey { .. } | Error::LeaseNotFound { .. }), Err(())) => {}
            (real, expected) => panic!("{real:?} where the model says {expected:?}"),
        }
    }

    fn revoke(&mut self, id: u64) -> bool {
        let known = self.leases.remove(&id).is_some();
        let revision = self.revision + 1;
        for entry in self.list(&KeyRange::all(), u64::MAX) {
            if known && entry.lease == Some(LeaseId(id)) {
                self.step(&Op::delete(entry.key.clone()), revision);
            }
        }
        self.settle();
        known
    }

    /// The changes of a range from a revision on, as they are told.
    fn told(&self, range: &KeyRange, from: u64) -> Vec<(u64, String)> {
        let mut before: BTreeMap<&str, &Arc<Entry>> = BTreeMap::new();
        let mut told = Vec::new();
        for (revision, key, entry) in &self.changes {
            let previous = match entry {
                Some(entry) => before.insert(key, entry),
                None => before.remove(&key[..]),
            };
            if *revision >= from && range.contains(key.as_bytes()) {
                told.push((*revision, format!("{key}: {previous:?} -> {entry:?}")));
            }
        }
        told
    }
}

fn told(event: &Event) -> (u64, String) {
    let (key, before, after) = (event.key(), event.previous(), event.entry());
    (event.revision().0, format!("{}: {before:?} -> {after:?}", key.escape_ascii()))
}

/// A watch, and from where on it still has to deliver.
struct Watching {
    watch: Watch,
    range: KeyRange,
    next: u64,
}

impl Watching {
    /// Compares what the watch says with the model; `false` if it rightly ended.
    fn drain(&mut self, model: &Model) -> bool {
        let expected = model.told(&self.range, self.next);
        let mut expected = expected.into_iter().peekable();
        if expected.peek().is_some_and(|(revision, _)| *revision <= model.compacted) {
            let error = self.watch.next().now_or_never().unwrap().unwrap_err();
            assert!(matches!(error, Error::Compacted { .. }), "Reliable: {error}");
            return false;
        }
        while let Some(batch) = self.watch.next().now_or_never() {
            let batch = batch.unwrap();
            for event in &batch.events {
                assert_eq!(Some(told(event)), expected.next(), "Ordered, Unique, Reliable");
            }
            let pending = expected.peek().map(|(revision, _)| *revision);
            assert!(pending.is_none_or(|at| at > batch.progress.0), "Bookmarkable, Atomic");
            self.next = self.next.max(batch.progress.0 + 1);
        }
        assert_eq!(expected.next(), None, "Reliable");
        assert_eq!(self.watch.progress().0, model.revision, "Bookmarkable");
        true
    }
}

struct Run<F> {
    open: F,
    store: Arc<dyn Store>,
    model: Model,
    watches: Vec<Watching>,
    now: u64,
}

impl<F: Fn(Option<Arc<dyn Store>>) -> Arc<dyn Store>> Run<F> {
    fn new(open: F) -> Self {
        let store = open(None);
        let model = Model { revision: 1, ..Model::default() };
        Self { open, store, model, watches: Vec::new(), now: 0 }
    }

    async fn act(&mut self, action: Action) {
        let model = &mut self.model;
        match action {
            Action::Commit(txns) => {
                let commits = txns.iter().map(|txn| self.store.commit(txn.clone()));
                let outcomes = join_all(commits).await;
                for (outcome, txn) in outcomes.into_iter().zip(&txns) {
                    model.compare(outcome, txn);
                }
            }
            Action::Compact { back } => {
                let to = model.revision.saturating_sub(back);
                let done = self.store.compact(Revision(to)).await;
                assert_eq!(done.is_ok(), to > model.compacted, "{done:?}");
                model.compacted = model.compacted.max(to);
            }
            Action::Grant { ttl } => {
                let id = self.store.grant(None, ttl, self.now).await.unwrap();
                model.last_lease += 1;
                assert_eq!(id.0, model.last_lease);
                model.leases.insert(id.0, (ttl, self.now + ttl));
            }
            Action::KeepAlive(id) => {
                let kept = self.store.keep_alive(LeaseId(id), self.now).await.ok();
                let lease = model.leases.get_mut(&id);
                let expected = lease.map(|(ttl, deadline)| {
                    *deadline = self.now + *ttl;
                    *deadline
                });
                assert_eq!(kept, expected);
            }
            Action::Revoke(id) => {
                let revoked = self.store.revoke(LeaseId(id)).await;
                assert_eq!(revoked.is_ok(), model.revoke(id), "{revoked:?}");
            }
            Action::Expire { later } => {
                self.now += later;
                let ended = self.store.expire(self.now).await.unwrap();
                let due = model.leases.iter().filter(|(_, (_, deadline))| *deadline <= self.now);
                let due: Vec<u64> = due.map(|(id, _)| *id).collect();
                assert_eq!(ended, due.iter().copied().map(LeaseId).collect::<Vec<_>>());
                due.iter().for_each(|id| assert!(model.revoke(*id)));
            }
            Action::List { range, back, limit } => self.list(&range, back, limit),
            Action::Watch { range, back } => {
                let next = (model.revision + 2).saturating_sub(back);
                match self.store.watch(range.clone(), Some(Revision(next))) {
                    Ok(watch) => self.watches.push(Watching { watch, range, next }),
                    Err(Error::Compacted { .. }) => assert!(next <= model.compacted),
                    Err(error) => panic!("{error}"),
                }
            }
            Action::Drain => self.watches.retain_mut(|watching| watching.drain(&self.model)),
            Action::Reopen => self.reopen(),
        }
    }

    fn list(&self, range: &KeyRange, back: u64, limit: Option<usize>) {
        let at = (self.model.revision + 1).saturating_sub(back);
        let listing = self.store.list(range, Some(Revision(at)), limit);
        assert_eq!(listing.is_ok(), self.model.readable(at), "{listing:?}");
        let Ok(listing) = listing else { return };
        let expected = self.model.list(range, at);
        let shown = limit.unwrap_or(usize::MAX).min(expected.len());
        assert_eq!(listing.entries, expected[..shown]);
        assert_eq!((listing.count, listing.more), (expected.len(), shown < expected.len()));
        for key in KEYS {
            let found = self.store.get(key.as_bytes(), Some(Revision(at))).unwrap();
            assert_eq!(found.as_ref(), self.model.state(at).get(key).copied());
        }
    }

    /// Closes and opens the store; watches are taken up again where their progress says.
    fn reopen(&mut self) {
        let mut kept = Vec::new();
        for Watching { watch, range, next } in self.watches.drain(..) {
            kept.push((range, next.max(watch.progress().0 + 1)));
        }
        let empty: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let store = std::mem::replace(&mut self.store, empty);
        self.store = (self.open)(Some(store));
        for (range, next) in kept {
            match self.store.watch(range.clone(), Some(Revision(next))) {
                Ok(watch) => self.watches.push(Watching { watch, range, next }),
                Err(Error::Compacted { .. }) => assert!(next <= self.model.compacted),
                Err(error) => panic!("Resumable: {error}"),
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.store.revision().0, self.model.revision);
        assert_eq!(self.store.compacted().0, self.model.compacted);
        let next = self.model.leases.values().map(|(_, deadline)| *deadline).min();
        assert_eq!(self.store.next_expiry(), next);
        self.list(&KeyRange::all(), 1, None);
    }
}

fn agree(actions: Vec<Action>, open: impl Fn(Option<Arc<dyn Store>>) -> Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut run = Run::new(open);
        for action in actions {
            run.act(action).await;
            run.check();
        }
        for back in 0..run.model.revision - run.model.compacted + 2 {
            run.list(&KeyRange::all(), back, None);
        }
        run.act(Action::Drain).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_engine_agrees(actions in prop::collection::vec(action(), 0..60)) {
        agree(actions, |old| old.unwrap_or_else(|| Arc::new(MemoryStore::new())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_disk_engine_agrees(actions in prop::collection::vec(action(), 0..60)) {
        let directory = tempfile::tempdir().unwrap();
        let options = DiskOptions { durability: Durability::Relaxed, ..DiskOptions::default() };
        agree(actions, |old| {
            drop(old);
            Arc::new(DiskStore::open(directory.path(), options.clone()).unwrap())
        });
    }
}
