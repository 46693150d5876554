//! CronJobs: a Job at every time that a schedule has.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::schedule::zone_of;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{
    Cache, Context, Controller, Delete, Error, Mood, Note, ObjectKey, Parts, Wake, Watch, Wiring,
    controller_of,
};
use kube::api::PropagationPolicy;
use plan::claim::controller;
use plan::cronjob::{Observed, has_strangers};

use crate::deed::told;

/// See the module.
pub struct CronJobs {
    cron_jobs: Cache<CronJob>,
    jobs: Cache<Job>,
}

/// A CronJob, and what shall be done about it.
pub struct Plan {
    cron_job: Box<CronJob>,
    todo: plan::cronjob::Plan,
}

impl Controller for CronJobs {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "cronjob";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Makes Jobs at the times that CronJobs say")
            .may(&["get"], "batch", &["cronjobs"])
            .may(&["patch"], "batch", &["cronjobs/status"])
            .may(&["update"], "batch", &["cronjobs/finalizers"])
            .may(&["get", "create", "delete"], "batch", &["jobs"])
            .records_events();
        let cron_jobs = wiring.own(Watch::<CronJob>::all());
        let jobs = wiring.watch(Watch::<Job>::all(), |job: &Job| controller_of::<CronJob, _>(job));
        Self { cron_jobs, jobs }
    }

    async fn observe(&self, cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(cron_job) = self.cron_jobs.get(key) else { return Ok(None) };
        let mut jobs = self.jobs.in_namespace(&key.namespace);
        jobs.retain(|job| is_of(&job.metadata, &cron_job.metadata));
        let mut cron_job = Arc::unwrap_or_clone(cron_job);
        if has_strangers(&cron_job, &jobs) {
            // What was written last may not have come round yet.
            let now = cx.get::<CronJob>(&(), &cron_job.metadata).await?;
            let same = |now: &CronJob| now.metadata.uid == cron_job.metadata.uid;
            let Some(now) = now.filter(same) else { return Ok(None) };
            cron_job = now;
        }
        let missing = self.missing(cx, &cron_job, &jobs).await?;
        let zone = zone(&cron_job);
        Ok(Some(Observed { cron_job, jobs, missing, zone, now: cx.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        Plan { cron_job: Box::new(observed.cron_job.clone()), todo: plan::cronjob::plan(observed) }
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let Plan { cron_job, mut todo } = plan;
        for event in &todo.events {
            cx.record::<CronJob>(&(), &cron_job.metadata, told(event, "Sync")).await;
        }
        for job in &todo.delete {
            let how = Delete {
                uid: job.metadata.uid.clone(),
                propagation: Some(PropagationPolicy::Background),
                ..Delete::default()
            };
            cx.delete::<Job>(&(), &job.metadata, how).await?;
            let name = job.metadata.name.as_deref().unwrap_or_default();
            tell(cx, &cron_job, Mood::Normal, "SuccessfulDelete", format!("Deleted job {name}"))
                .await;
        }
        let mut outcome = Ok(());
        if let Some((job, time)) = todo.create.take() {
            match make(cx, &cron_job, &job).await {
                Ok(job) => todo.started(&job, time),
                Err(error) => outcome = Err(error),
            }
        }
        if cron_job.status.as_ref() != Some(&todo.status) {
            cx.swap_status(&*cron_job, &todo.status, Parts::All).await?;
        }
        outcome.map(|()| Wake::earliest(todo.wake))
    }
}

impl CronJobs {
    /// UIDs of Jobs that are said to be active, and that the API itself does not have.
    async fn missing(
        &self,
        cx: &Context,
        cron_job: &CronJob,
        jobs: &[Arc<Job>],
    ) -> Result<BTreeSet<String>, Error> {
        let mut missing = BTreeSet::new();
        let status = cron_job.status.as_ref();
        for active in status.and_then(|status| status.active.as_ref()).into_iter().flatten() {
            let (Some(uid), Some(name)) = (&active.uid, &active.name) else { continue };
            if jobs.iter().any(|job| job.metadata.uid.as_ref() == Some(uid)) {
                continue;
            }
            let meta = ObjectMeta {
                name: Some(name.clone()),
                namespace: cron_job.metadata.namespace.clone(),
                ..ObjectMeta::default()
            };
            if cx.get::<Job>(&(), &meta).await?.is_none() {
                missing.insert(uid.clone());
            }
        }
        Ok(missing)
    }
}

fn is_of(job: &ObjectMeta, cron_job: &ObjectMeta) -> bool {
    controller(job).is_some_and(|by| Some(&by.uid) == cron_job.uid.as_ref())
}

/// The zone of its schedule: the one it names, else the controller's, which is UTC.
fn zone(cron_job: &CronJob) -> Result<TimeZone, String> {
    let spec = cron_job.spec.as_ref();
    let named = spec.and_then(|spec| spec.time_zone.as_deref().or_else(|| zone_of(&spec.schedule)));
    named.map_or(Ok(TimeZone::UTC), |name| {
        TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))
    })
}

/// Makes the Job, or finds the one that was made for this time before.
async fn make(cx: &Context, cron_job: &CronJob, job: &Job) -> Result<Job, Error> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    match cx.create(job).await {
        Ok(made) => {
            let note = format!("Created job {name}");
            tell(cx, cron_job, Mood::Normal, "SuccessfulCreate", note).await;
            Ok(made)
        }
        Err(error) if error.already_exists() => {
            let there = cx.get::<Job>(&(), &job.metadata).await?;
            there.filter(|there| is_of(&there.metadata, &cron_job.metadata)).ok_or(error)
        }
        Err(error) => {
            let note = format!("Error creating job: {}", kit::error::chain(&error));
            tell(cx, cron_job, Mood::Warning, "FailedCreate", note).await;
            Err(error)
        }
    }
}

async fn tell(cx: &Context, cron_job: &CronJob, mood: Mood, reason: &'static str, text: String) {
    let note = Note { mood, reason: reason.into(), action: "Sync".into(), text };
    cx.record::<CronJob>(&(), &cron_job.metadata, note).await;
}
