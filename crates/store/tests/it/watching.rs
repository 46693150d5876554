//! Watches among threads: many writers, watches that keep up and watches that do not, compaction
//! under them, and the store closed and opened again. Every watch is held to its promises against
//! the full history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use store::conformance::{Observation, check_observation, check_truth};
use store::{
    DiskOptions, DiskStore, Durability, Error, Event, KeyRange, MemoryStore, Op, Revision, Store,
    Txn, Watch,
};

use crate::child::Dice;

const WRITERS: usize = 4;
const ROUNDS: usize = 300;

async fn write(store: Arc<dyn Store>, writer: usize) {
    let mut dice = Dice(writer as u64);
    for n in 0..ROUNDS {
        let own = format!("own/{writer}/{}", dice.below(20));
        let shared = format!("shared/{}", dice.below(10));
        let second = if dice.below(4) == 0 {
            Op::delete(shared)
        } else {
            Op::put(shared, format!("{writer} {n}"))
        };
        let txn = Txn::new().then(Op::put(own, format!("{n}"))).then(second);
        store.commit(txn).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Keeps history short, but not shorter than what the witness has seen.
async fn compact(store: Arc<dyn Store>, witnessed: Arc<AtomicU64>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let to = witnessed.load(Ordering::Relaxed).min(store.revision().0.saturating_sub(20));
        match store.compact(Revision(to)).await {
            Ok(()) | Err(Error::Compacted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Watches until `end`; reads only now and then if it is slow. Whenever it is too late it starts
/// anew after what a list would show, as an informer does.
async fn observe(
    store: Arc<dyn Store>,
    range: KeyRange,
    from: Revision,
    end: Revision,
    slowness: usize,
    witnessed: Option<Arc<AtomicU64>>,
) -> Vec<Observation> {
    let open = |from| store.watch(range.clone(), Some(from));
    let observation = |from| Observation { range: range.clone(), from, batches: Vec::new() };
    let mut observations = vec![observation(from)];
    let mut watch: Result<Watch, Error> = open(from);
    let mut progress = from;
    while progress < end {
        for _ in 0..slowness {
            tokio::task::yield_now().await;
        }
        let next = match &mut watch {
            Ok(watch) => watch.try_next(),
            Err(error) => Err(error.clone()),
        };
        match next {
            Ok(Some(batch)) => {
                progress = batch.progress;
                let last = observations.last_mut().unwrap();
                last.batches.push((batch.events, batch.progress));
            }
            Ok(None) => {
                progress = watch.as_ref().unwrap().progress();
                let last = observations.last_mut().unwrap();
                last.batches.push((Vec::new(), progress));
                tokio::task::yield_now().await;
            }
            Err(Error::Compacted { .. }) => {
                let list = store.list(&range, None, Some(0)).unwrap();
                progress = list.revision;
                observations.push(observation(progress.next()));
                watch = open(progress.next());
            }
            Err(error) => panic!("{error}"),
        }
        if let Some(witnessed) = &witnessed {
            witnessed.store(progress.0, Ordering::Relaxed);
        }
    }
    observations
}

/// Returns all that happened.
fn run(store: &Arc<dyn Store>, seen: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let start = store.revision();
    let end = Revision(start.0 + (WRITERS * ROUNDS) as u64);
    let truth = runtime.block_on(async {
        let witnessed = Arc::new(AtomicU64::new(start.0));
        let over = Arc::new(AtomicBool::new(false));
        let watch = |range, slowness, witnessed| {
            tokio::spawn(observe(store.clone(), range, start.next(), end, slowness, witnessed))
        };
        let witness = watch(KeyRange::all(), 0, Some(witnessed.clone()));
        let mut watches = Vec::new();
        for slowness in [0, 1, 50, 500] {
            for range in [KeyRange::all(), KeyRange::prefix("shared/"), KeyRange::prefix("own/1/")]
            {
                watches.push(watch(range, slowness, None));
            }
        }
        let compactor = tokio::spawn(compact(store.clone(), witnessed, over.clone()));
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let witness = witness.await.unwrap();
        over.store(true, Ordering::Relaxed);
        compactor.await.unwrap();
        assert_eq!(witness.len(), 1, "nothing is compacted that the witness has not seen");
        let seen = seen.into_iter().chain(witness[0].batches.iter().flat_map(|(e, _)| e.clone()));
        let truth: Vec<_> = seen.collect();
        check_truth(&truth);
        for watch in watches {
            for observed in watch.await.unwrap() {
                check_observation(&truth, &observed);
            }
        }
        truth
    });
    assert_eq!(store.revision(), end);
    truth
}

#[test]
fn watches_of_the_memory_engine_keep_their_promises() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let truth = run(&store, Vec::new());
    run(&store, truth);
}

#[test]
fn watches_of_the_disk_engine_keep_their_promises_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let options = DiskOptions { durability: Durability::Relaxed, ..DiskOptions::default() };
    let open = || -> Arc<dyn Store> {
        Arc::new(DiskStore::open(directory.path(), options.clone()).unwrap())
    };
    let store = open();
    let truth = run(&store, Vec::new());
    // Resumable: a client that stopped somewhere goes on after the restart.
    let stopped = store.revision().0 - 10;
    drop(store);
    let store = open();
    let rest: Vec<_> = truth.iter().filter(|event| event.revision().0 > stopped).cloned().collect();
    let mut watch = store.watch(KeyRange::all(), Some(Revision(stopped + 1))).unwrap();
    assert_eq!(watch.try_next().unwrap().unwrap().events, rest);
    run(&store, truth);
}
