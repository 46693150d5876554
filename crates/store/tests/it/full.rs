//! No space left: a process that may not let files grow past a limit, until it may again.

use std::io::{BufRead, Write};
use std::process::Command;

use store::{DiskOptions, DiskStore, Error, KeyRange, Op, Revision, Store, Txn};

use crate::child;

const LIMIT: &str = "4000000";

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn put(store: &DiskStore, n: usize) -> Result<Revision, Error> {
    let txn = Txn::new().then(Op::put(format!("key/{n:06}"), vec![b'x'; 10_000]));
    wait(store.commit(txn)).map(|outcome| outcome.revision)
}

/// Writes until nothing fits any more, then again once it is told to.
#[test]
fn child() {
    let Some(directory) = child::directory() else { return };
    let store = DiskStore::open(directory, DiskOptions::default()).unwrap();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").unwrap();
    };
    let mut watch = store.watch(KeyRange::all(), None).unwrap();
    let mut n = 0;
    let error = loop {
        match put(&store, n) {
            Ok(revision) => say(format!("put {revision}")),
            Err(error) => break error,
        }
        n += 1;
    };
    let revision = store.revision();
    for _ in 0..3 {
        assert!(matches!(put(&store, n), Err(Error::Full { .. })), "it is full now, and stays so");
    }
    assert_eq!(store.revision(), revision, "what failed has no revision");
    assert_eq!(store.list(&KeyRange::all(), None, None).unwrap().entries.len(), n);
    let mut seen = 0;
    while let Some(batch) = watch.try_next().unwrap() {
        seen += batch.events.len();
    }
    assert_eq!(seen, n, "what failed is not seen");
    say(format!("full {error}"));
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    for n in n..n + 10 {
        say(format!("put {}", put(&store, n).unwrap()));
    }
    assert_eq!(store.revision(), Revision(revision.0 + 10));
    say("done".to_owned());
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    // The limit's signal would end the process; a disk sends none.
    let mut command = Command::new("sh");
    let limit = format!("--fsize={LIMIT}:unlimited");
    command.args(["-c", "trap '' XFSZ; exec prlimit \"$0\" -- \"$@\"", &limit]);
    command.arg(child::binary());
    let mut running = child::start(command, "full::child", directory.path());
    let mut acknowledged = Vec::new();
    let mut full = None;
    while let Some(line) = running.hear() {
        if let Some(revision) = line.strip_prefix("put ") {
            acknowledged.push(Revision(revision.parse().unwrap()));
        } else if let Some(error) = line.strip_prefix("full ") {
            full = Some((error.to_owned(), acknowledged.len()));
            let pid = running.child.id().to_string();
            let lifted =
                Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
            assert!(lifted.unwrap().success());
            running.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        } else if line == "done" {
            break;
        }
    }
    let (error, before) = full.expect("the limit was never reached");
    assert!(error.starts_with("no space left to write"), "{error}");
    assert!(error.contains("store.redb") && error.contains("free some"), "{error}");
    assert!(before > 20 && acknowledged.len() == before + 10, "{before}");
    assert!(running.child.wait().unwrap().success());
    let store = DiskStore::open(directory.path(), DiskOptions::default()).unwrap();
    assert_eq!(store.revision(), *acknowledged.last().unwrap());
    let found = store.list(&KeyRange::all(), None, None).unwrap().entries;
    let found: Vec<_> = found.iter().map(|entry| entry.modified).collect();
    assert_eq!(found, acknowledged);
}
