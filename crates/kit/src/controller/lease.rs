//! Leader election by a Lease: of several processes, one acts.
//!
//! Guarantees: who cannot renew stops to act before anybody else may begin, measured by its own
//! clock from its own last renewal; the times of others are only ever compared with when we saw them
//! change, never with our clock; a leader that stops in good order gives the Lease back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;

use super::error::jitter;
use crate::clock::Clock;
use crate::ids::Ids;

/// Which Lease, and how patient; the defaults are kube-controller-manager's.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are: another for each process.
    pub identity: String,
    /// How long a leader that is silent is still one.
    pub duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_within: Duration,
    /// How often a leader renews and the others look.
    pub every: Duration,
}

impl Election {
    /// An election with the usual times: 15 s, 10 s, 2 s.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            every: Duration::from_secs(2),
        }
    }
}

/// The Lease as last seen, and since when it looks so by our own clock.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    holder: String,
    renewed: Option<Timestamp>,
    duration: Duration,
    since: Timestamp,
}

/// What to do about a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is ours: renew it.
    Renew,
    /// It is nobody's, or its holder has been silent for too long.
    Take,
    /// Somebody else holds it.
    Wait,
}

/// The whole decision.
fn evaluate(seen: Option<&Seen>, identity: &str, now: Timestamp) -> Verdict {
    match seen {
        None => Verdict::Take,
        Some(seen) if seen.holder == identity => Verdict::Renew,
        Some(seen) if seen.holder.is_empty() => Verdict::Take,
        Some(seen) => {
            let silent = now.duration_since(seen.since);
            if Duration::try_from(silent).is_ok_and(|silent| silent >= seen.duration) {
                Verdict::Take
            } else {
                Verdict::Wait
            }
        }
    }
}

/// A candidate. [`Candidate::acquire`], then [`Candidate::keep`] until it ends.
pub struct Candidate {
    leases: Api<Lease>,
    election: Election,
    clock: Clock,
    ids: Ids,
    seen: Option<Seen>,
    lease: Option<Lease>,
    /// When we last wrote that we lead: a moment before anybody can have read it.
    renewed: Timestamp,
}

impl Candidate {
    /// A candidate that holds nothing.
    pub fn new(client: Client, election: Election, clock: Clock, ids: Ids) -> Self {
        let leases = Api::namespaced(client, &election.namespace);
        let renewed = Timestamp::MIN;
        Self { leases, election, clock, ids, seen: None, lease: None, renewed }
    }

