//! A cache in front of an origin that counts, fails and changes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use stream::Cached;

use super::{Answer, ask, cached, caching, count, get, origin_bytes};
use crate::remote::server::{Act, Object, Server, object};
use crate::remote::{hasty, load, open, right, striped, told};

/// Where the objects of a test server are.
fn prefix(origin: &Server) -> String {
    origin.url().strip_suffix("/model").unwrap().to_owned()
}

fn bytes(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// Each byte that the origin was asked for, how often.
fn times_read(origin: &Server, len: usize) -> Vec<u8> {
    let mut times = vec![0; len];
    for asked in origin.seen() {
        let (first, last) = asked.range;
        times[first..=last.min(len - 1)].iter_mut().for_each(|times| *times += 1);
    }
    times
}

#[test]
fn a_thousand_clients_at_once_cost_the_origin_one_read_of_each_byte() {
    const CLIENTS: usize = 1000;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let file = bytes(1_500_000, 7);
    let origin = Server::start(object(file.clone()), |_| Act::Serve);
    let place = tempfile::tempdir().unwrap();
    let server = caching(cached(&prefix(&origin), place.path()));
    // All have asked before the first reads its answer.
    let sockets: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut socket = TcpStream::connect(server.address()).unwrap();
            socket
                .write_all(b"GET /model HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .unwrap();
            socket
        })
        .collect();
    for mut socket in sockets {
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert!(Answer::of(&answer).body == file);
    }
    assert!(times_read(&origin, file.len()).iter().all(|times| *times == 1));
    assert_eq!(origin_bytes(&server), file.len() as u64);
    assert_eq!(count(&server, "seatrial_tensors_cache_misses_total"), 6);
    assert_eq!(count(&server, "seatrial_tensors_requests_total{code=\"200\"}"), CLIENTS as u64);
}

#[test]
fn ours_loads_through_a_cache_that_has_room_for_a_part_only() {
    let origin = Server::start(object(striped().file.clone()), |_| Act::Serve);
    let place = tempfile::tempdir().unwrap();
    let all = cached(&prefix(&origin), place.path());
    let server = caching(Cached { bytes: all.least(), ..all.clone() });
    let model = open(&format!("http://{}/model", server.address()), &hasty()).unwrap();
    right(&load(&model).unwrap());
    right(&load(&model).unwrap());
    assert!(count(&server, "seatrial_tensors_cache_evictions_total") > 0);
    assert!(count(&server, "seatrial_tensors_cache_bytes") <= all.least());
    let on_disk: u64 = std::fs::read_dir(place.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap())
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk <= all.least(), "{on_disk}");
    let head = ask(server.address(), "HEAD", "/model", "");
    assert_eq!(head.field("etag"), Some("\"v1\""), "the origin's tag is ours");
}

#[test]
fn what_has_come_is_sent_while_the_rest_comes() {
    let file = bytes(1_000_000, 0);
    // Of the first chunk the front and 150,000 bytes more, and then nothing.
    let origin = Server::start(object(file.clone()), |asked| match asked.nth {
        0 => Act::Serve,
        _ => Act::Stall(150_000),
    });
    let place = tempfile::tempdir().unwrap();
    let mut cached = cached(&prefix(&origin), place.path());
    cached.remote.patience.stall = Duration::from_secs(3600);
    let server = caching(cached);
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /model HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (mut got, mut step) = (Vec::new(), [0; 4096]);
    let body = loop {
        let read = socket.read(&mut step).unwrap();
        assert!(read > 0, "it ended");
        got.extend_from_slice(&step[..read]);
        let end = got.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(body) = end.map(|end| &got[end + 4..]).filter(|body| body.len() >= 100_000) {
            break body.to_vec();
        }
    };
    assert!(file.starts_with(&body));
}

#[test]
fn versions_of_an_object_are_never_mixed() {
    let old = striped().file.clone();
    let new = Object { version: "etag: \"v2\"", ..object([&old[..], b"more"].concat()) };
    let next = new.clone();
    // It changes when the third chunk is asked for.
    let origin = Server::start(object(old), move |asked| match asked.nth {
        3 => Act::Change(next.clone(), true),
        _ => Act::Serve,
    });
    let place = tempfile::tempdir().unwrap();
    let server = caching(cached(&prefix(&origin), place.path()));
    let url = format!("http://{}/model", server.address());
    let changed = open(&url, &hasty()).and_then(|model| load(&model).map(drop));
    let changed = told(&changed.unwrap_err());
    assert!(changed.ends_with("it was changed while it was read: open it again"), "{changed}");
    right(&load(&open(&url, &hasty()).unwrap()).unwrap());
    let whole = get(server.address(), "/model");
    assert!(whole.body == *new.bytes && whole.field("etag") == Some("\"v2\""));
}

