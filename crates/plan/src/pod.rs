//! What a pod's status says: whether it still counts, is ready, and is available.

use api::treatment::Treatment;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// Its phase; a pod that nobody has reported on is pending.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// It has ended, well or not.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// It is to be deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// It runs or may come to run.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// Whether it holds its node: work of a user that has not ended. What runs on every node, what the
/// kubelet runs by itself, and our own tests do not.
pub fn holds(pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let mirror = meta.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR));
    let owners = meta.owner_references.iter().flatten();
    let daemon = owners.into_iter().any(|o| o.controller == Some(true) && o.kind == "DaemonSet");
    !is_finished(pod) && !mirror && !daemon && !is_test(pod)
}

/// A test of ours: in our namespace, and at home on nodes that are not in production.
fn is_test(pod: &Pod) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let mut endures = tolerations.filter_map(|toleration| toleration.key.as_deref());
    pod.metadata.namespace.as_deref() == Some(api::names::NAMESPACE)
        && endures.any(|key| key == api::names::TAINT_STATE)
}

/// The annotation of pods that the kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// How it asks to be treated.
pub fn treatment(pod: &Pod) -> Treatment {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(api::names::TREATMENT));
    Treatment::read(label.map(String::as_str))
}

/// A condition of the pod's status.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Since when it is ready, if it is; the epoch where the status does not say.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

/// From when it is available if it stays ready for `min_ready` seconds; `None` while not ready.
///
/// Who asks for no such time gets a ready pod at once, also where the clock of the pod's node is
/// ahead of ours.
pub fn available_from(pod: &Pod, min_ready: i32) -> Option<Timestamp> {
    let since = ready_since(pod)?;
    if min_ready <= 0 {
        return Some(Timestamp::UNIX_EPOCH);
    }
    let wait = SignedDuration::from_secs(i64::from(min_ready));
    Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_clock_that_is_ahead_makes_no_ready_pod_wait() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let ready = json!({"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:05:00Z"});
        let pod: Pod = serde_json::from_value(json!({"status": {"conditions": [ready]}})).unwrap();
        assert!(available_from(&pod, 0).is_some_and(|from| from <= now));
        assert_eq!(available_from(&pod, 10), Some("2026-01-01T00:05:10Z".parse().unwrap()));
        assert_eq!(available_from(&Pod::default(), 0), None);
    }

    #[test]
    fn only_work_of_users_holds_a_node() {
        let pod = |meta: Value, phase: &str| {
            let test = [json!({"key": api::names::TAINT_STATE, "operator": "Exists"})];
            let tolerations = if meta.get("test").is_some() { test.to_vec() } else { Vec::new() };
            let object = json!({"metadata": meta, "status": {"phase": phase},
                "spec": {"containers": [], "tolerations": tolerations}});
            holds(&serde_json::from_value(object).unwrap())
        };
        let owned = |kind: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u",
                "controller": true});
            json!({"namespace": "team", "ownerReferences": [owner]})
        };
        assert!(pod(json!({"namespace": "team"}), "Running"));
        assert!(pod(owned("ReplicaSet"), "Pending"));
        assert!(!pod(owned("DaemonSet"), "Running"));
        assert!(!pod(json!({"namespace": "team"}), "Succeeded"));
        assert!(!pod(json!({"namespace": "seatrial-system", "test": true}), "Running"));
        assert!(pod(json!({"namespace": "seatrial-system"}), "Running"), "no test");
        assert!(pod(json!({"namespace": "team", "test": true}), "Running"), "not ours");
        assert!(!pod(json!({"annotations": {"kubernetes.io/config.mirror": "x"}}), "Running"));
    }
}
