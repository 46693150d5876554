//! The audit log of a site: which operations its API server has told of, and when.

use super::record::Record;
use super::sabotage::{Sabotage, Saboteur};
use api::audit::OPERATION;
use apiserver::audit::{Audit, AuditSink, Policy};
use serde_json::Value;
use std::sync::Arc;

/// Only what machines are about to be told is judged.
const POLICY: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [\
    {level: Metadata, omitStages: [RequestReceived], verbs: [patch], \
     resources: [{group: fleet.seatrial.dev, resources: [machines/status]}]}, \
    {level: None}]}";

struct Auditor {
    record: Record,
    saboteur: Saboteur,
}

/// What the server tells of, to this record.
pub(super) fn audit(record: &Record, saboteur: &Saboteur) -> Result<Audit, String> {
    let policy = Policy::parse(POLICY).map_err(|error| error.to_string())?;
    let auditor = Auditor { record: record.clone(), saboteur: saboteur.clone() };
    Ok(Audit { policy: Arc::new(policy), sink: Arc::new(auditor) })
}

impl AuditSink for Auditor {
    fn take(&self, event: Value) {
        let operation = &event["annotations"][OPERATION];
        let done = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        let Some(operation) = operation.as_str().filter(|_| done) else { return };
        if !self.saboteur.does(Sabotage::NoAudit) {
            self.record.seen().audited(operation);
        }
    }
}
