//! Signs of life: when something renewed was last seen to change, and those that are no objects.
//!
//! What counts is when we saw the change, by our own steady clock, not what the object says the time
//! is.
//!
//! Thousands of nodes that renew their Leases are most of what happens in a cluster, and say nothing
//! new. Where the nodes are simulated, a healthy node's heartbeats are a function of the time, and
//! nothing happens until they stop or return: [`Heartbeats`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

/// Whoever is told of one whose heartbeats stopped or returned, by name.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Where heartbeats come from that are no Leases.
pub trait Heartbeats: Debug + Send + Sync {
    /// When the last heartbeat of whoever has this name was, up to `now`. `None`: its Lease says.
    fn last(&self, name: &str, now: Timestamp) -> Option<Timestamp>;

    /// Whether its heartbeats go on until a listener is told otherwise.
    fn beats(&self, name: &str) -> bool;

    /// Tells a listener, from now on, once of each one whose heartbeats stop or return, after
    /// [`Self::last`] and [`Self::beats`] say so.
    fn listen(&self, listener: Listener);
}

/// When something was last heard of each of many.
#[derive(Debug, Default)]
pub(crate) struct Heard(BTreeMap<String, Instant>);

impl Heard {
    /// An object that is renewed was seen; what counts is whether its sign of life changed. Says
    /// whether it did.
    pub(crate) fn see<K, S: PartialEq>(
        &mut self,
        name: &str,
        old: Option<&K>,
        new: Option<&K>,
        sign: impl Fn(&K) -> Option<S>,
    ) -> bool {
        let Some(new) = new else {
            self.0.remove(name);
            return false;
        };
        let fresh = sign(new);
        let changed = fresh.is_some() && old.and_then(sign) != fresh;
        if changed {
            self.0.insert(name.to_owned(), Instant::now());
        }
        changed
    }

    /// When this one was last heard of.
    pub(crate) fn last(&self, name: &str) -> Option<Instant> {
        self.0.get(name).copied()
    }
}

/// A moment of our steady clock, as a time.
pub(crate) fn at(moment: Instant, now: Timestamp) -> Timestamp {
    let ago = SignedDuration::try_from(moment.elapsed()).unwrap_or(SignedDuration::MAX);
    now.checked_sub(ago).unwrap_or(Timestamp::MIN)
}

/// The sign of life in a Lease.
pub(crate) fn renewed(lease: &Lease) -> Option<impl PartialEq + use<>> {
    lease.spec.as_ref()?.renew_time.clone()
}
