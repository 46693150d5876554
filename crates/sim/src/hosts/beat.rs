//! Signs of life: Leases on the wall clock, a function of node and time in virtual time.

use std::fmt;

use controllers::heartbeats::Listener;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kit::clock::Clock;
use kube::{Api, Client, Resource};

use super::fleet::{Fleet, Seat};
use super::{LEASE, RENEW};

/// Where kubelets keep their Leases.
const NAMESPACE: &str = "kube-node-lease";

/// So many Leases are renewed at once.
const AT_ONCE: usize = 64;

/// When a kubelet or an agent was last alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It has not run since this process began.
    Never,
    /// It lives.
    Alive { since: Timestamp },
    /// It is silent.
    Silent { since: Timestamp, until: Timestamp },
}

impl Life {
    /// It lives, and did before if nobody said otherwise; says whether that is new.
    pub(super) fn begin(&mut self, now: Timestamp) -> bool {
        let new = !matches!(self, Self::Alive { .. });
        if new {
            *self = Self::Alive { since: now };
        }
        new
    }

    /// It falls silent; says whether it was alive.
    pub(super) fn end(&mut self, now: Timestamp) -> bool {
        let Self::Alive { since } = *self else { return false };
        *self = Self::Silent { since, until: now };
        true
    }

    /// When it last gave a sign, had it given one every ten seconds. What ends at a moment gives none
    /// at that moment.
    fn last(self, now: Timestamp) -> Option<Timestamp> {
        let (since, end) = match self {
            Self::Never => return None,
            Self::Alive { since } => (since, now),
            Self::Silent { since, until } => {
                let before = until.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(until);
                (since, now.min(before))
            }
        };
        let every = i64::try_from(RENEW.as_secs()).unwrap_or(i64::MAX);
        let whole = end.duration_since(since).as_secs().max(0) / every * every;
        since.checked_add(SignedDuration::from_secs(whole)).ok()
    }
}

/// Whose life is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Kubelet,
    Agent,
}

impl Whose {
    fn life(self, seat: &Seat) -> Life {
        match self {
            Self::Kubelet => seat.life,
            Self::Agent => seat.agent,
        }
    }
}

/// Healthy heartbeats of kubelets, or of agents, as a function of machine and time, so that nothing
/// ticks while they go on. Cheap to clone.
#[derive(Clone)]
pub struct Heartbeats {
    fleet: Fleet,
    whose: Whose,
}

impl fmt::Debug for Heartbeats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Heartbeats")
    }
}

impl Heartbeats {
    pub(super) fn new(fleet: Fleet, whose: Whose) -> Self {
        Self { fleet, whose }
    }

    fn life(&self, machine: &str) -> Option<Life> {
        self.fleet.with(machine, |seat| self.whose.life(seat))
    }
}

impl controllers::heartbeats::Heartbeats for Heartbeats {
    fn last(&self, machine: &str, now: Timestamp) -> Option<Timestamp> {
        self.life(machine)?.last(now)
    }

    fn beats(&self, machine: &str) -> bool {
        matches!(self.life(machine), Some(Life::Alive { .. }))
    }

    fn listen(&self, listener: Listener) {
        self.fleet.tell(self.whose, listener);
    }
}

/// Renews the Lease of every kubelet that lives, for as long as it is not dropped.
pub(super) async fn renew_leases(fleet: Fleet, clock: Clock) {
    let mut tick = tokio::time::interval(RENEW);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let alive = |name: String| {
            let client = fleet.with(&name, |seat| {
                let kubelet = seat.kubelet.as_ref().filter(|kubelet| !kubelet.mute)?;
                let node = seat.node.borrow().clone();
                kubelet.registered.then(|| kubelet.client.clone()).zip(node)
            });
            client.flatten().map(|(client, node)| (client, node, name))
        };
        let due: Vec<_> = fleet.names().into_iter().filter_map(alive).collect();
        let renewals = due.into_iter().map(|(client, node, name)| {
            let now = clock.now();
            async move {
                if let Err(error) = renew(client, &node, now).await {
                    tracing::warn!(node = %name, %error, "cannot renew a Lease");
                }
            }
        });
        futures::stream::iter(renewals).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

async fn renew(client: Client, node: &Node, now: Timestamp) -> kube::Result<()> {
    let leases = Api::namespaced(client, NAMESPACE);
    // What the API gave us has a name and a UID.
    let Some(owner) = node.owner_ref(&()) else { return Ok(()) };
    kit::pulse::renew(&leases, owner, LEASE, now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_what_leases_would_have_said() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let mut life = Life::Alive { since: at(3) };
        for (now, last) in [(3, 3), (12, 3), (13, 13), (100, 93)] {
            assert_eq!(life.last(at(now)), Some(at(last)), "{now}");
        }
        assert!(life.end(at(33)));
        for (now, last) in [(20, 13), (33, 23), (1_000, 23)] {
            assert_eq!(life.last(at(now)), Some(at(last)), "{now}");
        }
        assert!(!life.end(at(50)), "it ends once");
        assert_eq!(Life::Never.last(at(5)), None);
    }
}
