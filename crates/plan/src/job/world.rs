//! A Job and its pods, with what follows from them: who is active, who counts, which indexes are done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::index::Indexes;
use super::policy::{Judgement, judge};
use super::{Observed, backoff, is_tracked};
use crate::pod;

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// See the module.
pub(super) struct World<'a> {
    pub(super) job: &'a Job,
    pub(super) spec: JobSpec,
    pub(super) now: Timestamp,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) active: Vec<Arc<Pod>>,
    /// The number of indexes; `None` if pods have none.
    pub(super) size: Option<i32>,
    /// UIDs that the status has and has not counted yet.
    pub(super) uncounted: (BTreeSet<String>, BTreeSet<String>),
    /// Indexes that the status knows to have succeeded, and all that have.
    pub(super) known: Indexes,
    pub(super) done: Indexes,
    /// Indexes that failed for good, where each has a limit of its own.
    pub(super) lost: Option<Indexes>,
    /// The failed pods that wait for their successors, by index: they hold the count of failures.
    pub(super) last: BTreeMap<i32, Arc<Pod>>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// As a status has it: nothing for zero.
pub(super) fn count(pods: usize) -> Option<i32> {
    (pods > 0).then(|| i32::try_from(pods).unwrap_or(i32::MAX))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    pod::ready_since(pod).is_some()
}

/// There are UIDs that are not counted yet.
pub(super) fn is_uncounted(status: &JobStatus) -> bool {
    let Some(uncounted) = &status.uncounted_terminated_pods else { return false };
    uncounted.succeeded.iter().chain(&uncounted.failed).any(|uids| !uids.is_empty())
}

pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// A number in a pod's annotations that is not negative.
pub(super) fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    let text = pod.metadata.annotations.as_ref()?.get(annotation)?;
    text.parse().ok().filter(|number| *number >= 0)
}

/// How often an index failed before this pod, ignored failures included.
fn tries(pod: &Pod) -> i32 {
    let count = |annotation| number(pod, annotation).unwrap_or(0);
    count(FAILURES).saturating_add(count(IGNORED))
}

impl<'a> World<'a> {
    pub(super) fn new(observed: &'a Observed) -> Self {
        let job = &observed.job;
        let spec = job.spec.clone().unwrap_or_default();
        let indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let size = indexed.then(|| spec.completions.unwrap_or(0));
        let status = job.status.clone().unwrap_or_default();
        let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
        let set = |uids: Option<Vec<String>>| uids.into_iter().flatten().collect();
        let active = observed.pods.iter().filter(|pod| pod::is_active(pod)).cloned();
        let mut world = Self {
            job,
            now: observed.now,
            pods: &observed.pods,
            active: active.collect(),
            size,
            uncounted: (set(uncounted.succeeded), set(uncounted.failed)),
            known: Indexes::default(),
            done: Indexes::default(),
            lost: None,
            last: BTreeMap::new(),
            succeeded: 0,
            failed: 0,
            spec,
        };
        let fresh = world.fresh(&world.uncounted.1, |pod| world.is_failed(pod));
        let counted = fresh.filter(|pod| world.judge(pod).counts).count();
        let sum = |known: Option<i32>, more: [usize; 2]| {
            let more = more.iter().map(|more| i32::try_from(*more).unwrap_or(i32::MAX));
            more.fold(known.unwrap_or(0), i32::saturating_add)
        };
        world.failed = sum(status.failed, [counted, world.uncounted.1.len()]);
        let fresh = world.fresh(&world.uncounted.0, |pod| pod::phase(pod) == "Succeeded").count();
        world.succeeded = sum(status.succeeded, [fresh, world.uncounted.0.len()]);
        if let Some(size) = size {
            let text = status.completed_indexes.as_deref().unwrap_or_default();
            world.index(size, text, status.failed_indexes.as_deref().unwrap_or_default());
        }
        world
    }

