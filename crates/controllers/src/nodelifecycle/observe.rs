//! When nodes were heard of, and what is known of them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::controller::{Context, ObjectKey};
use tokio::time::Instant;

use super::{NodeLifecycle, Observed};

/// When something was last heard of each node.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeMap<String, Instant>);

impl Heard {
    /// An object that a node renews was seen; what counts is whether its sign of life changed.
    pub(super) fn see<K, S: PartialEq>(
        &mut self,
        node: &str,
        old: Option<&K>,
        new: Option<&K>,
        sign: impl Fn(&K) -> Option<S>,
    ) {
        let Some(new) = new else {
            self.0.remove(node);
            return;
        };
        let fresh = sign(new);
        if fresh.is_some() && old.and_then(sign) != fresh {
            self.0.insert(node.to_owned(), Instant::now());
        }
    }
}

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
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).0.get(name).copied();
        let now = context.now();
        let at = |heard: Instant| {
            let ago = SignedDuration::try_from(heard.elapsed()).unwrap_or(SignedDuration::MAX);
            now.checked_sub(ago).unwrap_or(Timestamp::MIN)
        };
        let elsewhere = self.heartbeats.as_ref().and_then(|from| from.last(name, now));
        let facts = plan::nodelifecycle::Observed {
            created: created(&node),
            heard: heard.map(at).max(elsewhere),
            conditions: conditions(&node).to_vec(),
            taints: taints(&node),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
            now,
        };
        Some(Observed::Node(node, facts))
    }
}
