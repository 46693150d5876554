//! What people ask of a node: each is a few fields of its object, as kubectl would write them.

use std::io::Write;

use api::condition::{Node as Kind, Phase};
use api::names::{CORDON_REASON, CORDONED_FOR, HANDS_OFF};
use k8s_openapi::api::core::v1::Node;
use kit::clock::rfc3339_seconds;
use kube::api::Patch;
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::view::View;
use crate::client::Cluster;
use crate::confirm::{Consent, ask, quoted};

/// When a phase is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Nobody said; an idle node can be taken at once.
    Open,
    /// Once the node is idle.
    Idle,
    /// Now.
    Now,
}

impl When {
    pub(super) const fn of(safe: bool, force: bool) -> Self {
        match (safe, force) {
            (true, _) => Self::Idle,
            (false, true) => Self::Now,
            (false, false) => Self::Open,
        }
    }
}

/// Why a verb was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActError {
    /// There is a machine and no node.
    #[error("{name} has no node in the cluster; ask why: seatrial node why {name}")]
    NoNode { name: String },
    /// Our own cordon is on it.
    #[error(
        "Seatrial cordoned {name} for incident {incident}; to keep its hands off from now on: \
         kubectl annotate node {name} {HANDS_OFF}='your reason'"
    )]
    Cordoned { name: String, incident: String },
    /// Our own cordon is not a person's to lift.
    #[error(
        "Seatrial cordoned {name} for incident {incident}, and lifts its cordon when that ends; ask \
         why: seatrial node why {name}"
    )]
    Ours { name: String, incident: String },
    /// Pods run, and nobody said what becomes of them.
    #[error("{blast} Reboot when they end (--safe), or now (--force)?")]
    Busy { blast: String },
}

/// The node's object.
pub(super) fn node(view: &View) -> Result<&Node, ActError> {
    view.node.as_ref().ok_or_else(|| ActError::NoNode { name: view.name.clone() })
}

fn marked_for(node: &Node) -> Option<&String> {
    node.metadata.annotations.as_ref()?.get(CORDONED_FOR)
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

/// Writes into the node, or prints how kubectl would.
async fn write(
    cluster: &Cluster,
    name: &str,
    status: bool,
    body: Value,
    show: bool,
    said: &str,
) -> Outcome {
    let mut out = std::io::stdout().lock();
    if show {
        let body = quoted(&body.to_string());
        let status = if status { " --subresource=status" } else { "" };
        return Ok(writeln!(out, "kubectl patch node {name}{status} --type=strategic -p {body}")?);
    }
    cluster.patch::<Node>(name, status, &Patch::Strategic(body)).await?;
    Ok(writeln!(out, "{said}")?)
}

/// The patch of a person's cordon.
pub(super) fn cordon_patch(reason: &str) -> Value {
    json!({"metadata": {"annotations": {CORDON_REASON: reason}}, "spec": {"unschedulable": true}})
}

pub(super) async fn cordon(
    cluster: &Cluster,
    view: &View,
    reason: Option<&str>,
    show: bool,
) -> Outcome {
    let name = view.name.clone();
    if let Some(incident) = marked_for(node(view)?).filter(|_| !show) {
        return Err(ActError::Cordoned { name, incident: incident.clone() }.into());
    }
    let reason = reason.map_or_else(|| format!("by {}", cluster.person), str::to_owned);
    let said = format!(
        "{name} takes no new pods, and Seatrial leaves it alone until: seatrial node uncordon {name}"
    );
    write(cluster, &name, false, cordon_patch(&reason), show, &said).await
}

pub(super) async fn uncordon(cluster: &Cluster, view: &View, show: bool) -> Outcome {
    let (name, node) = (view.name.clone(), node(view)?);
    if let Some(incident) = marked_for(node).filter(|_| !show) {
        return Err(ActError::Ours { name, incident: incident.clone() }.into());
    }
    if !is_cordoned(node) && !show {
        return Ok(writeln!(std::io::stdout(), "{name} was not cordoned.")?);
    }
    let patch = json!({
        "metadata": {"annotations": {CORDON_REASON: null}}, "spec": {"unschedulable": null},
    });
    write(cluster, &name, false, patch, show, &format!("{name} takes pods again.")).await
}

pub(super) async fn reboot(
    cluster: &Cluster,
    view: &View,
    when: When,
    consent: &Consent,
) -> Outcome {
    node(view)?;
    let (name, blast) = (&view.name, view.blast());
    let kind = match when {
        When::Idle => Kind::PendingPhase,
        When::Now => Kind::ImmediatePhase,
        When::Open if blast.pods == 0 => Kind::PendingPhase,
        When::Open => {
            let blast = blast.to_string();
            let blast = blast.lines().next().unwrap_or_default().to_owned();
            return Err(ActError::Busy { blast }.into());
        }
    };
    if kind == Kind::ImmediatePhase && !consent.show {
        ask(consent, &blast.to_string(), &format!("Reboot {name} now?"))?;
    }
    let said = match (kind, blast.pods) {
        (Kind::PendingPhase, 1..) => format!("{name} reboots once its pods have ended."),
        _ => format!("{name} reboots as soon as a budget allows it."),
    };
    phase(cluster, view, kind, Phase::Reboot, consent.show, &said).await
}

pub(super) async fn verify(cluster: &Cluster, view: &View, show: bool) -> Outcome {
    node(view)?;
    let said = format!("{} is tested once nothing of a user runs on it.", view.name);
    phase(cluster, view, Kind::PendingPhase, Phase::Test, show, &said).await
}

/// Asks for a phase by the condition that is the command for it.
async fn phase(
    cluster: &Cluster,
    view: &View,
    kind: Kind,
    phase: Phase,
    show: bool,
    said: &str,
) -> Outcome {
    let now = rfc3339_seconds(view.now);
    let condition = json!({
        "type": kind.name(), "status": "True", "reason": phase.name(),
        "message": format!("{} asks for it", cluster.person),
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let patch = json!({"status": {"conditions": [condition]}});
    let said = format!("{said} Follow it: seatrial node why {}", view.name);
    write(cluster, &view.name, true, patch, show, &said).await
}
