//! When a Job that has ended goes by itself.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

/// When the Job goes; `None` if it does not go by itself, or not yet known.
pub fn deadline(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let end = crate::job::ended(job)?.last_transition_time.as_ref()?.0;
    Some(end.checked_add(SignedDuration::from_secs(ttl.max(0).into())).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn job(ttl: Option<i32>, condition: &str, status: &str) -> Job {
        let condition = JobCondition {
            type_: condition.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(Time(Timestamp::UNIX_EPOCH)),
            ..JobCondition::default()
        };
        let status = JobStatus { conditions: Some(vec![condition]), ..JobStatus::default() };
        let spec = JobSpec { ttl_seconds_after_finished: ttl, ..JobSpec::default() };
        Job { spec: Some(spec), status: Some(status), ..Job::default() }
    }

    #[test]
    fn only_a_job_that_has_ended_and_says_so_goes() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        assert_eq!(deadline(&job(Some(60), "Complete", "True")), at(60));
        assert_eq!(deadline(&job(Some(0), "Failed", "True")), at(0));
        assert_eq!(deadline(&job(None, "Complete", "True")), None);
        assert_eq!(deadline(&job(Some(60), "Complete", "False")), None);
        assert_eq!(deadline(&job(Some(60), "Suspended", "True")), None);
    }
}
