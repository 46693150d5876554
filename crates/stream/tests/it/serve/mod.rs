//! Models that we serve: from a directory, and from a cache in front of an origin.

mod cache;
mod folder;
mod killed;
mod limits;
mod peers;
mod s3;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use stream::{Cached, Limits, Origin, Remote, Served, Server};

use crate::remote::hasty;

const ANYWHERE: &str = "127.0.0.1:0";

fn start(served: Served, limits: Limits) -> Server {
    let anywhere = ANYWHERE.parse().unwrap();
    Server::start(served, anywhere, Some(anywhere), limits).unwrap()
}

fn folder(path: &Path) -> Server {
    start(Served::Folder(path.to_owned()), Limits::default())
}

/// A cache of small chunks in front of an origin, which never asks again what an object is.
fn cached(origin: &str, dir: &Path) -> Cached {
    let cached = Cached::new(Origin::parse(origin).unwrap(), dir.to_owned(), 1 << 30);
    let patience = hasty().patience;
    let remote = Remote { patience, ..cached.remote };
    let (chunk, fresh) = (NonZero::new(256 << 10).unwrap(), Duration::from_secs(3600));
    Cached { remote, chunk, fresh, ..cached }
}

/// At this address, which nobody has.
fn caching_at(address: SocketAddr, cached: Cached) -> Server {
    let metrics = Some(ANYWHERE.parse().unwrap());
    let served = Served::Cached(Box::new(cached));
    Server::start(served, address, metrics, Limits::default()).unwrap()
}

fn caching(cached: Cached) -> Server {
    start(Served::Cached(Box::new(cached)), Limits::default())
}

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    fields: HashMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Self { status, fields: fields.collect(), body: bytes[end + 4..].to_vec() }
    }

    fn line(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap().trim_end()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// Asks on a connection of its own, which is read to its end.
fn ask(address: SocketAddr, method: &str, target: &str, fields: &str) -> Answer {
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\n\r\n");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    Answer::of(&bytes)
}

fn get(address: SocketAddr, target: &str) -> Answer {
    ask(address, "GET", target, "")
}

/// One of the server's counts.
fn count(server: &Server, name: &str) -> u64 {
    let told = get(server.metrics_address().unwrap(), "/metrics");
    let line = told.line().lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

fn origin_bytes(server: &Server) -> u64 {
    count(server, "seatrial_tensors_origin_read_bytes_total")
}
