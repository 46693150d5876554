//! What a pod's status says: whether it still counts, is ready, and is available.

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
pub fn available_from(pod: &Pod, min_ready: i32) -> Option<Timestamp> {
    let since = ready_since(pod)?;
    let wait = SignedDuration::from_secs(i64::from(min_ready.max(0)));
    Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
}
