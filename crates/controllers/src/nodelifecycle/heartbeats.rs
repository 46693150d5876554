//! Signs of life from elsewhere than Leases.
//!
//! Thousands of nodes that renew their Leases are most of what happens in a cluster, and say nothing
//! new. Where the nodes are simulated, a healthy node's heartbeats are a function of the time, and
//! nothing happens until they stop or return.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;

/// Whoever is told of a node whose heartbeats stopped or returned.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Where heartbeats come from that are no Leases.
pub trait Heartbeats: Debug + Send + Sync {
    /// When the node's last heartbeat up to `now` was. `None`: its Lease says.
    fn last(&self, node: &str, now: Timestamp) -> Option<Timestamp>;

    /// Whether the node's heartbeats go on until a listener is told otherwise.
    fn beats(&self, node: &str) -> bool;

    /// Tells a listener, from now on, once of each node whose heartbeats stop or return, after
    /// [`Self::last`] and [`Self::beats`] say so.
    fn listen(&self, listener: Listener);
}
