//! The agent's sign of life: its Lease, renewed once a minute for as long as its loop turns.
//!
//! It is written by the loop that does all the rest, so that an agent that hangs is silent.

use std::time::Duration;

use api::Machine;
use api::names;
use jiff::Timestamp;
use kit::ids::Ids;
use kube::{Api, Client, Resource};
use tokio::time::Instant;

use crate::backoff::{Backoff, Writing, answer};

/// How often: a third of how long `plan::silence` lets an agent be quiet.
const EVERY: Duration = Duration::from_secs(60);

/// Renews the Lease.
pub(crate) struct Pulse {
    client: Client,
    due: Instant,
    writing: Writing<()>,
    backoff: Backoff,
}

impl Pulse {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, due: Instant::now(), writing: None, backoff: Backoff::default() }
    }

    /// Begins to renew if that is due; when to look again.
    pub(crate) fn beat(&mut self, machine: &Machine, now: Timestamp) -> Option<Instant> {
        if self.writing.is_some() {
            return None;
        }
        let due = self.backoff.until().unwrap_or(self.due);
        if due > Instant::now() {
            return Some(due);
        }
        let leases = Api::namespaced(self.client.clone(), names::MACHINES);
        let owner = machine.owner_ref(&())?;
        self.writing =
            Some(Box::pin(async move { kit::pulse::renew(&leases, owner, EVERY, now).await }));
        None
    }

    /// Waits for what is under way; for ever if there is nothing.
    pub(crate) async fn heard(&mut self, ids: &Ids) {
        match answer(&mut self.writing).await {
            Ok(()) => {
                self.backoff.reset();
                self.due = Instant::now() + EVERY;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot renew the agent's Lease");
                self.backoff.failed(ids);
            }
        }
    }
}
