//! What becomes of a CronJob: which Jobs it has, which one is due, and which old ones go.
//!
//! The rules, the reasons and the sentences are kube-controller-manager's. A Job's name follows from the
//! time it is made for, so that none is made twice, whoever crashes when. Of times that were missed only
//! the latest is made up for. The zone is looked up by whoever observes.

mod due;
mod old;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::schedule::Schedule;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use self::due::{Missed, Times};
use crate::Event;
use crate::job::{ended, is_finished};
use crate::replicaset::reference;

/// The API version and kind by which Jobs name their CronJob.
pub const KIND: (&str, &str) = ("batch/v1", "CronJob");
/// The annotation of a Job that says for which time it was made.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The CronJob.
    pub cron_job: CronJob,
    /// Its own Jobs.
    pub jobs: Vec<Arc<Job>>,
    /// UIDs of Jobs that its status says are active, and that are there no more.
    pub missing: BTreeSet<String>,
    /// The zone in which its schedule is meant; or why it is not known.
    pub zone: Result<TimeZone, String>,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What to tell of what was seen.
    pub events: Vec<Event>,
    /// Jobs to delete.
    pub delete: Vec<Arc<Job>>,
    /// The Job that is due, with the time it is due for.
    pub create: Option<(Box<Job>, Timestamp)>,
    /// What to report, without what is made or deleted now; [`Plan::started`] adds the Job that is made.
    pub status: CronJobStatus,
    /// When the next is due.
    pub wake: Option<Timestamp>,
}

impl Plan {
    /// A Job was made, or had been, for `time`: it is active.
    pub fn started(&mut self, job: &Job, time: Timestamp) {
        let active = self.status.active.get_or_insert_default();
        active.retain(|known| known.uid != job.metadata.uid);
        active.push(ObjectReference {
            api_version: Some(crate::job::KIND.0.to_owned()),
            kind: Some(crate::job::KIND.1.to_owned()),
            name: job.metadata.name.clone(),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
            ..ObjectReference::default()
        });
        self.status.last_schedule_time = Some(Time(time));
    }

    /// Jobs that are deleted are active no more.
    fn delete(&mut self, jobs: impl IntoIterator<Item = Arc<Job>>) {
        for job in jobs {
            self.forget(|known| known == job.metadata.uid.as_deref());
            self.delete.push(job);
        }
    }

    fn forget(&mut self, is: impl Fn(Option<&str>) -> bool) {
        if let Some(active) = &mut self.status.active {
            active.retain(|known| !is(known.uid.as_deref()));
        }
        self.status.active.take_if(|active| active.is_empty());
    }
}

/// Whether a status says that a Job is active.
pub fn is_active(cron_job: &CronJob, uid: Option<&str>) -> bool {
    let status = cron_job.status.as_ref();
    let active = status.and_then(|status| status.active.as_ref());
    active.into_iter().flatten().any(|known| known.uid.as_deref() == uid)
}

/// Whether there is a Job that runs and that the status does not know: then the status may be old.
pub fn has_strangers(cron_job: &CronJob, jobs: &[Arc<Job>]) -> bool {
    let mut running = jobs.iter().filter(|job| !is_finished(job));
    running.any(|job| !is_active(cron_job, job.metadata.uid.as_deref()))
}

/// Decides the next step.
pub fn plan(observed: &Observed) -> Plan {
    let status = observed.cron_job.status.clone().unwrap_or_default();
    let mut plan = Plan { status, ..Plan::default() };
    count(observed, &mut plan);
    let spec = observed.cron_job.spec.clone().unwrap_or_default();
    if observed.cron_job.metadata.deletion_timestamp.is_none() {
        schedule(observed, &spec, &mut plan);
        let old = old::jobs(&spec, &observed.jobs);
        plan.delete(old);
    }
    plan
}

