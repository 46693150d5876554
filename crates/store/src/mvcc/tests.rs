//! The versions of one key under compaction, case by case; a batch against its parts.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{LeaseId, Limits, Op, Txn};

/// Versions at these revisions; negative ones are deletions.
fn history(revisions: &[i64]) -> History {
    let mut versions = revisions.iter().map(|revision| {
        let at = Position { revision: Revision(revision.unsigned_abs()), sub: 0 };
        let entry = Entry {
            key: Bytes::from("k"),
            value: Bytes::new(),
            created: at.revision,
            modified: at.revision,
            version: 1,
            lease: None,
        };
        Version { at, entry: (*revision > 0).then(|| Arc::new(entry)) }
    });
    let mut history = History::new(versions.next().unwrap());
    versions.for_each(|version| history.push(version));
    history
}

fn revisions<'a>(versions: impl Iterator<Item = &'a Version>) -> Vec<i64> {
    let signed = |version: &Version| {
        let revision = i64::try_from(version.at.revision.0).unwrap();
        if version.entry.is_some() { revision } else { -revision }
    };
    versions.map(signed).collect()
}

#[test]
fn compaction_forgets_what_no_later_read_sees() {
    let check = |versions: &[i64], to, left: &[i64]| {
        let mut history = history(versions);
        let seen = |history: &History, at| history.at(Revision(at)).map(|entry| entry.modified);
        let before: Vec<_> = (to..20).map(|at| seen(&history, at)).collect();
        let forgotten = revisions(history.unseen_from(Revision(to)));
        let expected: Vec<_> = versions.iter().filter(|v| !left.contains(v)).copied().collect();
        assert_eq!(forgotten, expected, "{versions:?} to {to}");
        if history.compact(Revision(to)) {
            assert_eq!(revisions(history.versions()), left, "{versions:?} to {to}");
            let after: Vec<_> = (to..20).map(|at| seen(&history, at)).collect();
            assert_eq!(after, before, "{versions:?} to {to}");
        } else {
            assert!(left.is_empty(), "{versions:?} to {to}");
        }
    };
    check(&[5], 4, &[5]);
    check(&[5], 5, &[5]);
    check(&[5], 9, &[5]);
    check(&[5, 7, 9], 4, &[5, 7, 9]);
    check(&[5, 7, 9], 6, &[5, 7, 9]);
    check(&[5, 7, 9], 7, &[7, 9]);
    check(&[5, 7, 9], 8, &[7, 9]);
    check(&[5, 7, 9], 9, &[9]);
    check(&[5, -7], 6, &[5, -7]);
    check(&[5, -7], 7, &[]);
    check(&[5, -7], 8, &[]);
    check(&[5, -7, 9], 7, &[9]);
    check(&[5, -7, 9], 8, &[9]);
    check(&[5, -7, 9, -11], 9, &[9, -11]);
    check(&[-5, 7], 5, &[7]);
    check(&[-5], 5, &[]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, Option<u64>),
    Delete(&'static str),
    List,
    Grant(u64),
    KeepAlive(u64),
    Revoke(u64),
    Expire,
}

impl Step {
    /// Stages it at a time, and says what it answers.
    fn stage(&self, now: u64, core: &Mvcc, overlay: &mut Overlay) -> String {
        let mut commit =
            |op| format!("{:?}", overlay.commit(core, Txn::new().then(op), &Limits::default()));
        match *self {
            Self::Put(key, lease) => {
                let (key, value) = (key.into(), now.to_string().into());
                commit(Op::Put { key, value, lease: lease.map(LeaseId) })
            }
            Self::Delete(prefix) => commit(Op::Delete(KeyRange::prefix(prefix))),
            Self::List => commit(Op::Get(KeyRange::all())),
            Self::Grant(ttl) => format!("{:?}", overlay.grant(core, None, ttl, now)),
            Self::KeepAlive(id) => format!("{:?}", overlay.keep_alive(core, LeaseId(id), now)),
            Self::Revoke(id) => format!("{:?}", overlay.revoke(core, LeaseId(id))),
            Self::Expire => format!("{:?}", overlay.expire(core, now)),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(&["a", "a1", "a2", "b"][..]);
    prop_oneof![
        6 => (key(), prop::option::of(1..5_u64)).prop_map(|(key, lease)| Step::Put(key, lease)),
        2 => key().prop_map(Step::Delete),
        2 => Just(Step::List),
        3 => (1..9_u64).prop_map(Step::Grant),
        1 => (1..5_u64).prop_map(Step::KeepAlive),
        2 => (1..5_u64).prop_map(Step::Revoke),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However steps are put together into batches, they do the same.
    #[test]
    fn a_batch_does_what_its_steps_do(
        steps in prop::collection::vec(step(), 0..40),
        size in 2..20_usize,
    ) {
        let run = |size: usize| {
            let (mut core, mut answers) = (Mvcc::default(), Vec::new());
            for (n, batch) in steps.chunks(size).enumerate() {
                let mut overlay = Overlay::new(&core);
                for (m, step) in batch.iter().enumerate() {
                    answers.push(step.stage((n * size + m) as u64, &core, &mut overlay));
                }
                core.apply(overlay.finish());
            }
            (answers, format!("{core:?}"))
        };
        prop_assert_eq!(run(1), run(size));
    }
}
