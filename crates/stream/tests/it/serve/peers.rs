//! Caches that ask each other before they ask the origin.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use stream::{Cached, Peers, Server};
use tempfile::TempDir;

use super::{ask, cached, caching_at, count, get, origin_bytes};
use crate::remote::server::{Act, Server as Origin, object};

/// Bytes of forty chunks and a bit.
const LEN: usize = 40 * (256 << 10) + 77;

fn bytes(salt: usize) -> Vec<u8> {
    (0..LEN).map(|at| ((at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

struct Cache {
    server: Server,
    _place: TempDir,
}

/// Addresses that nobody has.
fn addresses(count: usize) -> Vec<SocketAddr> {
    let free: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    free.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

/// One of these caches.
fn one(origin: &Origin, of: &[SocketAddr], own: SocketAddr) -> Cache {
    let place = tempfile::tempdir().unwrap();
    let prefix = origin.url().strip_suffix("/model").unwrap().to_owned();
    let names = of.iter().map(ToString::to_string).collect();
    let peers = Peers { names, own: Some(own) };
    let server = caching_at(own, Cached { peers, ..cached(&prefix, place.path()) });
    Cache { server, _place: place }
}

fn sum(caches: &[Cache], name: &str) -> u64 {
    caches.iter().map(|cache| count(&cache.server, name)).sum()
}

#[test]
fn the_origin_is_read_once_however_many_caches_there_are() {
    let file = bytes(1);
    let origin = Origin::start(object(file.clone()), |_| Act::Serve);
    let addresses = addresses(4);
    let caches: Vec<Cache> =
        addresses.iter().map(|address| one(&origin, &addresses, *address)).collect();
    std::thread::scope(|scope| {
        for cache in &caches {
            for _ in 0..2 {
                scope.spawn(|| assert!(get(cache.server.address(), "/model").body == file));
            }
        }
    });
    let read: u64 = caches.iter().map(|cache| origin_bytes(&cache.server)).sum();
    // The front of an object, by which a cache learns what it is, is used where it keeps the chunk.
    assert!(read >= LEN as u64 && read <= LEN as u64 + 4 * 4096, "{read} of {LEN}");
    let given = sum(&caches, "seatrial_tensors_peer_read_bytes_total");
    assert!(given + read >= 4 * LEN as u64, "{given} from peers");
    assert!(given <= 3 * LEN as u64, "{given} from peers: each asks for a chunk once");
    assert_eq!(sum(&caches, "seatrial_tensors_peer_reads_failed_total"), 0);
    let owned = caches.iter().filter(|cache| origin_bytes(&cache.server) > 256 << 10).count();
    assert!(owned >= 3, "{owned} of 4 caches read the origin");
}

#[test]
fn a_peer_that_is_not_there_costs_no_more_than_the_origin() {
    let file = bytes(2);
    let origin = Origin::start(object(file.clone()), |_| Act::Serve);
    let addresses = addresses(2);
    let alone = one(&origin, &addresses, addresses[0]);
    assert!(get(alone.server.address(), "/model").body == file);
    let (failed, read) = ("seatrial_tensors_peer_reads_failed_total", origin_bytes(&alone.server));
    assert_eq!(read, LEN as u64);
    let times = count(&alone.server, failed);
    // Those of one moment, of about twenty; after the first failure it is left alone.
    assert!((1..10).contains(&times), "{times}");
}

#[test]
fn a_peer_that_ends_in_the_middle_or_has_another_version_is_gone_on_from() {
    let file = bytes(3);
    for (n, behaves) in [0, 1].into_iter().enumerate() {
        let origin = Origin::start(object(file.clone()), |_| Act::Serve);
        let other = if behaves == 0 { bytes(3) } else { bytes(4) };
        let version = if behaves == 0 { "etag: \"v1\"" } else { "etag: \"v2\"" };
        let broken =
            Origin::start(crate::remote::server::Object { version, ..object(other) }, |asked| {
                if asked.range == (0, 0) { Act::Serve } else { Act::Cut(100_000) }
            });
        let broken_at = SocketAddr::from(([127, 0, 0, 1], broken.port));
        let own = addresses(1)[0];
        let cache = one(&origin, &[own, broken_at], own);
        assert!(get(cache.server.address(), "/model").body == file, "{n}");
        assert!(count(&cache.server, "seatrial_tensors_peer_reads_failed_total") > 0);
        let asked = broken.seen();
        assert!(asked.iter().all(|asked| asked.fields["seatrial-peer"] == "1"), "{asked:?}");
        let from_peer = count(&cache.server, "seatrial_tensors_peer_read_bytes_total");
        assert_eq!(from_peer + origin_bytes(&cache.server), LEN as u64);
        assert_eq!(from_peer > 0, behaves == 0);
    }
}

/// Lists that differ make no circle: what a peer asks for is asked of the origin alone.
#[test]
fn what_a_peer_asks_for_is_not_asked_of_a_further_one() {
    let file = bytes(5);
    let origin = Origin::start(object(file.clone()), |_| Act::Serve);
    let addresses = addresses(2);
    // Each takes the other for everybody.
    let caches: Vec<Cache> = [(0, 1), (1, 0)]
        .map(|(own, other)| {
            let place = tempfile::tempdir().unwrap();
            let prefix = origin.url().strip_suffix("/model").unwrap().to_owned();
            let peers = Peers { names: vec![addresses[other].to_string()], own: None };
            let cached =
                Cached { peers, fresh: Duration::from_secs(3600), ..cached(&prefix, place.path()) };
            Cache { server: caching_at(addresses[own], cached), _place: place }
        })
        .into();
    assert!(get(caches[0].server.address(), "/model").body == file);
    assert_eq!(count(&caches[0].server, "seatrial_tensors_peer_read_bytes_total"), LEN as u64);
    assert_eq!(count(&caches[1].server, "seatrial_tensors_peer_read_bytes_total"), 0);
    assert_eq!(sum(&caches, "seatrial_tensors_peer_reads_failed_total"), 0);
    let range = ask(caches[1].server.address(), "GET", "/model", "Range: bytes=5-9\r\n");
    assert!(range.body == file[5..10]);
}
