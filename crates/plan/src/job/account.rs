//! How pods that ended become numbers: first their UIDs, then, when nothing keeps the pods any more,
//! counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::end::End;
use super::world::{World, uid};
use super::{MOST, is_tracked};
use crate::pod;

impl World<'_> {
    /// Accounts for the pods that ended, and says which need no longer be kept. `false`: there are
    /// more than one status may hold.
    pub(super) fn account(
        &self,
        status: &mut JobStatus,
        release: &mut Vec<Arc<Pod>>,
        end: Option<&End>,
    ) -> bool {
        let mut tracked: Vec<_> =
            self.pods.iter().filter(|pod| is_tracked(&pod.metadata)).collect();
        let kept: BTreeSet<&str> = tracked.iter().map(|pod| uid(pod)).collect();
        let (mut succeeded, mut failed) = self.uncounted.clone();
        let count = |uids: &mut BTreeSet<String>, known: Option<i32>| {
            let before = uids.len();
            uids.retain(|uid| kept.contains(uid.as_str()));
            let gone = i32::try_from(before - uids.len()).unwrap_or(i32::MAX);
            Some(known.unwrap_or(0).saturating_add(gone)).filter(|count| *count > 0)
        };
        status.succeeded = count(&mut succeeded, status.succeeded);
        status.failed = count(&mut failed, status.failed);
        tracked.sort_by_key(|pod| self.index_of(pod));
        let mut all = true;
        let mut fresh = 0;
        for pod in tracked {
            if !self.is_over(pod, end) {
                continue;
            }
            release.push(Arc::clone(pod));
            let known = failed.contains(uid(pod));
            if pod::phase(pod) == "Succeeded" && !known {
                match self.size {
                    None => drop(succeeded.insert(uid(pod).to_owned())),
                    Some(_) => {
                        let index = self.index_of(pod).filter(|i| !self.known.contains(*i));
                        fresh += usize::from(index.is_some());
                    }
                }
            } else if !known && self.counts_as_failed(pod, end) {
                failed.insert(uid(pod).to_owned());
            }
            if fresh + succeeded.len() + failed.len() >= MOST {
                all = false;
                break;
            }
        }
        if self.size.is_some() {
            status.succeeded = Some(self.done.len()).filter(|count| *count > 0);
            status.completed_indexes = Some(self.done.to_string()).filter(|text| !text.is_empty());
            status.failed_indexes = self.lost.as_ref().map(ToString::to_string);
        }
        let some = |uids: BTreeSet<String>| (!uids.is_empty()).then(|| uids.into_iter().collect());
        status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: some(succeeded), failed: some(failed) });
        all
    }

    /// Nothing more is to be learned of a pod.
    fn is_over(&self, pod: &Arc<Pod>, end: Option<&End>) -> bool {
        let ends = self.job.metadata.deletion_timestamp.is_some() || end.is_some();
        if ends || pod::phase(pod) == "Succeeded" {
            return true;
        }
        // The last one of an index holds the count of its failures until it has a successor.
        let last = self.index_of(pod).and_then(|index| self.last.get(&index));
        self.is_failed(pod) && last.is_none_or(|last| uid(last) != uid(pod))
    }

    fn counts_as_failed(&self, pod: &Pod, end: Option<&End>) -> bool {
        let fails = end.is_some_and(|end| !end.succeeds);
        let valid = self.size.is_none() || self.index_of(pod).is_some();
        (self.is_failed(pod) || fails) && valid && self.judge(pod).counts
    }
}
