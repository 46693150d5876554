//! Fuzz targets of every parser that faces a network, for libFuzzer: `cargo xtask fuzz`.
//!
//! A target is a function over bytes that must neither panic nor hang nor take memory without
//! bound, and that holds what comes out to its promise. It drives the shipped code by its public door,
//! never a copy of it, and leaves nothing behind that the next input could meet (but for `kube-request`), so
//! that an input alone tells what went wrong. libFuzzer owns the arguments, so the environment says which target runs.
//!
//! What was once found stays among a target's seeds.
#![no_main]

mod boots;
mod hardware;
mod kube;
mod model;
mod traffic;

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// Names the target that runs; `list` prints all of them.
const CHOICE: &str = "FUZZ_TARGET";
/// A directory: the target's seeds are written there, and nothing is run.
const SEEDS: &str = "FUZZ_SEEDS";

/// A parser, or a few behind one door.
struct Target {
    name: &'static str,
    /// Inputs to begin with.
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8]),
}

const TARGETS: [Target; 14] = [
    Target { name: "kube-request", seeds: kube::request_seeds, run: kube::request },
    Target { name: "kube-protobuf", seeds: kube::protobuf_seeds, run: kube::protobuf },
    Target { name: "kube-apply", seeds: kube::apply_seeds, run: kube::apply },
    Target { name: "kube-patch", seeds: kube::patch_seeds, run: kube::patch },
    Target { name: "kube-cel", seeds: kube::cel_seeds, run: kube::cel },
    Target { name: "kube-selector", seeds: kube::selector_seeds, run: kube::selector },
    Target { name: "kube-bearer", seeds: kube::bearer_seeds, run: kube::bearer },
    Target { name: "kube-csr", seeds: kube::csr_seeds, run: kube::csr },
    Target { name: "redfish", seeds: hardware::redfish_seeds, run: hardware::redfish },
    Target { name: "kernel-log", seeds: hardware::log_seeds, run: hardware::log },
    Target { name: "boot", seeds: boots::seeds, run: boots::run },
    Target { name: "model-file", seeds: model::seeds, run: model::run },
    Target { name: "model-answer", seeds: traffic::answer_seeds, run: traffic::answer },
    Target { name: "model-request", seeds: traffic::request_seeds, run: traffic::request },
];

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = CHOSEN.get() {
        (target.run)(data);
    }
});

/// Settles what runs; ends the process where nothing does.
#[expect(clippy::print_stdout, clippy::exit, reason = "libFuzzer would go on")]
fn choose() {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == choice) else {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(i32::from(choice != "list"));
    };
    if let Some(dir) = std::env::var_os(SEEDS) {
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(Path::new(&dir).join(format!("seed-{number:03}")), seed)
                .expect("seeds can be written");
        }
        std::process::exit(0);
    }
    let _ = CHOSEN.set(target);
}
