//! What this machine can do at all: the same bytes moved or hashed, and nothing else.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;

use memmap2::{Advice, MmapMut};
use rustix::fs::{OFlags, sendfile};
use sha2::{Digest as _, Sha256};

use crate::{forget, measured};

/// What a thread moves at once: a range of a load from a file.
const PIECE: usize = 8 << 20;
/// Connections over loopback.
const STREAMS: usize = 4;

/// Measures one limit with as many bytes as the file has.
pub(crate) fn measure(what: &str, file: &Path) {
    let len = usize::try_from(file.metadata().unwrap().len()).unwrap() / PIECE * PIECE;
    let bytes = len as u64;
    match what {
        "memcpy" => {
            let (mut from, mut to) = (fresh(len), fresh(len));
            // Both are there before the clock runs.
            from.fill(1);
            to.fill(2);
            measured(bytes, 2 * bytes, || memcpy(&from, &mut to));
        }
        "pages" => measured(bytes, bytes, || read(file, len, false)),
        "disk" => {
            forget(file);
            measured(bytes, bytes, || read(file, len, true));
        }
        "loopback" => measured(bytes, bytes, || loopback(file, len)),
        "hash" => measured(bytes, 0, || hash(len)),
        _ => panic!("no such limit: {what}"),
    }
}

/// Memory that nobody has touched, in huge pages where the system has them.
fn fresh(len: usize) -> MmapMut {
    let map = MmapMut::map_anon(len).unwrap();
    map.advise(Advice::HugePage).unwrap();
    map
}

fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

fn memcpy(from: &[u8], to: &mut [u8]) {
    let share = from.len().div_ceil(cores());
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(share).zip(to.chunks_mut(share)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
    black_box(to);
}

/// A file into fresh memory, by as many threads as a load has.
fn read(path: &Path, len: usize, direct: bool) {
    let flag = if direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(flag).open(path).unwrap();
    let mut map = fresh(len);
    let jobs = Mutex::new(map.chunks_mut(PIECE).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..if direct { cores().max(8) } else { cores() } {
            scope.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap().next();
                    let Some((nth, piece)) = job else { return };
                    file.read_exact_at(piece, (nth * PIECE) as u64).unwrap();
                }
            });
        }
    });
    black_box(&map);
}

/// A file by `sendfile` over TCP into fresh memory. Both ends are this process.
fn loopback(path: &Path, len: usize) {
    let mut map = fresh(len);
    let share = len.div_ceil(STREAMS).next_multiple_of(2 << 20);
    std::thread::scope(|scope| {
        for (nth, part) in map.chunks_mut(share).enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let size = part.len();
            scope.spawn(move || {
                let (socket, _) = listener.accept().unwrap();
                let file = File::open(path).unwrap();
                let mut at = (nth * share) as u64;
                let end = at + size as u64;
                while at < end {
                    let left = usize::try_from(end - at).unwrap();
                    assert!(sendfile(&socket, &file, Some(&mut at), left).unwrap() > 0);
                }
            });
            scope.spawn(move || TcpStream::connect(address).unwrap().read_exact(part).unwrap());
        }
    });
    black_box(&map);
}

/// SHA-256 on every core, one stream each, of bytes that lie in the core's own cache.
fn hash(len: usize) {
    let piece = vec![1; 256 << 10];
    let share = len.div_ceil(cores()).div_ceil(piece.len());
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                let mut hasher = Sha256::new();
                for _ in 0..share {
                    hasher.update(&piece);
                }
                black_box(hasher.finalize());
            });
        }
    });
}
