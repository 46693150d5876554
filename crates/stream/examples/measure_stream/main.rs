//! One measurement per process: the parts of which `cargo xtask bench stream` makes its table.
//!
//! ```text
//! measure_stream make DIR GB              writes a model as model.tensors and model.safetensors
//! measure_stream seal DIR                 writes model.tensors once more, encrypted, as sealed.tensors
//! measure_stream load PLACE [cold] [verify] [sealed]      AWS_* and AWS_CA_BUNDLE are minded
//! measure_stream limit memcpy|pages|disk|loopback|hash FILE
//! measure_stream serve DIR [ORIGIN BYTES] prints its port, and serves until its input ends
//! measure_stream herd URL CLIENTS         so many clients ask for one object at one moment
//! ```
//! What is measured is printed as a line of JSON: bytes, seconds, seconds of all cores, and MiB of peak
//! memory beyond those bytes. A process measures once, so that nothing is warm from the last time but
//! the page cache.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod herd;
mod limit;
mod model;

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};
use stream::{Cached, Limits, Load, Location, Model, Origin, Remote, Served, Server};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["make", dir, size] => model::make(Path::new(dir), size.parse().unwrap()),
        ["seal", dir] => model::seal(Path::new(dir)),
        ["load", place, ref how @ ..] => load(place, how),
        ["limit", what, file] => limit::measure(what, Path::new(file)),
        ["serve", dir] => serve(Served::Folder(dir.into())),
        ["serve", dir, origin, bytes] => {
            let origin = Origin::parse(origin).unwrap();
            let cached = Cached::new(origin, dir.into(), bytes.parse().unwrap());
            serve(Served::Cached(Box::new(cached)));
        }
        ["herd", url, clients] => herd::measure(url, clients.parse().unwrap()),
        _ => panic!("no such measurement: {words:?}; the head of the example's main.rs lists them"),
    }
}

/// Does something with so many bytes of which some stay in memory, and prints what it took.
fn measured(bytes: u64, stay: u64, deed: impl FnOnce()) {
    println!("{}", figures(bytes, stay, deed));
}

fn figures(bytes: u64, stay: u64, deed: impl FnOnce()) -> Value {
    let (start, used) = (Instant::now(), cpu());
    deed();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu() - used);
    let beyond = (peak() - stay as f64) / f64::from(1 << 20);
    json!({"bytes": bytes, "seconds": seconds, "cpu": cpu, "beyond": beyond})
}

fn load(place: &str, how: &[&str]) {
    let [cold, verify, sealed] = ["cold", "verify", "sealed"].map(|word| how.contains(&word));
    let secret = sealed.then(model::key);
    let place = Location::parse(place.as_ref()).unwrap();
    if let Some(path) = place.as_path().filter(|_| cold) {
        forget(path);
    }
    let ca_file = std::env::var_os("AWS_CA_BUNDLE").map(PathBuf::from);
    let remote = Remote { ca_file, ..Remote::default() };
    // How many bytes there are is asked before the clock runs; the load asks for itself.
    let bytes = Model::open_at(&place, &remote).unwrap().data_len();
    measured(bytes, bytes, || {
        let model = Model::open_at(&place, &remote).unwrap();
        let how = Load { verify, secret: secret.as_ref(), ..Load::default() };
        drop(black_box(model.load(&how).unwrap()));
    });
}

/// A directory, or a cache in one of what an origin has.
fn serve(served: Served) {
    herd::room();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(served, anywhere, None, Limits::default()).unwrap();
    println!("{}", server.address().port());
    // Until it is killed, or who started it is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

/// The page cache is asked to forget a file.
fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Seconds of all cores that this process used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = [fields[11], fields[12]].iter().map(|t| t.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// The most memory that this process ever had, in bytes.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1024.0
}
