//! The agent's word in its Machine's status: what it is, what it found, what came of its task.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Machine;
use api::inventory::Inventory;
use api::machine::Agent as Word;
use api::names::manager;
use api::request::Report;
use jiff::Timestamp;
use kit::ids::Ids;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::backoff::{Backoff, Writing, answer};
use crate::platform::System;

/// All that the agent says of its machine. It is written as a whole, each part in place of the former.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) agent: Word,
    pub(crate) inventory: Option<Inventory>,
    pub(crate) firmware: BTreeMap<String, String>,
    pub(crate) report: Option<Report>,
}

impl Statement {
    /// What to say at the start: what an earlier agent of the same boot said, else who we are. What
    /// was found during an earlier boot stands until it is looked for again.
    pub(crate) fn begin(machine: &Machine, system: &System, now: Timestamp) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        let known = status.agent.filter(|agent| agent.boot == system.boot);
        let agent = Word {
            boot: system.boot.clone(),
            image: system.image.clone(),
            kernel: system.kernel.clone(),
            since: known.map_or(now, |agent| agent.since),
        };
        Self {
            agent,
            inventory: status.inventory,
            firmware: status.firmware,
            report: status.report,
        }
    }

    /// Whether the machine's object says just this.
    fn stands_in(&self, machine: &Machine) -> bool {
        machine.status.as_ref().is_some_and(|status| {
            status.agent.as_ref() == Some(&self.agent)
                && status.inventory == self.inventory
                && status.firmware == self.firmware
                && status.report == self.report
        })
    }

    /// A patch (RFC 6902) that puts this in the place of what was said before, and fails if another
    /// machine has taken the name. No merge, which would leave what an earlier report named and this
    /// one does not; and no apply, which costs the API several times as much.
    fn patch(&self, machine: &Machine) -> Value {
        let put = |part: &str, value: Value| json!({"op": "add", "path": format!("/status/{part}"), "value": value});
        let mut steps =
            vec![json!({"op": "test", "path": "/metadata/uid", "value": machine.uid()})];
        if machine.status.is_none() {
            steps.push(json!({"op": "add", "path": "/status", "value": {}}));
        }
        steps.push(put("agent", json!(self.agent)));
        steps.push(put("firmware", json!(self.firmware)));
        // What was never found is not said; what once was is never taken back.
        let found = self.inventory.as_ref().map(|inventory| put("inventory", json!(inventory)));
        let reported = self.report.as_ref().map(|report| put("report", json!(report)));
        steps.extend(found.into_iter().chain(reported));
        Value::Array(steps)
    }
}

/// What the API has, as far as we know.
struct Written {
    uid: String,
    revision: u64,
    statement: Statement,
}

impl Written {
    fn of(machine: &Machine, statement: Statement) -> Self {
        Self { uid: machine.uid().to_owned(), revision: revision(machine), statement }
    }
}

/// Which of two forms of an object is the newer: the API lets revisions be compared as numbers.
pub(crate) fn revision(object: &impl kube::Resource) -> u64 {
    let revision = object.meta().resource_version.as_deref();
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

/// Writes the statement until it stands. Writes never overlap; what changes meanwhile goes with the
/// next one.
pub(crate) struct Voice {
    client: Client,
    written: Option<Written>,
    writing: Option<Statement>,
    answer: Writing<Machine>,
    backoff: Backoff,
}

impl Voice {
    pub(crate) fn new(client: Client) -> Self {
        let backoff = Backoff::default();
        Self { client, written: None, writing: None, answer: None, backoff }
    }

    /// Begins a write if one is due. None: nothing is to be said; else when to try again.
    pub(crate) fn speak(
        &mut self,
        machine: &Arc<Machine>,
        statement: &Statement,
    ) -> Option<Instant> {
        if self.answer.is_some() {
            return None;
        }
        let stands = statement.stands_in(machine);
        if self.written.is_none() && stands {
            self.written = Some(Written::of(machine.as_ref(), statement.clone()));
        }
        // What somebody took out of it since is said again.
        let known = |written: &Written| {
            written.uid == machine.uid()
                && written.statement == *statement
                && (stands || revision(machine.as_ref()) <= written.revision)
        };
        if self.written.as_ref().is_some_and(known) {
            return None;
        }
        if let Some(until) = self.backoff.until() {
            return Some(until);
        }
        let (client, name) = (self.client.clone(), machine.name().to_owned());
        let patch = statement.patch(machine);
        self.writing = Some(statement.clone());
        self.answer = Some(Box::pin(async move {
            let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
            let manager = Some(manager::AGENT.to_owned());
            let params = PatchParams { field_manager: manager, ..PatchParams::default() };
            Api::all(client).patch_status(&name, &params, &Patch::Json::<()>(patch)).await
        }));
        None
    }

    /// Waits for the write that is under way; for ever if there is none.
    pub(crate) async fn heard(&mut self, ids: &Ids) {
        let answer = answer(&mut self.answer).await;
        let writing = self.writing.take();
        match answer {
            Ok(machine) => {
                self.written = writing.map(|statement| Written::of(&machine, statement));
                self.backoff.reset();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write the machine's status");
                self.backoff.failed(ids);
            }
        }
    }
}
