//! What is heard of agents: Leases in the namespace of their accounts, or a function of the time.
//!
//! Guarantees: who cannot hear anybody calls nobody silent. An outage of the API, or of the network
//! between it and us, is not the silence of a thousand agents, neither while it lasts nor when it ends:
//! then everybody has as long as ever to be heard again. The price: if all agents fall silent at one
//! moment, no node is reported.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use plan::silence::{AGENT_PATIENCE, Life};
use tokio::time::Instant;

use crate::heartbeats::{Heard, Heartbeats, at, renewed};

/// The agents, by the names of their machines.
#[derive(Default)]
pub(super) struct Agents {
    elsewhere: Option<Arc<dyn Heartbeats>>,
    heard: Heard,
    /// Who was heard to go on.
    beating: BTreeSet<String>,
    /// When anybody was heard last, and the first time after we heard nobody.
    latest: Option<Instant>,
    since: Option<Instant>,
}

impl fmt::Debug for Agents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Agents").field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Agents {
    pub(super) fn new(elsewhere: Option<Arc<dyn Heartbeats>>) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// A Lease was seen; says whether its agent lives.
    pub(super) fn see(&mut self, name: &str, old: Option<&Lease>, new: Option<&Lease>) -> bool {
        if new.is_none() {
            self.beating.remove(name);
        }
        if !self.heard.see(name, old, new, renewed) {
            return false;
        }
        let now = Instant::now();
        if old.is_some() {
            self.beating.insert(name.to_owned());
        }
        if self.latest.is_none_or(|latest| is_deaf(latest, now)) {
            self.since = Some(now);
        }
        self.latest = Some(now);
        true
    }

    /// What is known of the life of a machine's agent.
    pub(super) fn life(&self, machine: &str, now: Timestamp) -> Life {
        if let Some(elsewhere) = &self.elsewhere {
            return match elsewhere.last(machine, now) {
                _ if elsewhere.beats(machine) => Life::Beats,
                Some(last) => Life::Last(last),
                None => Life::Unknown,
            };
        }
        let deaf = self.latest.is_none_or(|latest| is_deaf(latest, Instant::now()));
        match self.heard.last(machine) {
            None => Life::Unknown,
            Some(_) if deaf && self.beating.len() > 1 => Life::Unknown,
            Some(last) => Life::Last(at(self.since.map_or(last, |since| last.max(since)), now)),
        }
    }
}

/// Whether nobody was heard for longer than many are quiet at a time: half of what one may be.
fn is_deaf(latest: Instant, now: Instant) -> bool {
    let bound = AGENT_PATIENCE.unsigned_abs() / 2;
    now.duration_since(latest) > bound
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(second: i64) -> Lease {
        let renew_time = Timestamp::from_second(second).ok().map(MicroTime);
        let spec = Some(LeaseSpec { renew_time, ..LeaseSpec::default() });
        Lease { spec, ..Lease::default() }
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_hears_nobody_calls_nobody_silent_and_then_begins_anew() {
        let (now, mut agents) = (Timestamp::from_second(1_000_000).unwrap(), Agents::default());
        let ago = |second: i64| Life::Last(now - SignedDuration::from_secs(second));
        assert_eq!(agents.life("a", now), Life::Unknown);
        assert!(agents.see("a", None, Some(&lease(0))));
        assert!(agents.see("b", None, Some(&lease(0))));
        for n in 1..4 {
            pass(60).await;
            assert!(agents.see("a", Some(&lease(n - 1)), Some(&lease(n))));
            assert!(n != 1 || agents.see("b", Some(&lease(0)), Some(&lease(1))));
        }
        assert!(!agents.see("b", Some(&lease(1)), Some(&lease(1))), "nothing new");
        assert_eq!((agents.life("a", now), agents.life("b", now)), (ago(0), ago(120)));
        pass(91).await;
        assert_eq!(agents.life("b", now), Life::Unknown, "nobody is heard");
        pass(1_000).await;
        assert!(agents.see("a", Some(&lease(3)), Some(&lease(4))));
        pass(10).await;
        assert_eq!((agents.life("a", now), agents.life("b", now)), (ago(10), ago(10)));
        assert!(!agents.see("b", Some(&lease(1)), None));
        assert_eq!(agents.life("b", now), Life::Unknown, "its Lease is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn one_agent_alone_can_be_silent() {
        let (now, mut agents) = (Timestamp::from_second(1_000_000).unwrap(), Agents::default());
        assert!(agents.see("a", None, Some(&lease(0))));
        assert!(agents.see("a", Some(&lease(0)), Some(&lease(1))));
        // A Lease that was found and is never renewed is no second agent.
        assert!(agents.see("gone", None, Some(&lease(0))));
        pass(500).await;
        assert_eq!(agents.life("a", now), Life::Last(now - SignedDuration::from_secs(500)));
    }
}
