//! Measures what the store promises: durable creates per second by number of concurrent writers,
//! the restart with 55,000 objects of 2.5 KB, its memory, and what a write costs with 6,000 watches.
//!
//! `cargo run --release -p store --example measure_store [DIRECTORY]`; the directory should be on the
//! disk to measure, and is filled and emptied.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use bytes::Bytes;
use futures::future::join_all;
use store::{DiskOptions, DiskStore, Durability, KeyRange, MemoryStore, Op, Store, Test, Txn};
use tokio::runtime::Builder;

const OBJECTS: usize = 55_000;
const OBJECT_BYTES: usize = 2_500;
const TIME: Duration = Duration::from_secs(5);

fn main() {
    let mut args = env::args().skip(1);
    let first = args.next();
    if let (Some("restart"), Some(directory)) = (first.as_deref(), args.next()) {
        return restart(directory.as_ref());
    }
    let scratch = first.map_or_else(env::temp_dir, PathBuf::from).join("store-measure");
    let _ = fs::remove_dir_all(&scratch);
    for writers in [1, 32, 128] {
        durable_creates(&scratch.join(writers.to_string()), writers);
    }
    watched_writes();
    restarts(&scratch.join("restart"));
    fs::remove_dir_all(&scratch).unwrap();
}

fn open(directory: &Path, durability: Durability) -> DiskStore {
    DiskStore::open(directory, DiskOptions { durability, ..DiskOptions::default() }).unwrap()
}

fn create(key: String) -> Txn {
    let value = Bytes::from(vec![b'x'; OBJECT_BYTES]);
    Txn::new().when(key.clone(), Test::Absent).then(Op::put(key, value))
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().build().unwrap().block_on(work)
}

/// Each writer has one create under way at a time.
fn durable_creates(directory: &Path, writers: usize) {
    let store = open(directory, Durability::Immediate);
    let start = Instant::now();
    let writer = |writer: usize| {
        let store = &store;
        async move {
            let mut waits = Vec::new();
            while start.elapsed() < TIME {
                let begun = Instant::now();
                store.commit(create(format!("/o/{writer}/{}", waits.len()))).await.unwrap();
                waits.push(begun.elapsed());
            }
            waits
        }
    };
    let mut waits = wait(join_all((0..writers).map(writer))).concat();
    let rate = waits.len() as f64 / start.elapsed().as_secs_f64();
    waits.sort_unstable();
    let (median, worst) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    println!("durable creates, {writers} writers: {rate:.0}/s, p50 {median:.1?}, p99 {worst:.1?}");
}

/// 1,000 watches of one prefix and 5,000 of others; nobody reads, as if all were slow.
fn watched_writes() {
    let store = MemoryStore::new();
    let shared = (0..1_000).map(|_| KeyRange::prefix("/hot/"));
    let others = (0..5_000).map(|n| KeyRange::prefix(format!("/cold/{n}/")));
    let watches: Vec<_> =
        shared.chain(others).map(|range| store.watch(range, None).unwrap()).collect();
    for prefix in ["/hot/", "/cold/7/", "/none/"] {
        let start = Instant::now();
        let writes = 100_000;
        wait(async {
            for n in 0..writes {
                let put = Txn::new().then(Op::put(format!("{prefix}{}", n % 100), "value"));
                store.commit(put).await.unwrap();
            }
        });
        let cost = start.elapsed() / writes;
        println!("a write in memory under {prefix} with {} watches: {cost:.1?}", watches.len());
    }
}

fn restarts(directory: &Path) {
    let store = open(directory, Durability::Relaxed);
    wait(async {
        for chunk in (0..OBJECTS).collect::<Vec<_>>().chunks(1_000) {
            let creates = chunk.iter().map(|n| {
                store.commit(create(format!("/registry/pods/namespace-{}/pod-{n:08}", n % 100)))
            });
            join_all(creates).await;
        }
    });
    let unclean = directory.with_extension("unclean");
    fs::create_dir(&unclean).unwrap();
    fs::copy(directory.join("store.redb"), unclean.join("store.redb")).unwrap();
    let size = fs::metadata(directory.join("store.redb")).unwrap().len();
    drop(store);
    println!("{OBJECTS} objects of {OBJECT_BYTES} B take {} MiB on disk", size >> 20);
    for (how, directory) in [("clean", directory), ("unclean", &unclean)] {
        let child =
            Command::new(env::current_exe().unwrap()).arg("restart").arg(directory).output();
        print!("restart after a {how} end: {}", String::from_utf8_lossy(&child.unwrap().stdout));
    }
}

fn restart(directory: &Path) {
    let before = resident();
    let start = Instant::now();
    let store = open(directory, Durability::Immediate);
    let took = start.elapsed();
    let count = store.list(&KeyRange::all(), None, Some(0)).unwrap().count;
    let used = resident() - before;
    let extra = (used as i64 - (count * OBJECT_BYTES) as i64) / count as i64;
    println!(
        "{} ms, {count} objects, {} MiB resident, {extra} B per object on top of the value",
        took.as_millis(),
        used >> 20
    );
}

/// Bytes of memory in use by this process.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
