//! The conformance suite over every engine.

use std::sync::Arc;

use store::conformance::CASES;
use store::{DiskOptions, DiskStore, Durability, MemoryStore, Store};
use tokio::runtime::Builder;

/// Each case gets a store of its own and a runtime of one thread whose clock stands still.
fn run(make: impl Fn() -> Arc<dyn Store>) {
    for case in CASES.iter().copied().flatten() {
        println!("{}", case.name);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on((case.run)(make()));
    }
}

#[test]
fn the_memory_engine_conforms() {
    run(|| Arc::new(MemoryStore::new()));
}

#[test]
fn the_disk_engine_conforms() {
    for durability in [Durability::Immediate, Durability::Relaxed] {
        let directory = tempfile::tempdir().unwrap();
        let number = std::cell::Cell::new(0);
        run(|| {
            number.set(number.get() + 1);
            let path = directory.path().join(number.get().to_string());
            let options = DiskOptions { durability, ..DiskOptions::default() };
            Arc::new(DiskStore::open(path, options).unwrap())
        });
    }
}
