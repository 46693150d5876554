//! Other caches in front of the same origin: who of all is to have a chunk from there.
//!
//! Each chunk has one owner among all caches that are known, by rendezvous hashing (Thaler and
//! Ravishankar, 1998): a cache that comes or goes moves its own chunks and no others. Who is not the
//! owner asks it, and the origin only if that fails; the owner asks the origin. What a peer asks for is
//! never asked of a further one, so that lists that differ cost reads and no circles. A peer that has
//! failed is left alone for a while.

use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::shelf::Key;

/// How long what a name leads to is believed.
const NAMED: Duration = Duration::from_secs(10);

/// How long a peer that has failed is left alone.
const ALONE: Duration = Duration::from_secs(10);

/// Who caches are, and which of them this one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// `HOST:PORT` of each. A name may lead to many addresses, as that of a headless Service does, and
    /// this cache's own may be among them.
    pub names: Vec<String>,
    /// Where the others reach this one.
    pub own: Option<SocketAddr>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ring {
    peers: Peers,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: BTreeSet<SocketAddr>,
    looked: Option<Instant>,
    /// Those that have failed, and when.
    failed: HashMap<SocketAddr, Instant>,
}

impl Ring {
    pub(super) fn new(peers: Peers) -> Self {
        Self { peers, state: Mutex::default() }
    }

    /// Which other cache is to have a chunk; none if it is this one, or the other has just failed.
    pub(super) fn owner(&self, key: &Key) -> Option<SocketAddr> {
        if self.peers.names.is_empty() {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.is_none_or(|looked| looked.elapsed() > NAMED) {
            state.looked = Some(Instant::now());
            let found = members(&self.peers);
            // A resolver that is down takes nobody away.
            if !found.is_empty() {
                state.members = found;
            }
        }
        let owner = owner(&state.members, key).filter(|owner| Some(*owner) != self.peers.own)?;
        let alone = state.failed.get(&owner).is_some_and(|failed| failed.elapsed() < ALONE);
        (!alone).then_some(owner)
    }

    /// A peer could not give what it was asked for.
    pub(super) fn failed(&self, peer: SocketAddr) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.insert(peer, Instant::now());
    }
}

/// The addresses of all.
fn members(peers: &Peers) -> BTreeSet<SocketAddr> {
    let found = peers.names.iter().flat_map(|name| name.to_socket_addrs().into_iter().flatten());
    found.chain(peers.own).collect()
}

/// The member with the highest hash beside the chunk.
fn owner(members: &BTreeSet<SocketAddr>, key: &Key) -> Option<SocketAddr> {
    let weight = |member: &SocketAddr| {
        let digest = Sha256::digest(format!("{member} {} {}", key.folder, key.nth));
        <[u8; 32]>::from(digest)
    };
    members.iter().max_by_key(|member| weight(member)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(nth: u64) -> Key {
        Key { folder: "version-95".into(), nth }
    }

    #[test]
    fn who_comes_or_goes_moves_its_own_chunks_only() {
        let member = |n: u16| SocketAddr::from(([10, 0, 0, 1], 8000 + n));
        let all: BTreeSet<SocketAddr> = (0..8).map(member).collect();
        let less: BTreeSet<SocketAddr> = (0..7).map(member).collect();
        let mut owned = [0_u32; 8];
        for nth in 0..8_000 {
            let (before, after) = (owner(&all, &key(nth)), owner(&less, &key(nth)));
            if before == Some(member(7)) {
                assert_ne!(after, before);
            } else {
                assert_eq!(after, before);
            }
            owned[usize::from(before.unwrap().port() - 8000)] += 1;
        }
        assert!(owned.iter().all(|chunks| (800..1_200).contains(chunks)), "{owned:?}");
    }

    #[test]
    fn this_one_and_one_that_failed_are_not_asked() {
        let own = SocketAddr::from(([127, 0, 0, 1], 1));
        let names = vec!["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        let ring = Ring::new(Peers { names, own: Some(own) });
        let owners: BTreeSet<Option<SocketAddr>> =
            (0..100).map(|nth| ring.owner(&key(nth))).collect();
        let other = SocketAddr::from(([127, 0, 0, 1], 2));
        assert_eq!(owners, [None, Some(other)].into());
        ring.failed(other);
        assert!((0..100).all(|nth| ring.owner(&key(nth)).is_none()));
        let nobody = Ring::new(Peers { names: Vec::new(), own: Some(own) });
        assert_eq!(nobody.owner(&key(0)), None);
    }
}
