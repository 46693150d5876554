//! A cache whose server is killed in the middle.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{ask, cached, caching};
use crate::remote::server::{Act, Server, object};
use crate::remote::{hasty, load, open, right, striped};

const ORIGIN: &str = "STREAM_TEST_ORIGIN";
const DIR: &str = "STREAM_TEST_DIR";

/// The program that the test below kills: this one, with this test alone.
#[test]
#[ignore = "the next test runs it as a process of its own"]
fn a_cache_that_is_killed() {
    let (origin, dir) = (std::env::var(ORIGIN).unwrap(), std::env::var_os(DIR).unwrap());
    let mut cached = cached(&origin, Path::new(&dir));
    // A chunk that stalls stays half, however long the disk takes for those before it.
    cached.remote.patience.stall = Duration::from_secs(3600);
    let server = caching(cached);
    println!("listens at {}", server.address());
    // Until it is killed, or who started it is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // SIGKILL, after which nothing of it is done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(origin: &str, dir: &Path) -> (Killed, std::net::SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "serve::killed::a_cache_that_is_killed"])
        .envs([(ORIGIN, origin)])
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let killed = Killed(child);
    loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some((_, address)) = line.trim().split_once("listens at ") {
            let address = address.parse().unwrap();
            // What it says later is nobody's, and must not make it wait.
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            return (killed, address);
        }
    }
}

/// The files of chunks, and whether each is whole.
fn chunks(dir: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files =
        folders.filter(|path| path.is_dir()).flat_map(|dir| std::fs::read_dir(dir).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn half_a_chunk_is_not_trusted_and_a_whole_one_not_read_again() {
    let stalls = Arc::new(AtomicBool::new(true));
    let stalling = Arc::clone(&stalls);
    const CHUNK: usize = 256 << 10;
    // The third chunk stalls in its middle.
    let origin = Server::start(object(striped().file.clone()), move |asked| {
        let third = asked.range.0 >= 2 * CHUNK;
        if third && stalling.load(Ordering::SeqCst) { Act::Stall(100_000) } else { Act::Serve }
    });
    let prefix = origin.url().strip_suffix("/model").unwrap().to_owned();
    let place = tempfile::tempdir().unwrap();
    let (killed, address) = start(&prefix, place.path());
    let part = |range: &str| ask(address, "GET", "/model", &format!("Range: bytes={range}\r\n"));
    assert!(part("0-524287").body == striped().file[..2 * CHUNK]);
    assert!(part("524288-524300").body == striped().file[524_288..=524_300]);
    let is_half = |path: &PathBuf| path.extension().is_some();
    // A chunk gets its name after its last byte was sent.
    while chunks(place.path()).iter().filter(|path| !is_half(path)).count() < 2 {}
    assert!(chunks(place.path()).iter().any(is_half));
    drop(killed);
    assert!(chunks(place.path()).iter().any(is_half), "half a chunk was left behind");

    stalls.store(false, Ordering::SeqCst);
    let before = origin.seen().len();
    let (_killed, address) = start(&prefix, place.path());
    right(&load(&open(&format!("http://{address}/model"), &hasty()).unwrap()).unwrap());
    let after = &origin.seen()[before..];
    assert_eq!(after[0].range, (0, 4095), "what it is");
    assert!(after[1..].iter().all(|asked| asked.range.0 >= 2 * CHUNK), "no whole chunk again");
    assert!(after.iter().any(|asked| asked.range.0 == 2 * CHUNK), "the half one all of it");
}
