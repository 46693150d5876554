//! Which ended Jobs go, so that only so many stay to be looked at.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJobSpec, Job};

use crate::job::ended;

/// The oldest of those that succeeded and of those that failed, beyond what the CronJob keeps.
pub(super) fn jobs(spec: &CronJobSpec, all: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let beyond = |type_: &str, keep: Option<i32>| {
        let is = |job: &&Arc<Job>| ended(job).is_some_and(|end| end.type_ == type_);
        let mut jobs: Vec<_> = all.iter().filter(is).cloned().collect();
        jobs.sort_by_key(|job| (began(job), job.metadata.name.clone()));
        let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep).unwrap_or(0));
        jobs.truncate(jobs.len().saturating_sub(keep));
        jobs
    };
    let mut old = beyond("Failed", spec.failed_jobs_history_limit);
    old.extend(beyond("Complete", spec.successful_jobs_history_limit));
    old
}

/// Those that never began come last.
fn began(job: &Job) -> Timestamp {
    let began = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    began.map_or(Timestamp::MAX, |time| time.0)
}
