//! Many clients that ask for one object at one moment, and read it to its end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::figures;

/// What a client takes at once.
const STEP: usize = 64 << 10;

/// The clock runs from when all are connected until the last has its last byte. An answer that is not
/// whole ends the measurement.
pub(crate) fn measure(url: &str, clients: usize) {
    room();
    let rest = url.strip_prefix("http://").expect("a herd asks by http://HOST:PORT/PATH");
    let (host, path) = rest.split_once('/').expect("a URL has a path");
    let ask = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let sockets: Vec<TcpStream> = (0..clients).map(|_| TcpStream::connect(host).unwrap()).collect();
    let together = Barrier::new(clients);
    let mut sums: Vec<u64> = Vec::new();
    let mut found = figures(0, 0, || {
        std::thread::scope(|scope| {
            let client = |mut socket: TcpStream| {
                let (ask, together) = (&ask, &together);
                std::thread::Builder::new()
                    .stack_size(2 * STEP)
                    .spawn_scoped(scope, move || {
                        together.wait();
                        socket.write_all(ask.as_bytes()).unwrap();
                        read(&mut socket)
                    })
                    .unwrap()
            };
            let threads: Vec<_> = sockets.into_iter().map(client).collect();
            sums.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
    });
    let one = sums[0];
    assert!(sums.iter().all(|sum| *sum == one), "not all got as much");
    found["bytes"] = sums.iter().sum::<u64>().into();
    found["object"] = one.into();
    println!("{found}");
}

/// The body's bytes, which are as many as the answer says.
fn read(socket: &mut TcpStream) -> u64 {
    let mut step = vec![0; STEP];
    let (mut head, mut body) = (Vec::new(), 0);
    let mut said = None;
    loop {
        let got = socket.read(&mut step).unwrap();
        if got == 0 {
            assert_eq!(said, Some(body), "an answer ended early: {}", head.escape_ascii());
            return body;
        }
        if said.is_some() {
            body += got as u64;
            continue;
        }
        head.extend_from_slice(&step[..got]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8(head[..end].to_vec()).unwrap().to_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            said = Some(length.unwrap().trim().parse().unwrap());
            body = (head.len() - end - 4) as u64;
        }
    }
}

/// As many open files as the system grants.
pub(crate) fn room() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
