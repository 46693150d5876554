//! What is known of nodes, and when they were heard of.

use std::sync::PoisonError;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::controller::{Context, ObjectKey};

use super::{NodeLifecycle, Observed};
use crate::heartbeats::at;

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    conditions(node).iter().find(|condition| condition.type_ == "Ready")
}

/// The sign of life in a node's status.
pub(super) fn heartbeat(node: &Node) -> Option<impl PartialEq + use<>> {
    // What we write ourselves is no sign.
    let ready = ready(node).filter(|ready| ready.status != "Unknown")?;
    Some((ready.last_heartbeat_time.clone(), ready.status.clone()))
}

/// Whether a change of a node is more than a heartbeat.
pub(super) fn matters(old: &Node, new: &Node) -> bool {
    fn said(node: &Node) -> impl PartialEq + '_ {
        let spec = node.spec.as_ref();
        let all = conditions(node).iter().map(|c| (&c.type_, &c.status)).collect::<Vec<_>>();
        let labels = &node.metadata.labels;
        (all, labels, spec.map(|spec| (&spec.taints, spec.unschedulable)))
    }
    said(old) != said(new)
}

pub(super) fn taints(node: &Node) -> Vec<k8s_openapi::api::core::v1::Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

pub(super) fn created(node: &Node) -> Timestamp {
    node.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

impl NodeLifecycle {
    pub(super) fn observe_node(&self, context: &Context, name: &str) -> Option<Observed> {
        let node = self.nodes.get(&ObjectKey::cluster(name))?;
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).last(name);
        let now = context.now();
        let elsewhere = self.heartbeats.as_ref().and_then(|from| from.last(name, now));
        let facts = plan::nodelifecycle::Observed {
            created: created(&node),
            heard: heard.map(|heard| at(heard, now)).max(elsewhere),
            conditions: conditions(&node).to_vec(),
            taints: taints(&node),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
            now,
        };
        Some(Observed::Node(node, facts))
    }
}
