//! The agent's sign of life: its Lease, renewed once a minute for as long as its loop turns.
//!
//! It is written by the loop that does all the rest, so that an agent that hangs is silent.

use std::time::Duration;

use api::Machine;
use api::names;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::ids::Ids;
use kube::{Api, Client, Resource};
use tokio::time::Instant;

use crate::backoff::Backoff;

/// How often: a third of how long `plan::silence` lets an agent be quiet.
const EVERY: Duration = Duration::from_secs(60);

/// Renews the Lease.
pub(crate) struct Pulse {
    client: Client,
    due: Instant,
    answer: Option<BoxFuture<'static, kube::Result<()>>>,
    backoff: Backoff,
}

impl Pulse {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, due: Instant::now(), answer: None, backoff: Backoff::default() }
    }

    /// Begins to renew if that is due; when to look again.
    pub(crate) fn beat(&mut self, machine: &Machine, now: Timestamp) -> Option<Instant> {
        if self.answer.is_some() {
            return None;
        }
        let due = self.backoff.until().unwrap_or(self.due);
        if due > Instant::now() {
            return Some(due);
        }
        let leases = Api::namespaced(self.client.clone(), names::MACHINES);
        let owner = OwnerReference {
            api_version: Machine::api_version(&()).into_owned(),
            kind: Machine::kind(&()).into_owned(),
            name: machine.name().to_owned(),
            uid: machine.uid().to_owned(),
            ..OwnerReference::default()
        };
        self.answer =
            Some(Box::pin(async move { kit::pulse::renew(&leases, owner, EVERY, now).await }));
        None
    }

    /// Waits for what is under way; for ever if there is nothing.
    pub(crate) async fn heard(&mut self, ids: &Ids) {
        let Some(answer) = &mut self.answer else { return std::future::pending().await };
        let answer = answer.await;
        self.answer = None;
        match answer {
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
