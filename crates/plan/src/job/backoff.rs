//! How long a Job waits after failures: 10 s, and twice as long with each, up to ten minutes.
//!
//! The delay is computed from the pods that are there, so it survives a restart; pods that ended and
//! were deleted since no longer count.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::pod;

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// When another pod may be made after `failures` in a row, the last at `last`.
pub(super) fn until(failures: usize, last: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let wait = FIRST.saturating_mul(2_i32.saturating_pow(doublings)).min(LONGEST);
    last.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// When another pod may be made after all these failures and successes; `None` if the last pod
/// succeeded, or none failed.
pub(super) fn after<'a>(
    failed: impl Iterator<Item = &'a Pod>,
    succeeded: impl Iterator<Item = &'a Pod>,
) -> Option<Timestamp> {
    let success = succeeded.map(ended).max();
    let since: Vec<_> =
        failed.map(ended).filter(|time| success.is_none_or(|success| *time > success)).collect();
    since.iter().max().map(|last| until(since.len(), *last))
}

/// When a pod ended, as well as its status says: its last container, or when it was no longer ready,
/// or when it was deleted.
pub(super) fn ended(pod: &Pod) -> Timestamp {
    let unready = || {
        let ready = pod::condition(pod, "Ready").filter(|ready| ready.status == "False")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    };
    let deleted = || {
        let at = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        at.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let known = containers(pod).or_else(unready).or_else(deleted).or_else(created);
    known.unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When the last of a pod's containers ended, sidecars included; `None` unless all have.
fn containers(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<_> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| &container.name)
        .collect();
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|status| sidecars.contains(&&status.name));
    let all = status.container_statuses.iter().flatten().chain(beside);
    let end = |status: &ContainerStatus| {
        Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    };
    let ends: Option<Vec<_>> = all.map(end).collect();
    ends?.into_iter().max()
}
