//! A directory: what is answered, and that nothing else is.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::{Answer, ask, folder, get};
use crate::remote::nginx::Nginx;
use crate::remote::{hasty, load, open, right, striped, told};

#[test]
fn ours_reads_from_ours() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a model.tensors");
    fs::write(&path, &striped().file).unwrap();
    let server = folder(place.path());
    let url = format!("http://{}", server.address());
    let model = open(&format!("{url}/a model.tensors"), &hasty()).unwrap();
    right(&load(&model).unwrap());
    right(&load(&model).unwrap());
    assert_eq!(model.traffic().unwrap().retries, 0);
    let missing = told(&open(&format!("{url}/none"), &hasty()).unwrap_err());
    assert!(missing.ends_with("nothing is there (404)"), "{missing}");
    // Another file in its place.
    let other = place.path().join("other");
    fs::write(&other, [&striped().file[..], b"more"].concat()).unwrap();
    fs::rename(&other, &path).unwrap();
    let changed = told(&load(&model).err().unwrap());
    assert!(changed.ends_with("it was changed while it was read: open it again"), "{changed}");
}

#[test]
fn it_answers_as_nginx_does() {
    let place = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..1000).map(|nth| nth as u8).collect();
    fs::write(place.path().join("file"), &bytes).unwrap();
    fs::write(place.path().join("empty"), "").unwrap();
    let (_nginx, url) = Nginx::start(place.path());
    let theirs = url.strip_prefix("http://").unwrap().parse().unwrap();
    let server = folder(place.path());
    let ours = server.address();
    let tag = |address| get(address, "/file").field("etag").unwrap().to_owned();
    let tags = [tag(ours), tag(theirs)];
    let modified = get(theirs, "/file").field("last-modified").unwrap().to_owned();
    for (target, fields) in [
        ("/file", String::new()),
        ("/empty", String::new()),
        ("/none", String::new()),
        ("/%66ile?query", String::new()),
        ("/file", "Range: bytes=0-0\r\n".to_owned()),
        ("/file", "Range: bytes=10-19\r\n".to_owned()),
        ("/file", "Range: bytes=990-\r\n".to_owned()),
        ("/file", "Range: bytes=-7\r\n".to_owned()),
        ("/file", "Range: bytes=-7000\r\n".to_owned()),
        ("/file", "Range: bytes=990-7000\r\n".to_owned()),
        ("/file", "Range: bytes=1000-\r\n".to_owned()),
        ("/file", "Range: bytes=1000-1001\r\n".to_owned()),
        ("/file", "Range: lines=1-2\r\n".to_owned()),
        ("/file", "If-None-Match: TAG\r\n".to_owned()),
        ("/file", "If-None-Match: \"other\"\r\n".to_owned()),
        ("/file", "If-Match: TAG\r\nRange: bytes=1-2\r\n".to_owned()),
        ("/file", "If-Match: \"other\"\r\n".to_owned()),
        ("/file", "If-Range: TAG\r\nRange: bytes=1-2\r\n".to_owned()),
        ("/file", "If-Range: \"other\"\r\nRange: bytes=1-2\r\n".to_owned()),
        ("/file", format!("If-Range: {modified}\r\nRange: bytes=1-2\r\n")),
        ("/file", format!("If-Modified-Since: {modified}\r\n")),
        ("/file", format!("If-Unmodified-Since: {modified}\r\n")),
        ("/file", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned()),
    ] {
        for method in ["GET", "HEAD"] {
            let [ours, theirs] = [(ours, &tags[0]), (theirs, &tags[1])]
                .map(|(address, tag)| ask(address, method, target, &fields.replace("TAG", tag)));
            let what = format!("{method} {target} {fields}");
            assert_eq!(ours.status, theirs.status, "{what}");
            assert_eq!(ours.field("content-range"), theirs.field("content-range"), "{what}");
            if ours.status < 400 {
                assert_eq!(ours.body, theirs.body, "{what}");
                for field in ["last-modified", "content-length"] {
                    assert_eq!(ours.field(field), theirs.field(field), "{what}");
                }
            }
        }
    }
    let whole = get(ours, "/file");
    assert_eq!((whole.body, whole.fields["accept-ranges"].as_str()), (bytes, "bytes"));
}