#[test]
fn what_is_not_fresh_is_asked_about_and_not_read_again() {
    let (one, two) = (bytes(600_000, 1), bytes(600_000, 2));
    let next = Object { version: "etag: \"v2\"", ..object(two.clone()) };
    let origin = Server::start(object(one.clone()), move |asked| {
        // The third time that it is asked whether it still is what it was.
        let asked_again = asked.range == (0, 0) && asked.nth > 5;
        if asked_again { Act::Change(next.clone(), true) } else { Act::Serve }
    });
    let place = tempfile::tempdir().unwrap();
    let all = cached(&prefix(&origin), place.path());
    let server = caching(Cached { fresh: Duration::ZERO, ..all });
    let model = || get(server.address(), "/model").body;
    assert!(model() == one);
    let reads = origin.seen().len();
    assert_eq!(reads, 4, "what it is, and three chunks");
    assert!(model() == one && model() == one);
    assert_eq!(origin.seen().len(), reads + 2);
    assert!(model() == two);
}

#[test]
fn what_the_origin_cannot_give_is_told() {
    let say = |status: &'static str| {
        let origin = Server::start(object(bytes(600_000, 0)), move |_| {
            Act::Say(status, String::new(), Vec::new())
        });
        let place = tempfile::tempdir().unwrap();
        let server = caching(cached(&prefix(&origin), place.path()));
        let answer = get(server.address(), "/model");
        assert_eq!(answer.line().lines().count(), 1);
        (answer.status, answer.line().to_owned())
    };
    assert_eq!(say("404 No").0, 404);
    let (status, line) = say("403 No");
    assert!(status == 502 && line.contains("the origin: the server refuses it (403)"), "{line}");
    let (status, line) = say("500 No");
    assert!(status == 503 && line.contains("gave up after"), "{line}");

    // A chunk that cannot be had: the client is told while there is a status to say it with, and the
    // next one finds it, as the origin has come to itself.
    let origin = Server::start(object(bytes(600_000, 0)), |asked| match asked.nth {
        1..7 => Act::Cut(0),
        _ => Act::Serve,
    });
    let place = tempfile::tempdir().unwrap();
    let server = caching(cached(&prefix(&origin), place.path()));
    let first = ask(server.address(), "GET", "/model", "Range: bytes=300000-300001\r\n");
    assert_eq!(first.status, 502, "{}", first.line());
    assert!(get(server.address(), "/model").body == bytes(600_000, 0));

    let none = Object { version: "", ..object(bytes(10, 0)) };
    let origin = Server::start(none, |_| Act::Serve);
    let place = tempfile::tempdir().unwrap();
    let server = caching(cached(&prefix(&origin), place.path()));
    let answer = get(server.address(), "/model");
    assert!(answer.status == 502 && answer.line().contains("neither ETag nor"), "{answer:?}");
}

/// What is here is given, what is not cannot be, and it is not given for ever.
#[test]
fn an_origin_that_is_down_takes_nothing_away() {
    let file = bytes(600_000, 1);
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let origin = Server::start(object(file.clone()), move |_| {
        if is_down.load(Ordering::SeqCst) { Act::Raw(Vec::new()) } else { Act::Serve }
    });
    let first = "Range: bytes=0-99\r\n";
    for (stale, status) in [(Duration::from_secs(3600), 206), (Duration::ZERO, 502)] {
        down.store(false, Ordering::SeqCst);
        let place = tempfile::tempdir().unwrap();
        let all = cached(&prefix(&origin), place.path());
        let server = caching(Cached { fresh: Duration::ZERO, stale, ..all });
        let part = |range: &str| ask(server.address(), "GET", "/model", range);
        assert!(part(first).body == file[..100]);
        down.store(true, Ordering::SeqCst);
        let answer = part(first);
        assert_eq!(answer.status, status, "{}", answer.line());
        let given = count(&server, "seatrial_tensors_cache_stale_total");
        assert_eq!(given, u64::from(status == 206));
        assert_eq!(part("Range: bytes=500000-500001\r\n").status, 502, "it is not here");
        down.store(false, Ordering::SeqCst);
        assert!(get(server.address(), "/model").body == file);
    }
}

#[test]
fn a_full_disk_is_told_and_passes() {
    let file = bytes(1_000_000, 3);
    let origin = Server::start(object(file.clone()), |_| Act::Serve);
    let place = tempfile::tempdir().unwrap();
    let server = caching(cached(&prefix(&origin), place.path()));
    let part =
        |range: &str| ask(server.address(), "GET", "/model", &format!("Range: bytes={range}\r\n"));
    assert!(part("0-9").body == file[..10]);
    let mut folders = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
    let folder = folders.find(|path| path.is_dir()).unwrap();
    // Where the next chunk is to be written there is no room.
    std::os::unix::fs::symlink("/dev/full", folder.join("1.tmp")).unwrap();
    let full = part("300000-300009");
    assert_eq!((full.status, full.field("retry-after")), (503, Some("1")));
    let line = full.line();
    assert!(line.starts_with("the cache cannot be written: No space left on device"), "{line}");
    assert!(part("300000-300009").body == file[300_000..300_010]);
    assert!(get(server.address(), "/model").body == file);
}
