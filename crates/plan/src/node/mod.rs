//! The lifecycle of an incident: from a condition on a Node to a node that serves again, or to a
//! machine in triage.
//!
//! ```text
//! Open ──▶ Draining ──▶ Acting ──▶ Verifying ──▶ Closed (Solved, Done)
//!  │ cordon, settle,      ▲  │failed    │failed
//!  │ breaker, budget      └──┴─ next ◀──┘
//!  │ vanished, withdrawn         └─▶ HandingOver ──▶ Closed (HandedOver)
//!  └─▶ Closed (Vanished, Withdrawn, NodeGone)
//! ```
//!
//! What is known is read anew at each look from the node's conditions: evidence of another boot than
//! the one that runs is stale and never acted upon. The incident object carries what must survive a
//! restart, and its UID fences every deed. A cordon that a person made is never touched, and a node
//! under one is left alone. Power, GPU and service are asked of the machine; nothing here reaches a
//! BMC.

mod act;
mod drain;
mod facts;
mod labels;
mod look;
mod open;
mod prove;
mod start;

use crate::breaker::Sick;
use crate::budget::{Census, Denied};
use crate::catalogue::Catalogue;
use crate::deed::Plan;
use crate::rules::Rules;
use api::incident::{IncidentSpec, IncidentStatus, Stage};
use api::ledger::{Grant, Kind};
use api::request::Request;
use api::{Breaker, Incident, Ledger, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use look::Look;
use std::collections::BTreeMap;

pub use start::is_idle_test;

pub use facts::{Cause, Fault, FromPool, NodeSeen, PodSeen, Ready, Reported, cause, faults, sick};

/// Everything that a decision about a node rests on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The time, from the controller's clock.
    pub now: Timestamp,
    /// The node, if it exists.
    pub node: Option<&'a NodeSeen>,
    /// The machine below it.
    pub machine: &'a Machine,
    /// The open incident of the node, if there is one.
    pub incident: Option<&'a Incident>,
    /// Closed incidents of the machine, as far back as repeats are counted.
    pub past: &'a [Incident],
    /// The pods on the node.
    pub pods: &'a [PodSeen],
    /// The ledger of disruptions.
    pub ledger: &'a Ledger,
    /// Who is out, fleet-wide.
    pub census: &'a Census,
    /// The pool that the machine serves.
    pub pool: Option<&'a NodePool>,
    /// Every breaker.
    pub breakers: &'a [Breaker],
    /// What faults mean.
    pub catalogue: &'a Catalogue,
    /// Times and bounds.
    pub rules: &'a Rules,
}

/// What is done about a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Make the incident. One of that name that is there already is left as it is.
    OpenIncident {
        /// Its name.
        name: String,
        /// What it is about.
        spec: IncidentSpec,
    },
    /// Cordon the node for the incident. Refused if it is cordoned already.
    Cordon {
        /// The incident, which the cordon is marked with.
        incident: String,
        /// The sentence beside the cordon.
        reason: String,
    },
    /// Take our cordon back. Refused unless it carries the mark of this incident.
    Uncordon {
        /// The incident whose cordon it is.
        incident: String,
    },
    /// Write a grant into the ledger by [`crate::budget::grant`] on what is stored.
    TakeGrant {
        /// The grant.
        grant: Grant,
    },
    /// Take the node's grant out of the ledger.
    ReturnGrant {
        /// The UID of the node that held it.
        node_uid: String,
        /// The incident that is over and has left it behind; none where the incident itself gives it
        /// back. Refused while that incident is open: whoever does not know it yet may look at a grant
        /// that was just given.
        left_by: Option<String>,
    },
    /// End a pod.
    Evict {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID; another pod of that name is left alone.
        uid: String,
        /// Without waiting for it to end, or with its own grace period.
        now: bool,
    },
    /// Write a request into the machine's spec. Refused while another's request stands there.
    Ask(Box<Request>),
    /// Take our request out of the machine's spec.
    Withdraw {
        /// The request's id; another is left alone.
        id: String,
    },
    /// Set a condition of the node that is ours.
    Report(Reported),
    /// Take back the condition that asked for a phase: it has been carried out, or refused.
    ClearPhase {
        /// The condition's type.
        condition: &'static str,
        /// Why, as the condition's message.
        why: String,
    },
    /// Bring labels and taints of ours and of the pool to what the objects say.
    Dress(Clothes),
}

/// What a node shall wear; what others put on it is left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clothes {
    /// Labels; one without a value is taken off.
    pub labels: BTreeMap<String, Option<String>>,
    /// Taints that are on.
    pub on: Vec<Taint>,
    /// Taints that are off, by key and effect.
    pub off: Vec<Taint>,
    /// What of this is the pool's.
    pub from_pool: FromPool,
}

impl Clothes {
    /// The taints of a node that wears these beside what others gave it.
    #[must_use]
    pub fn taints(&self, mut taints: Vec<Taint>) -> Vec<Taint> {
        taints.retain(|there| !self.off.iter().any(|off| same_taint(there, off)));
        for on in &self.on {
            match taints.iter_mut().find(|there| same_taint(there, on)) {
                Some(there) => there.value.clone_from(&on.value),
                None => taints.push(on.clone()),
            }
        }
        taints
    }

    /// Puts them on a node as it is seen, for worlds without an API.
    pub fn put_on(self, node: &mut NodeSeen) {
        node.taints = self.taints(std::mem::take(&mut node.taints));
        for (label, value) in self.labels {
            match value {
                Some(value) => node.labels.insert(label, value),
                None => node.labels.remove(&label),
            };
        }
        node.from_pool = self.from_pool;
    }
}

/// Whether two taints are one to Kubernetes: a node has no two of a key and an effect.
#[must_use]
fn same_taint(one: &Taint, other: &Taint) -> bool {
    (&one.key, &one.effect) == (&other.key, &other.effect)
}

impl Observed<'_> {
    /// The limit that the pool sets itself.
    fn pool_limit(&self) -> Option<u32> {
        self.pool?.spec.max_unavailable
    }
}

/// What is to be done about a node now. The status is that of the open incident.
pub fn plan(observed: &Observed<'_>) -> Plan<Act, IncidentStatus> {
    let mut look = Look::new(observed);
    labels::dress(&mut look);
    match observed.incident {
        None => start::plan(&mut look),
        Some(incident) => {
            let stage = incident.status.as_ref().map(|status| status.stage).unwrap_or_default();
            if !look.interrupted() {
                match stage {
                    Stage::Open => open::plan(&mut look),
                    Stage::Draining => drain::plan(&mut look),
                    Stage::Acting => act::plan(&mut look),
                    Stage::Verifying => prove::plan(&mut look),
                    Stage::HandingOver => act::hand_over(&mut look),
                    Stage::Closed => look.tidy(),
                }
            }
        }
    }
    look.finish()
}

/// The grant that an open incident cannot have now, and why: what frees that budget is to bring the
/// node back.
pub fn denied(observed: &Observed<'_>) -> Option<(Kind, Denied)> {
    observed.incident?;
    open::denied(&Look::new(observed))
}

/// The fault that a node shows, as the breakers see it: the worst one that calls for a repair.
pub fn symptom(observed: &Observed<'_>) -> Option<Sick> {
    let node = observed.node?;
    let all = faults(node, observed.catalogue);
    let worst = all.iter().find(|fault| fault.acts())?;
    Some(sick(worst, node, observed.machine))
}
