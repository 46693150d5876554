//! Clients that take too much: of connections, of time, of memory.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use stream::{Limits, ServeError, Served, Server};

use super::{ANYWHERE, Answer, cached, count, folder, get, start};

fn answer(socket: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    Answer::of(&bytes)
}

#[test]
fn one_more_than_may_be_is_told_to_come_back() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "x").unwrap();
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start(Served::Folder(place.path().to_owned()), limits);
    let mut within = [(); 2].map(|()| TcpStream::connect(server.address()).unwrap());
    for socket in &mut within {
        // An answer says that it is within.
        socket.write_all(b"HEAD /file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
    }
    let refused = answer(&mut TcpStream::connect(server.address()).unwrap());
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(count(&server, "seatrial_tensors_connections_turned_away_total"), 1);
    assert_eq!(count(&server, "seatrial_tensors_connections"), 2);
}

#[test]
fn who_says_nothing_or_too_slowly_or_too_much_is_let_go() {
    let place = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(100);
    let limits = Limits { idle: short, head: short, ..Limits::default() };
    let server = start(Served::Folder(place.path().to_owned()), limits);
    let connect = || TcpStream::connect(server.address()).unwrap();
    assert_eq!(connect().read(&mut [0]).unwrap(), 0, "idle");
    let mut slow = connect();
    slow.write_all(b"GET /file HT").unwrap();
    assert_eq!(answer(&mut slow).status, 408);
    let server = folder(place.path());
    let mut long = TcpStream::connect(server.address()).unwrap();
    long.write_all(format!("GET /file HTTP/1.1\r\nX: {}", "x".repeat(16 << 10)).as_bytes())
        .unwrap();
    let mut bytes = Vec::new();
    // What of it was not read may reset the connection behind the answer.
    let _ = long.read_to_end(&mut bytes);
    assert_eq!(Answer::of(&bytes).status, 431);
}

#[test]
fn who_takes_nothing_is_let_go() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), vec![1; 64 << 20]).unwrap();
    let limits = Limits { stall: Duration::from_millis(100), ..Limits::default() };
    let server = start(Served::Folder(place.path().to_owned()), limits);
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // Its place is free again without a byte of it being read.
    while count(&server, "seatrial_tensors_requests_total{code=\"200\"}") == 0 {}
    while count(&server, "seatrial_tensors_connections") > 0 {}
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    assert!(bytes.len() < 64 << 20);
}

#[test]
fn what_does_not_start_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let started = |served: Served, listen: &str| {
        Server::start(served, listen.parse().unwrap(), None, Limits::default())
    };
    let failed = |served: Served| started(served, ANYWHERE).unwrap_err().to_string();
    let none = place.path().join("none");
    assert!(failed(Served::Folder(none)).contains("is it a directory that may be read?"));
    let taken = TcpListener::bind(ANYWHERE).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = started(Served::Folder(place.path().to_owned()), &address).unwrap_err();
    assert!(refused.to_string().contains(&format!("cannot listen on {address}")), "{refused}");

    let cached = cached("http://localhost:1", &place.path().join("cache"));
    let small = stream::Cached { bytes: cached.least() - 1, ..cached.clone() };
    assert!(failed(Served::Cached(Box::new(small))).contains("is too small: give it 2097152"));
    let huge = stream::Cached { bytes: u64::MAX, ..cached.clone() };
    assert!(failed(Served::Cached(Box::new(huge))).contains("give the cache no more"));
    std::fs::write(place.path().join("file"), "").unwrap();
    let dir = place.path().join("file");
    let wrong = stream::Cached { dir, ..cached.clone() };
    let wrong = started(Served::Cached(Box::new(wrong)), ANYWHERE).unwrap_err();
    assert!(matches!(wrong, ServeError::CacheDir { .. }), "{wrong}");
    let first = started(Served::Cached(Box::new(cached.clone())), ANYWHERE).unwrap();
    let second = started(Served::Cached(Box::new(cached)), ANYWHERE).unwrap_err();
    assert!(matches!(second, ServeError::CacheDir { .. }), "{second}");
    assert_eq!(get(first.address(), "/x").status, 504, "nobody is at the origin");
}
