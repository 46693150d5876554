//! A data file that is not what was written: refused by name, or opened with nothing missing. If
//! the lock file with its note of the last commit is lost as well, that one commit may be missing.
//! Never a panic, never something else than what was written.

use std::fs;
use std::path::Path;

use store::{DiskOptions, DiskStore, Durability, Entry, Error, KeyRange, Op, Revision, Store, Txn};

use crate::child::Dice;

const PAGE: usize = 4096;

fn open(directory: &Path) -> Result<DiskStore, Error> {
    let options = DiskOptions { durability: Durability::Relaxed, ..DiskOptions::default() };
    DiskStore::open(directory, options)
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn put(store: &DiskStore, key: String, value: Vec<u8>) -> Result<Revision, Error> {
    wait(store.commit(Txn::new().then(Op::put(key, value)))).map(|outcome| outcome.revision)
}

/// What was in the store, and what its file looked like while it was open and after it closed.
struct Original {
    last: Revision,
    states: Vec<Vec<Entry>>,
    files: [Vec<u8>; 2],
    lock: Vec<u8>,
}

fn state(store: &DiskStore, at: Revision) -> Vec<Entry> {
    let listing = store.list(&KeyRange::all(), Some(at), None).unwrap();
    listing.entries.iter().map(|entry| Entry::clone(entry)).collect()
}

fn original() -> Original {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for n in 0..150_usize {
        let value = vec![b'a' + (n % 26) as u8; n * 53 % 5_000];
        put(&store, format!("key/{}", n % 60), value).unwrap();
        if n % 10 == 9 {
            wait(store.commit(Txn::new().then(Op::delete(format!("key/{}", n % 7))))).unwrap();
        }
        if n == 100 {
            wait(store.compact(Revision(80))).unwrap();
        }
        wait(store.grant(None, 1_000, 0)).unwrap();
    }
    let last = put(&store, "last".to_owned(), b"last".to_vec()).unwrap();
    let states = [last.previous(), last].map(|at| state(&store, at)).to_vec();
    let file = directory.path().join("store.redb");
    let unclean = fs::read(&file).unwrap();
    drop(store);
    let lock = fs::read(directory.path().join("lock")).unwrap();
    Original { last, states, files: [unclean, fs::read(&file).unwrap()], lock }
}

#[derive(Default, Debug)]
struct Outcomes {
    refused: usize,
    whole: usize,
    without_the_last: usize,
}

impl Original {
    /// Opens a damaged file, and holds it to the promise.
    fn check(&self, damage: &str, file: &[u8], noted: bool, outcomes: &mut Outcomes) {
        let directory = tempfile::tempdir().unwrap();
        if noted {
            fs::write(directory.path().join("lock"), &self.lock).unwrap();
        }
        fs::write(directory.path().join("store.redb"), file).unwrap();
        let store = match open(directory.path()) {
            Ok(store) => store,
            Err(error @ (Error::Corrupt { .. } | Error::NewerFormat { .. })) => {
                assert!(error.to_string().contains("store.redb"), "{damage}: {error}");
                outcomes.refused += 1;
                return;
            }
            Err(error) => panic!("{damage}: {error}"),
        };
        let found = state(&store, store.revision());
        if store.revision() == self.last {
            assert!(found == self.states[1], "{damage}: opened with something else");
            outcomes.whole += 1;
        } else {
            assert!(!noted, "{damage}: a commit is missing");
            assert_eq!(store.revision(), self.last.previous(), "{damage}");
            assert!(found == self.states[0], "{damage}: opened with something else");
            outcomes.without_the_last += 1;
        }
        // It can be written, or says why not; what it took is there afterwards.
        let mut written = Vec::new();
        for n in 0..8 {
            match put(&store, format!("more/{n}"), vec![b'x'; 3_000]) {
                Ok(revision) => written.push((format!("more/{n}"), revision)),
                Err(Error::Corrupt { .. }) => {}
                Err(error) => panic!("{damage}: {error}"),
            }
        }
        drop(store);
        match open(directory.path()) {
            Ok(store) => {
                for (key, revision) in written {
                    let entry = store.get(key.as_bytes(), None).unwrap();
                    assert_eq!(entry.map(|e| e.modified), Some(revision), "{damage}: {key}");
                }
            }
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("{damage}: {error}"),
        }
    }
}

#[test]
fn a_damaged_file_is_refused_or_whole() {
    let outcomes = damage_everything(true);
    assert!(outcomes.refused > 50 && outcomes.whole > 20, "{outcomes:?}");
    assert_eq!(outcomes.without_the_last, 0);
}

#[test]
fn a_damaged_file_without_its_note_may_lack_the_last_commit() {
    let outcomes = damage_everything(false);
    assert!(outcomes.refused > 50 && outcomes.whole > 20, "{outcomes:?}");
}

fn damage_everything(noted: bool) -> Outcomes {
    let original = original();
    let mut outcomes = Outcomes::default();
    let mut dice = Dice(7);
    for file in &original.files {
        original.check("none", file, noted, &mut outcomes);
        assert_eq!(outcomes.refused, 0, "what is not damaged is not refused");
    }
    for file in &original.files {
        let used: Vec<_> = (0..file.len() / PAGE)
            .filter(|page| file[page * PAGE..(page + 1) * PAGE].iter().any(|byte| *byte != 0))
            .collect();
        let mut check = |damage: String, change: &dyn Fn(&mut Vec<u8>)| {
            let mut damaged = file.clone();
            change(&mut damaged);
            if damaged != *file {
                original.check(&damage, &damaged, noted, &mut outcomes);
            }
        };
        // The file's header decides which commit counts.
        for at in (0..320).step_by(5) {
            let bit = dice.below(8);
            check(format!("bit {bit} of {at}"), &|file| file[at] ^= 1 << bit);
        }
        for _ in 0..60 {
            let (page, at, bit) = (used[dice.below(used.len())], dice.below(PAGE), dice.below(8));
            let at = page * PAGE + at;
            check(format!("bit {bit} of {at}"), &|file| file[at] ^= 1 << bit);
        }
        for _ in 0..25 {
            let page = used[dice.below(used.len())] * PAGE;
            check(format!("no page {page}"), &|file| file[page..page + PAGE].fill(0));
            let other = used[dice.below(used.len())] * PAGE;
            check(format!("page {page} at {other}"), &|file| {
                file.copy_within(page..page + PAGE, other);
            });
        }
        for _ in 0..20 {
            let length = dice.below(file.len());
            check(format!("cut to {length}"), &|file| file.truncate(length));
        }
        check("emptied".to_owned(), &Vec::clear);
        check("lengthened".to_owned(), &|file| file.extend([0xa5; PAGE]));
    }
    outcomes
}