/// Which Jobs run, which have ended, which are gone.
fn count(observed: &Observed, plan: &mut Plan) {
    for job in &observed.jobs {
        let uid = job.metadata.uid.as_deref();
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let (active, end) = (is_active(&observed.cron_job, uid), ended(job));
        match end {
            None if !active => plan.events.push(Event::warning(
                "UnexpectedJob",
                format!("Saw a job that the controller did not create or forgot: {name}"),
            )),
            None => {}
            Some(end) => {
                if active {
                    plan.forget(|known| known == uid);
                    let note = format!("Saw completed job: {name}, condition: {}", end.type_);
                    plan.events.push(Event::normal("SawCompletedJob", note));
                }
                let done = job.status.as_ref().and_then(|status| status.completion_time.clone());
                if end.type_ == "Complete" && done > plan.status.last_successful_time {
                    plan.status.last_successful_time = done;
                }
            }
        }
    }
    let gone = plan.status.active.iter().flatten();
    let gone =
        gone.filter(|known| known.uid.as_ref().is_some_and(|u| observed.missing.contains(u)));
    let names: Vec<String> = gone.filter_map(|known| known.name.clone()).collect();
    plan.forget(|known| known.is_some_and(|uid| observed.missing.contains(uid)));
    plan.events.extend(
        names
            .iter()
            .map(|name| Event::normal("MissingJob", format!("Active job went missing: {name}"))),
    );
}

/// Which Job is due, and when the next will be.
fn schedule(observed: &Observed, spec: &CronJobSpec, plan: &mut Plan) {
    let mut warn = |reason, note| plan.events.push(Event::warning(reason, note));
    let zone = match &observed.zone {
        Ok(zone) => zone,
        Err(why) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            return warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: {why}"));
        }
    };
    if spec.suspend == Some(true) {
        return;
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(why) => {
            let note = format!("unparseable schedule: {:?} : {why}", spec.schedule);
            return warn("UnparseableSchedule", note);
        }
    };
    let times = Times { schedule, zone, cron_job: &observed.cron_job, now: observed.now };
    plan.wake = times.wake();
    let Some((time, missed)) = times.due(spec.starting_deadline_seconds) else { return };
    if missed == Missed::Many {
        let note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or \
                    check clock skew";
        warn("TooManyMissedTimes", note.to_owned());
    }
    if due::is_late(time, spec.starting_deadline_seconds, observed.now) {
        let shown = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        return warn("MissSchedule", format!("Missed scheduled time to start a job: {shown}"));
    }
    let job = born(&observed.cron_job, spec, time, zone);
    let last = plan.status.last_schedule_time.as_ref().map(|last| last.0);
    let named = |known: &ObjectReference| known.name == job.metadata.name;
    if last == Some(time) || plan.status.active.iter().flatten().any(named) {
        return;
    }
    let runs = |job: &&Arc<Job>| {
        let active = plan.status.active.iter().flatten();
        active.into_iter().any(|known| known.uid == job.metadata.uid)
    };
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if plan.status.active.is_some() => {
            let note = "Not starting job because prior execution is running and concurrency policy \
                        is Forbid";
            return plan.events.push(Event::normal("JobAlreadyActive", note));
        }
        Some("Replace") => {
            let running: Vec<_> = observed.jobs.iter().filter(runs).cloned().collect();
            plan.delete(running);
        }
        _ => {}
    }
    plan.create = Some((Box::new(job), time));
}

/// The Job for a time.
fn born(cron_job: &CronJob, spec: &CronJobSpec, time: Timestamp, zone: &TimeZone) -> Job {
    let template = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    let shown = time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let shown = shown.strip_suffix("+00:00").map_or_else(|| shown.clone(), |utc| format!("{utc}Z"));
    annotations.insert(SCHEDULED.to_owned(), shown);
    let owner = &cron_job.metadata;
    let name = format!("{}-{}", owner.name.as_deref().unwrap_or_default(), time.as_second() / 60);
    Job {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: owner.namespace.clone(),
            labels: template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![reference(KIND, owner)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests;