    /// What became of the indexes.
    fn index(&mut self, size: i32, completed: &str, failed: &str) {
        let tracked = || self.pods.iter().filter(|pod| is_tracked(&pod.metadata));
        let done = tracked().filter(|pod| pod::phase(pod) == "Succeeded");
        self.known = Indexes::parse(completed, size);
        self.done = self.known.union(&done.filter_map(|pod| self.index_of(pod)).collect());
        self.succeeded = self.done.len();
        let Some(limit) = self.spec.backoff_limit_per_index else { return };
        let failed_now = tracked().filter(|pod| {
            let judgement = self.judge(pod);
            let tried = number(pod, FAILURES).unwrap_or(0);
            self.is_failed(pod) && (judgement.index || (judgement.counts && tried >= limit))
        });
        let failed_now: Indexes = failed_now.filter_map(|pod| self.index_of(pod)).collect();
        let lost = Indexes::parse(failed, size).union(&failed_now);
        let active: BTreeSet<_> = self.active.iter().filter_map(|pod| self.index_of(pod)).collect();
        let mut last: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in tracked().filter(|pod| self.is_failed(pod)) {
            let Some(index) = self.index_of(pod) else { continue };
            if self.done.contains(index) || lost.contains(index) || active.contains(&index) {
                continue;
            }
            let newer = |known: &Arc<Pod>| {
                tries(known) <= tries(pod) && backoff::ended(pod) >= backoff::ended(known)
            };
            if last.get(&index).is_none_or(newer) {
                last.insert(index, Arc::clone(pod));
            }
        }
        (self.lost, self.last) = (Some(lost), last);
    }

    /// Pods that ended so and are in no count yet.
    fn fresh(
        &self,
        uncounted: &BTreeSet<String>,
        so: impl Fn(&Pod) -> bool,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().filter(move |pod| {
            let valid = self.size.is_none() || self.index_of(pod).is_some();
            is_tracked(&pod.metadata) && !uncounted.contains(uid(pod)) && valid && so(pod)
        })
    }

    /// A pod's index, if the Job has such a one.
    pub(super) fn index_of(&self, pod: &Pod) -> Option<i32> {
        number(pod, INDEX).filter(|index| self.size.is_some_and(|size| *index < size))
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// A pod that terminates is replaced only when it has ended.
    pub(super) fn waits_for_the_end(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    pub(super) fn is_failed(&self, pod: &Pod) -> bool {
        let ends = pod::is_terminating(pod) && pod::phase(pod) != "Succeeded";
        pod::phase(pod) == "Failed" || (ends && !self.waits_for_the_end())
    }

    pub(super) fn judge(&self, pod: &Pod) -> Judgement {
        judge(self.spec.pod_failure_policy.as_ref(), pod)
    }

    /// How many pods are to be deleted and have not ended.
    pub(super) fn terminating(&self) -> usize {
        self.pods.iter().filter(|pod| pod::is_terminating(pod) && !pod::is_finished(pod)).count()
    }

    /// When the Job has been active for too long.
    pub(super) fn deadline(&self, start: Option<&Time>) -> Option<Timestamp> {
        let allowed = self.spec.active_deadline_seconds.filter(|_| !self.is_suspended())?;
        let end = start?.0.checked_add(SignedDuration::from_secs(allowed));
        Some(end.unwrap_or(Timestamp::MAX))
    }

    /// When the next pod may be made after failures.
    pub(super) fn backoff(&self) -> Option<Timestamp> {
        // One that we deleted ourselves is no longer tracked and did not fail.
        let counts = |pod: &&Pod| is_tracked(&pod.metadata) || !pod::is_terminating(pod);
        let all = || self.pods.iter().map(|pod| &**pod).filter(counts);
        backoff::after(
            all().filter(|pod| self.is_failed(pod)),
            all().filter(|pod| pod::phase(pod) == "Succeeded"),
        )
    }

    /// When the next pod of an index may be made after its failures.
    pub(super) fn backoff_of(&self, index: i32) -> Option<Timestamp> {
        let last = self.last.get(&index)?;
        let failures = usize::try_from(tries(last)).unwrap_or(0).saturating_add(1);
        Some(backoff::until(failures, backoff::ended(last)))
    }
}
