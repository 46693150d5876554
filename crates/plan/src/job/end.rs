//! How a Job ends: by enough successes, or by failures, deadlines and policies. What follows is
//! announced first (`SuccessCriteriaMet`, `FailureTarget`), and said for good (`Complete`, `Failed`)
//! when all its pods have ended and are counted.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::world::World;
use super::{condition, policy, time};
use crate::{Event, pod};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) succeeds: bool,
    reason: String,
    message: String,
}

impl End {
    fn success(reason: &str, message: &str) -> Self {
        Self { succeeds: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failure(reason: &str, message: &str) -> Self {
        Self { succeeds: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn complete() -> Self {
        Self::success("CompletionsReached", "Reached expected number of succeeded pods")
    }

    fn condition(&self, type_: &str, now: Timestamp) -> JobCondition {
        JobCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: Some(self.reason.clone()),
            message: Some(self.message.clone()),
            last_probe_time: Some(time(now)),
            last_transition_time: Some(time(now)),
        }
    }

    /// Says what is going to be.
    pub(super) fn announce(&self, status: &mut JobStatus, now: Timestamp) {
        let type_ = if self.succeeds { "SuccessCriteriaMet" } else { "FailureTarget" };
        if condition(status, type_).is_none() {
            status.conditions.get_or_insert_default().push(self.condition(type_, now));
        }
    }

    /// Says what has come to be.
    pub(super) fn conclude(&self, world: &World<'_>, status: &mut JobStatus) -> Vec<Event> {
        let type_ = if self.succeeds { "Complete" } else { "Failed" };
        status.conditions.get_or_insert_default().push(self.condition(type_, world.now));
        status.start_time.get_or_insert_with(|| time(world.now));
        if !self.succeeds {
            return vec![Event::warning(&*self.reason, &*self.message)];
        }
        status.completion_time = Some(time(world.now));
        let mut events = Vec::new();
        if world.spec.completions.is_some_and(|wanted| status.succeeded.unwrap_or(0) > wanted) {
            let text = "Too many succeeded pods running after completion count reached";
            events.push(Event::warning("TooManySucceededPods", text));
        }
        events.push(Event::normal("Completed", "Job completed"));
        events
    }
}

impl World<'_> {
    /// How the Job ends, if it does.
    pub(super) fn end(&self, deadline: Option<Timestamp>) -> Option<End> {
        self.announced()
            .or_else(|| self.failed_by_policy())
            .or_else(|| self.exhausted(deadline))
            .or_else(|| self.lost_indexes())
            .or_else(|| {
                let rules = self.spec.success_policy.as_ref();
                let why = policy::succeeds(rules, self.size?, &self.done)?;
                Some(End::success("SuccessPolicy", &why))
            })
    }

    /// What an earlier step said.
    fn announced(&self) -> Option<End> {
        let status = self.job.status.as_ref()?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let end = |succeeds: bool, known: &JobCondition| End {
            succeeds,
            reason: text(&known.reason),
            message: text(&known.message),
        };
        let met = condition(status, "SuccessCriteriaMet").map(|known| end(true, known));
        met.or_else(|| condition(status, "FailureTarget").map(|known| end(false, known)))
    }

    fn failed_by_policy(&self) -> Option<End> {
        self.spec.pod_failure_policy.as_ref()?;
        let mut failed = self.pods.iter().filter(|pod| self.is_failed(pod));
        let why = failed.find_map(|pod| self.judge(pod).job)?;
        Some(End::failure("PodFailurePolicy", &why))
    }

    fn exhausted(&self, deadline: Option<Timestamp>) -> Option<End> {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.failed > limit || self.restarted_too_often(limit) {
            let text = "Job has reached the specified backoff limit";
            return Some(End::failure("BackoffLimitExceeded", text));
        }
        let late = deadline.is_some_and(|deadline| deadline <= self.now);
        let text = "Job was active longer than specified deadline";
        late.then(|| End::failure("DeadlineExceeded", text))
    }

    /// Where containers are restarted in their pods, that is what is limited.
    fn restarted_too_often(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let live = self.pods.iter().filter(|pod| matches!(pod::phase(pod), "Running" | "Pending"));
        let containers = live.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
            let init = status.init_container_statuses.iter().flatten();
            init.chain(status.container_statuses.iter().flatten())
        });
        let restarts = containers.map(|status| status.restart_count).fold(0, i32::saturating_add);
        restarts >= limit.max(1)
    }

    fn lost_indexes(&self) -> Option<End> {
        let (lost, size) = (self.lost.as_ref()?, self.size?);
        if self.spec.max_failed_indexes.is_some_and(|most| lost.len() > most) {
            let text = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::failure("MaxFailedIndexesExceeded", text));
        }
        let all = lost.len().saturating_add(self.done.len()) >= size;
        (!lost.is_empty() && all).then(|| End::failure("FailedIndexes", "Job has failed indexes"))
    }

    /// Whether enough pods succeeded, while so many are active.
    pub(super) fn is_complete(&self, active: usize) -> bool {
        let enough = match self.spec.completions {
            None => self.succeeded > 0,
            Some(wanted) => self.succeeded >= wanted,
        };
        enough && active == 0
    }

    /// Says in the status whether the Job is suspended, and in events if that changed.
    pub(super) fn suspend(&self, status: &mut JobStatus) -> Option<Event> {
        let suspended = self.is_suspended();
        let (value, reason, text) = match suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().position(|known| known.type_ == "Suspended");
        let said = known.map_or(!suspended, |known| conditions[known].status == value);
        if said {
            if conditions.is_empty() {
                status.conditions = None;
            }
            return None;
        }
        let mut condition = End::failure(reason, text).condition("Suspended", self.now);
        condition.status = value.to_owned();
        match known {
            Some(known) => conditions[known] = condition,
            None => conditions.push(condition),
        }
        if !suspended {
            status.start_time = Some(time(self.now));
        }
        Some(Event::normal(if suspended { "Suspended" } else { "Resumed" }, text))
    }
}