#[test]
fn nothing_else_is_served() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("inside");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(place.path().join("secret"), "secret").unwrap();
    fs::write(inside.join("sub/model"), "model").unwrap();
    for hidden in [".hidden", "half.tmp", "half.part", "backup~"] {
        fs::write(inside.join(hidden), "secret").unwrap();
    }
    symlink("../secret", inside.join("link")).unwrap();
    symlink("..", inside.join("sub/up")).unwrap();
    symlink(place.path().join("secret"), inside.join("absolute")).unwrap();
    symlink("sub/model", inside.join("good")).unwrap();
    let server = folder(&inside);
    let at = server.address();
    assert_eq!(get(at, "/good").body, b"model");
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/sub/../../secret",
        "/..%2fsecret",
        "/link",
        "/absolute",
        "/sub/up/../secret",
        "/sub/up/link",
        "/.hidden",
        "/half.tmp",
        "/half.part",
        "/backup~",
        "/",
        "/sub",
        "/sub/",
        "//sub/model",
        "/sub/model/",
    ] {
        let answer = get(at, target);
        assert_eq!((answer.status, answer.line()), (404, "nothing is there"), "{target}");
    }
    for (method, target, status) in [
        ("POST", "/good", 405),
        ("DELETE", "/good", 405),
        ("GET", "good", 400),
        ("GET", "/%g", 400),
    ] {
        let answer = ask(at, method, target, "");
        assert_eq!(answer.status, status, "{method} {target}");
        assert_eq!(answer.line().lines().count(), 1);
    }
}

/// More than the kernel takes of it at once, so that a client can stop in the middle.
fn large(byte: u8) -> Vec<u8> {
    vec![byte; 64 << 20]
}

/// Asks for all of a file, and reads the first of it.
fn begin(server: &stream::Server) -> (TcpStream, Vec<u8>) {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut first = vec![0; 100_000];
    socket.read_exact(&mut first).unwrap();
    (socket, first)
}

#[test]
fn what_is_being_sent_is_what_was_opened() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    fs::write(&path, large(1)).unwrap();
    let server = folder(place.path());
    let (mut socket, mut bytes) = begin(&server);
    fs::write(place.path().join("next"), large(2)).unwrap();
    fs::rename(place.path().join("next"), &path).unwrap();
    socket.read_to_end(&mut bytes).unwrap();
    let answer = Answer::of(&bytes);
    assert!(answer.body == large(1), "nothing of the new file");
    assert_ne!(get(server.address(), "/file").field("etag"), answer.field("etag"));
    // Who writes into a file has taken away what was to be sent: that is not passed off as whole.
    let (mut socket, mut bytes) = begin(&server);
    fs::write(&path, "short").unwrap();
    socket.read_to_end(&mut bytes).unwrap();
    assert!(Answer::of(&bytes).body.len() < large(1).len());
}

#[test]
fn a_server_that_is_stopped_ends_what_it_began() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), large(1)).unwrap();
    let server = folder(place.path());
    let address = server.address();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"HEAD /file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(idle.read(&mut [0; 1024]).unwrap() > 0);
    let (mut socket, mut bytes) = begin(&server);
    let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(3600)));
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "who waits is let go");
    assert!(TcpStream::connect(address).is_err(), "nobody more is accepted");
    socket.read_to_end(&mut bytes).unwrap();
    assert!(Answer::of(&bytes).body == large(1));
    assert!(stopping.join().unwrap());
    // And who takes nothing is cut off when it is time.
    let server = folder(place.path());
    let (mut socket, mut bytes) = begin(&server);
    assert!(!server.stop(Duration::ZERO));
    let _ = socket.read_to_end(&mut bytes);
    assert!(Answer::of(&bytes).body.len() < large(1).len());
}
