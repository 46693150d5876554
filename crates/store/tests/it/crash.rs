//! A process is killed outright while it writes: what it acknowledged is there afterwards, what
//! it did not is there as a whole or not at all.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use futures::future::join_all;
use store::{DiskOptions, DiskStore, KeyRange, LeaseId, Op, Revision, Store, Txn};

use crate::child::{self, Dice};

const ROUNDS: usize = 24;
const WRITERS: usize = 8;

/// Writes until it is killed, and says what was acknowledged.
#[test]
fn child() {
    let Some(directory) = child::directory() else { return };
    let store = DiskStore::open(directory, DiskOptions::default()).unwrap();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    };
    let store = &store;
    let writer = |writer: usize| async move {
        let start = store.revision().0;
        let lease = store.grant(None, u64::MAX, 0).await.unwrap();
        say(format!("lease {lease}\n"));
        for n in start.. {
            // Both keys in one transaction; values of all sizes, to move pages about.
            let value = format!("{n} {}", "x".repeat(n as usize * 37 % 3_000));
            let pair = ["x", "y"].map(|half| format!("{half}/{writer}/{}", n % 7));
            let put = pair.map(|key| Op::Put {
                key: key.into(),
                value: value.clone().into(),
                lease: Some(lease),
            });
            let txn = Txn { then: put.to_vec(), ..Txn::new() };
            let revision = store.commit(txn).await.unwrap().revision;
            say(format!("put {revision} {writer}/{} {n}\n", n % 7));
            if n % 11 == 0 {
                let key = format!("d/{writer}");
                store.commit(Txn::new().then(Op::put(key.clone(), value))).await.unwrap();
                let gone = store.commit(Txn::new().then(Op::delete(key))).await.unwrap().revision;
                say(format!("delete {gone} {writer} {n}\n"));
            }
            if writer == 0 && n % 20 == 0 {
                let to = store.revision().0.saturating_sub(50);
                if store.compact(Revision(to)).await.is_ok() {
                    say(format!("compact {to} - -\n"));
                }
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(join_all((0..WRITERS).map(writer)));
}

/// What was acknowledged, over all rounds.
#[derive(Default)]
struct Acknowledged {
    last: u64,
    compacted: u64,
    leases: Vec<u64>,
    /// The last write of each pair of keys: when, and its number.
    pairs: BTreeMap<String, (u64, String)>,
    /// When the key of each writer was last deleted.
    deletions: BTreeMap<String, u64>,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["lease", lease] => self.leases.push(lease.parse().unwrap()),
            [what, revision, key, number] => {
                let revision: u64 = revision.parse().unwrap();
                match what {
                    "put" => {
                        let old = self.pairs.insert(key.to_owned(), (revision, number.to_owned()));
                        assert!(old.is_none_or(|(old, _)| old < revision), "revisions go back");
                    }
                    "delete" => drop(self.deletions.insert(key.to_owned(), revision)),
                    "compact" => {
                        self.compacted = self.compacted.max(revision);
                        return;
                    }
                    _ => return,
                }
                self.last = self.last.max(revision);
            }
            // What the test harness says.
            _ => {}
        }
    }

    fn check(&self, store: &DiskStore) {
        assert!(store.revision().0 >= self.last, "an acknowledged write is lost");
        assert!(store.compacted().0 >= self.compacted, "an acknowledged compaction is lost");
        for (pair, (revision, number)) in &self.pairs {
            let [x, y] = ["x", "y"].map(|half| {
                let key = format!("{half}/{pair}");
                let at = Revision(*revision).max(store.compacted());
                let then = store.get(key.as_bytes(), Some(at)).unwrap().unwrap();
                assert!(then.modified.0 >= *revision, "{key} at {revision} is lost");
                if then.modified.0 == *revision {
                    let found = std::str::from_utf8(&then.value).unwrap().split(' ').next();
                    assert_eq!(found, Some(&number[..]), "{key} at {revision}");
                }
                store.get(key.as_bytes(), None).unwrap().unwrap()
            });
            assert_eq!((x.modified, &x.value), (y.modified, &y.value), "{pair} is torn");
        }
        for (writer, revision) in &self.deletions {
            let key = format!("d/{writer}");
            let found = store.get(key.as_bytes(), None).unwrap();
            assert!(found.is_none_or(|entry| entry.created.0 > *revision), "{key} came back");
        }
        for lease in &self.leases {
            assert!(store.lease(LeaseId(*lease)).is_some(), "lease {lease} is lost");
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut dice = Dice(1);
    for round in 0..ROUNDS {
        let command = Command::new(child::binary());
        let mut running = child::start(command, "crash::child", directory.path());
        // Some are killed before they have opened the store.
        let lines = if round % 8 == 7 { 0 } else { 10 + dice.below(250) };
        for _ in 0..lines {
            acknowledged.hear(&running.hear().unwrap());
        }
        let mut rest = running.kill();
        // It may have been cut short.
        rest.pop();
        rest.iter().for_each(|line| acknowledged.hear(line));
        let store = DiskStore::open(directory.path(), DiskOptions::default()).unwrap();
        acknowledged.check(&store);
        // The history that is left makes sense, and goes on.
        let mut watch = store.watch(KeyRange::all(), Some(store.compacted().next())).unwrap();
        while let Some(batch) = watch.try_next().unwrap() {
            for event in batch.events {
                let before = event.previous().map(|entry| entry.modified);
                assert!(before.is_none_or(|before| before < event.revision()));
            }
        }
    }
    assert!(acknowledged.last > 1_000, "too little was written: {}", acknowledged.last);
    assert!(acknowledged.compacted > 0);
}
