//! What becomes of a Job: which pods it makes and deletes, how those that ended are counted, and when
//! it has succeeded or failed.
//!
//! The rules, the reasons and the sentences are kube-controller-manager's. Every pod is counted once,
//! whatever crashes in between: a pod that ended is kept by a finalizer; its UID is written to
//! `status.uncountedTerminatedPods`; then the finalizer is taken away; then, in a later step, the UID
//! becomes a number. Nothing is kept in memory: delays after failures are computed from the pods.

mod account;
mod backoff;
mod end;
mod index;
mod manage;
mod policy;
mod world;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use self::end::End;
pub use self::index::Indexes;
use self::world::{World, count};
use crate::Event;

/// The API version and kind by which pods name their Job.
pub const KIND: (&str, &str) = ("batch/v1", "Job");
/// The finalizer by which a pod is kept until it is counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The value of `spec.managedBy` that means us.
const MANAGER: &str = "kubernetes.io/job-controller";
/// Most pods that are made or deleted in one step, and most UIDs in a status.
const MOST: usize = 500;

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Job.
    pub job: Job,
    /// Its own pods; one that we deleted has a deletion time.
    pub pods: Vec<Arc<Pod>>,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Pods to delete, first ones first.
    pub delete: Vec<Arc<Pod>>,
    /// They are no longer kept for counting: they neither succeeded nor failed.
    pub uncounted: bool,
    /// Pods to make, first ones first.
    pub create: Vec<Pod>,
    /// What to report, if not what is reported already.
    pub status: Option<JobStatus>,
    /// Pods that the status now counts and that need not be kept.
    pub release: Vec<Arc<Pod>>,
    /// What to tell about it.
    pub events: Vec<Event>,
    /// When time alone changes something.
    pub wake: Option<Timestamp>,
}

/// Decides the next step.
pub fn plan(observed: &Observed) -> Plan {
    let job = &observed.job;
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    if manager.is_some_and(|manager| manager != MANAGER) {
        return Plan::default();
    }
    if is_finished(job) {
        let release = observed.pods.iter().filter(|pod| is_tracked(&pod.metadata)).cloned();
        return Plan { release: release.collect(), ..Plan::default() };
    }
    step(&World::new(observed))
}

fn step(world: &World<'_>) -> Plan {
    let mut plan = Plan::default();
    let known = world.job.status.clone().unwrap_or_default();
    let mut status = known.clone();
    if status.start_time.is_none() && !world.is_suspended() {
        status.start_time = Some(time(world.now));
    }
    // Its time begins anew when it is resumed.
    let resumes = condition(&known, "Suspended").is_some().then(|| time(world.now));
    let deadline = world.deadline(resumes.as_ref().or(status.start_time.as_ref()));
    let mut end = world.end(deadline);
    let mut active = world.active.len();
    if end.is_some() {
        plan.delete.clone_from(&world.active);
        active = 0;
    } else {
        plan.wake = deadline;
        if world.job.metadata.deletion_timestamp.is_none() {
            active = world.manage(&mut plan);
        }
        if world.is_complete(active) {
            end = Some(End::complete());
        } else if world.job.metadata.deletion_timestamp.is_none() {
            plan.events.extend(world.suspend(&mut status));
        }
    }
    let ready = |pods: &[Arc<Pod>]| pods.iter().filter(|pod| world::is_ready(pod)).count();
    let terminating = world.terminating() + plan.delete.len();
    status.active = count(active);
    status.ready = Some(count(ready(&world.active) - ready(&plan.delete)).unwrap_or(0));
    status.terminating = Some(count(terminating).unwrap_or(0));
    let all = world.account(&mut status, &mut plan.release, end.as_ref());
    if let Some(end) = &end {
        end.announce(&mut status, world.now);
        // The last word is said when there is nothing left to count and nothing that runs.
        if all && plan.release.is_empty() && terminating == 0 && !world::is_uncounted(&status) {
            plan.events.extend(end.conclude(world, &mut status));
        }
    }
    plan.status = (status != known).then_some(status);
    plan
}

/// The condition by which a Job has succeeded or failed for good; `None` if it has not ended.
pub fn ended(job: &Job) -> Option<&JobCondition> {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|c| matches!(&*c.type_, "Complete" | "Failed") && c.status == "True")
}

/// Whether a Job has succeeded or failed for good.
pub fn is_finished(job: &Job) -> bool {
    ended(job).is_some()
}

/// Whether a pod is kept for counting.
pub fn is_tracked(pod: &ObjectMeta) -> bool {
    pod.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Times in a status have no fractions.
fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A condition of a Job that is true.
fn condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_ && c.status == "True")
}

#[cfg(test)]
mod tests;
