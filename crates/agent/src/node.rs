//! The agent's word in its Node's status: a condition for each type of fault that it holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::manager;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::ids::Ids;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use plan::agent::{Faults, Writer, read, sees};
use plan::catalogue::{Catalogue, Condition};
use serde_json::json;
use tokio::time::Instant;

use crate::backoff::{Backoff, Writing, answer};
use crate::machine::revision;

/// Shows the faults on the node until it shows them all and nothing that is over.
pub(crate) struct Board {
    client: Client,
    boot: String,
    /// The node as we know it: from the watch, or from what a write was answered.
    node: Option<Arc<Node>>,
    /// The types that we have set.
    ours: BTreeSet<Condition>,
    writing: Writing<Node>,
    backoff: Backoff,
}

impl Board {
    pub(crate) fn new(client: Client, boot: String) -> Self {
        let backoff = Backoff::default();
        Self { client, boot, node: None, ours: BTreeSet::new(), writing: None, backoff }
    }

    /// The node as the watch has it now. What an earlier agent of this boot showed there is taken
    /// over by us.
    pub(crate) fn look(
        &mut self,
        node: Option<Arc<Node>>,
        faults: &mut Faults,
        catalogue: &Catalogue,
        now: Timestamp,
    ) {
        let Some(node) = node else {
            self.node = None;
            return;
        };
        let uid = |node: &Node| node.metadata.uid.clone();
        let known = self.node.as_ref().filter(|known| uid(known) == uid(&node));
        if known.is_some_and(|known| revision(known.as_ref()) > revision(node.as_ref())) {
            return;
        }
        if known.is_none() {
            for said in read(conditions(&node)) {
                faults.adopt(&said, &self.boot, catalogue, now);
            }
            self.ours.extend(faults.said(&self.boot, catalogue).iter().map(|said| said.kind));
        }
        self.node = Some(node);
    }

    /// Begins a write if one is due. None: nothing is to be said; else when to try again.
    pub(crate) fn show(
        &mut self,
        faults: &Faults,
        catalogue: &Catalogue,
        now: Timestamp,
    ) -> Option<Instant> {
        let node = self.node.as_ref().filter(|_| self.writing.is_none())?;
        let wanted = faults.said(&self.boot, catalogue);
        let writer = Writer { boot: &self.boot, tells: sees, ours: &self.ours, catalogue, now };
        let changes = writer.changes(&wanted, conditions(node));
        if changes.is_empty() {
            return None;
        }
        if let Some(until) = self.backoff.until() {
            return Some(until);
        }
        let set = |said: &&plan::agent::Said| {
            let kind = said.kind.as_str();
            changes.iter().any(|change| change.type_ == kind && change.status == "True")
        };
        self.ours.extend(wanted.iter().filter(set).map(|said| said.kind));
        let (client, name) = (self.client.clone(), node.metadata.name.clone().unwrap_or_default());
        let body = json!({
            "metadata": {"uid": node.metadata.uid},
            "status": {"conditions": changes},
        });
        self.writing = Some(Box::pin(async move {
            let field_manager = Some(manager::AGENT.to_owned());
            let params = PatchParams { field_manager, ..PatchParams::default() };
            Api::all(client).patch_status(&name, &params, &Patch::Strategic(body)).await
        }));
        None
    }

    /// Waits for the write that is under way; for ever if there is none.
    pub(crate) async fn heard(&mut self, ids: &Ids) {
        match answer(&mut self.writing).await {
            Ok(node) => {
                self.backoff.reset();
                if self
                    .node
                    .as_ref()
                    .is_some_and(|known| revision(known.as_ref()) < revision(&node))
                {
                    self.node = Some(Arc::new(node));
                }
            }
            // It is gone, or another has its name; the watch will say.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                self.backoff.failed(ids);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write the node's conditions");
                self.backoff.failed(ids);
            }
        }
    }
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}
