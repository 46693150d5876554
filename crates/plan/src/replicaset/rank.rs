//! Which pods go first when there are too many.
//!
//! In this order: without a node, pending, not ready, cheaper to delete, on nodes with more of their
//! peers, ready for less time, restarted more often, younger. Times are compared by their order of
//! magnitude, and the UID decides within one, so that the oldest replica is not always the one kept.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods so that those to delete first come first.
pub fn sort(pods: &mut [Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod::is_active(pod)) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let peers = |pod: &Pod| on_node.get(node(pod)).copied().unwrap_or(0);
    pods.sort_by(|a, b| {
        let first = |pod: &Pod| {
            let assigned = !node(pod).is_empty();
            let phase = match pod::phase(pod) {
                "Pending" => 0,
                "Unknown" => 1,
                _ => 2,
            };
            (assigned, phase, pod::ready_since(pod).is_some(), cost(pod), Reverse(peers(pod)))
        };
        first(a)
            .cmp(&first(b))
            .then_with(|| match (pod::ready_since(a), pod::ready_since(b)) {
                (Some(a_time), Some(b_time)) if a_time != b_time => {
                    younger(a, a_time, b, b_time, now)
                }
                _ => Ordering::Equal,
            })
            .then_with(|| restarts(b).cmp(&restarts(a)))
            .then_with(|| younger(a, created(a), b, created(b), now))
            .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
    });
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotations.as_ref().and_then(|all| all.get(COST));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref();
    let main = statuses.and_then(|status| status.container_statuses.as_ref());
    main.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
}

fn created(pod: &Pod) -> Timestamp {
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn younger(a: &Pod, a_time: Timestamp, b: &Pod, b_time: Timestamp, now: Timestamp) -> Ordering {
    if a_time == b_time {
        return Ordering::Equal;
    }
    let magnitude = |time: Timestamp| {
        let age = now.duration_since(time).as_nanos();
        u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
    };
    magnitude(a_time).cmp(&magnitude(b_time)).then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}