    /// Waits until we lead.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                // Somebody was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    let error = crate::error::chain(&error);
                    tracing::warn!(lease = self.election.name, %error, "cannot take the lease");
                }
            }
            tokio::time::sleep(jitter(self.election.every, &self.ids)).await;
        }
    }

    /// Renews until that fails for too long or somebody else leads; then we must not act any more.
    pub async fn keep(&mut self) {
        loop {
            tokio::time::sleep(self.election.every.min(self.right())).await;
            // An attempt that hangs must not outlive our right to act.
            let why = match tokio::time::timeout(self.right(), self.attempt()).await {
                Ok(Ok(true)) => continue,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => crate::error::chain(&error).to_string(),
                Err(_) => "the API does not answer".to_owned(),
            };
            if self.right().is_zero() {
                tracing::error!(lease = self.election.name, why, "cannot renew the lease");
                return;
            }
        }
    }

    /// How long we may still act without another renewal.
    fn right(&self) -> Duration {
        let silent = self.clock.now().duration_since(self.renewed);
        let silent = Duration::try_from(silent).unwrap_or_default();
        self.election.renew_within.saturating_sub(silent)
    }

    /// Gives the Lease back, so that the next leader need not wait.
    pub async fn release(&mut self) {
        let Some(mut lease) = self.lease.take() else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.election.identity) {
            return;
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        if let Err(error) = self.leases.replace(&self.election.name, &params, &lease).await {
            tracing::warn!(lease = self.election.name, %error, "cannot give the lease back");
        }
    }

    /// Looks and, where that is right, writes. Says whether we lead.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let found = self.leases.get_opt(&self.election.name).await?;
        // Before the write, so that nobody counts from an earlier moment than we do.
        let now = self.clock.now();
        self.look(found.as_ref(), now);
        let verdict = evaluate(self.seen.as_ref(), &self.election.identity, now);
        if verdict == Verdict::Wait {
            return Ok(false);
        }
        let params = PostParams::default();
        let wanted = self.wanted(found.as_ref(), verdict, now);
        let written = match found {
            None => self.leases.create(&params, &wanted).await,
            // The revision in it makes this a compare-and-set.
            Some(_) => self.leases.replace(&self.election.name, &params, &wanted).await,
        };
        let lease = written?;
        self.look(Some(&lease), now);
        self.lease = Some(lease);
        self.renewed = now;
        Ok(true)
    }

    fn look(&mut self, lease: Option<&Lease>, now: Timestamp) {
        let Some(spec) = lease.and_then(|lease| lease.spec.as_ref()) else {
            self.seen = None;
            return;
        };
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
        let new = Seen {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            duration: Duration::from_secs(seconds),
            since: now,
        };
        let same =
            self.seen.as_ref().is_some_and(|seen| Seen { since: now, ..seen.clone() } == new);
        if !same {
            self.seen = Some(new);
        }
    }

    fn wanted(&self, found: Option<&Lease>, verdict: Verdict, now: Timestamp) -> Lease {
        let known = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let taken = verdict == Verdict::Take;
        let transitions = known.lease_transitions.unwrap_or(0);
        let seconds = i32::try_from(self.election.duration.as_secs()).unwrap_or(i32::MAX);
        let metadata = ObjectMeta {
            name: Some(self.election.name.clone()),
            resource_version: found.and_then(|lease| lease.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.election.identity.clone()),
                lease_duration_seconds: Some(seconds),
                acquire_time: if taken { Some(MicroTime(now)) } else { known.acquire_time },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(match found {
                    Some(_) if taken => transitions.saturating_add(1),
                    _ => transitions,
                }),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// Runs `work` while we lead. Ends when `stop` says so, after the work has ended and the Lease is
/// given back, or when the Lease is lost, in which case the work is told to stop at once.
pub async fn lead<F>(
    mut candidate: Candidate,
    mut stop: watch::Receiver<bool>,
    work: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Outcome
where
    F: Future<Output = ()>,
{
    tokio::select! {
        biased;
        _ = stop.wait_for(|stopping| *stopping) => return Outcome::Stopped,
        () = candidate.acquire() => {}
    }
    let (end, ending) = watch::channel(false);
    let mut work = Box::pin(work(ending));
    let lost = tokio::select! {
        biased;
        _ = stop.wait_for(|stopping| *stopping) => false,
        () = &mut work => false,
        () = candidate.keep() => true,
    };
    end.send_replace(true);
    if lost {
        // Whoever leads now may act already: what still runs is dropped where it stands.
        return Outcome::Lost;
    }
    work.await;
    candidate.release().await;
    Outcome::Stopped
}

/// How a time of leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// We were told to stop.
    Stopped,
    /// Somebody else leads, or nobody can tell.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_only_from_who_is_silent_or_gone() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let seen = |holder: &str| Seen {
            holder: holder.to_owned(),
            // Whatever the holder's clock says.
            renewed: Some(at(-9_999)),
            duration: Duration::from_secs(15),
            since: at(0),
        };
        let verdict = |holder: &str, now| evaluate(Some(&seen(holder)), "me", at(now));
        assert_eq!(evaluate(None, "me", at(0)), Verdict::Take);
        assert_eq!(verdict("me", 1), Verdict::Renew);
        assert_eq!(verdict("", 1), Verdict::Take);
        assert_eq!(verdict("other", 14), Verdict::Wait);
        assert_eq!(verdict("other", 15), Verdict::Take);
        assert_eq!(verdict("other", -5), Verdict::Wait);
    }
}
