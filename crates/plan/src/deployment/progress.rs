//! What a Deployment reports: counts, and whether it is available and moves on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::World;

const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const DONE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

/// Whether this step makes the current set.
pub(super) enum Birth {
    None,
    /// It makes one of this name.
    Made(String),
}

struct Conditions {
    all: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.all.iter().find(|known| known.type_ == type_)
    }

    fn remove(&mut self, type_: &str) {
        self.all.retain(|known| known.type_ != type_);
    }

    /// One of the same status and reason stays as it is, times and all.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: String) {
        let known = self.get(type_);
        if known.is_some_and(|k| k.status == status && k.reason.as_deref() == Some(reason)) {
            return;
        }
        let since = known.filter(|known| known.status == status);
        let now = Some(Time(self.now));
        let condition = DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: since.map_or(now.clone(), |s| s.last_transition_time.clone()),
            last_update_time: now,
        };
        self.remove(type_);
        self.all.push(condition);
    }
}

fn status_of(set: &ReplicaSet) -> ReplicaSetStatus {
    set.status.clone().unwrap_or_default()
}

fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

impl World<'_> {
    pub(super) fn status(&self, birth: &Birth) -> DeploymentStatus {
        let known = self.deployment.status.clone().unwrap_or_default();
        let sum = |count: fn(&ReplicaSetStatus) -> i32| {
            self.sets.iter().fold(0, |sum: i32, set| sum.saturating_add(count(&status_of(set))))
        };
        let available = sum(|status| status.available_replicas.unwrap_or(0));
        let wanted = self.sizes.iter().fold(0, |sum: i32, size| sum.saturating_add(*size));
        let new = self.new.map(|i| status_of(self.sets[i])).unwrap_or_default();
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: some(sum(|status| status.replicas)),
            updated_replicas: some(new.replicas),
            ready_replicas: some(sum(|status| status.ready_replicas.unwrap_or(0))),
            available_replicas: some(available),
            unavailable_replicas: some((wanted - available).max(0)),
            terminating_replicas: Some(sum(|status| status.terminating_replicas.unwrap_or(0))),
            collision_count: known.collision_count,
            conditions: None,
        };
        let now = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        let mut conditions = Conditions { all: known.conditions.clone().unwrap_or_default(), now };
        if available >= self.replicas - self.unavailable {
            let text = "Deployment has minimum availability.".to_owned();
            conditions.set("Available", "True", "MinimumReplicasAvailable", text);
        } else {
            let text = "Deployment does not have minimum availability.".to_owned();
            conditions.set("Available", "False", "MinimumReplicasUnavailable", text);
        }
        self.progress(&mut conditions, &known, &status, birth);
        self.failures(&mut conditions);
        status.conditions = Some(conditions.all);
        status
    }

    /// Every pod is of the current template and available.
    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let all = [status.updated_replicas, status.replicas, status.available_replicas];
        all.iter().all(|count| count.unwrap_or(0) == self.replicas)
    }

    /// Seconds without progress after which a rollout has failed.
    fn patience(&self) -> Option<i32> {
        let seconds = self.deployment.spec.as_ref()?.progress_deadline_seconds?;
        (seconds != i32::MAX).then_some(seconds)
    }

    fn progress(
        &self,
        conditions: &mut Conditions,
        known: &DeploymentStatus,
        status: &DeploymentStatus,
        birth: &Birth,
    ) {
        let Some(patience) = self.patience() else { return conditions.remove(PROGRESSING) };
        let reason = |conditions: &Conditions| {
            conditions.get(PROGRESSING).and_then(|known| known.reason.clone()).unwrap_or_default()
        };
        let before = reason(conditions);
        let paused = self.deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
        if paused && before != TIMED_OUT {
            conditions.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned());
        } else if !paused && before == PAUSED {
            let text = "Deployment is resumed".to_owned();
            conditions.set(PROGRESSING, "Unknown", "DeploymentResumed", text);
        }
        let name = self.new.and_then(|i| self.sets[i].metadata.name.clone());
        if let Birth::Made(name) = birth {
            let text = format!("Created new replica set {name:?}");
            return conditions.set(PROGRESSING, "True", "NewReplicaSetCreated", text);
        }
        if let Some(name) = name.as_ref().filter(|_| conditions.get(PROGRESSING).is_none()) {
            let text = format!("Found new replica set {name:?}");
            conditions.set(PROGRESSING, "True", "FoundNewReplicaSet", text);
        }
        if paused || status.replicas == status.updated_replicas && before == DONE {
            return;
        }
        let what = name.map_or_else(
            || format!("Deployment {:?}", self.name),
            |name| format!("ReplicaSet {name:?}"),
        );
        if self.is_complete(status) {
            let text = format!("{what} has successfully progressed.");
            conditions.set(PROGRESSING, "True", DONE, text);
        } else if moves(known, status) {
            self.moved(conditions, format!("{what} is progressing."));
        } else if self.is_late(conditions, patience) {
            let text = format!("{what} has timed out progressing.");
            conditions.set(PROGRESSING, "False", TIMED_OUT, text);
        }
    }

    /// Progress is said again each time that there is some: its time is what the deadline counts from.
    fn moved(&self, conditions: &mut Conditions, text: String) {
        let since = conditions.get(PROGRESSING).filter(|known| known.status == "True");
        let since = since.map(|known| known.last_transition_time.clone());
        conditions.remove(PROGRESSING);
        conditions.set(PROGRESSING, "True", "ReplicaSetUpdated", text);
        if let (Some(since), Some(set)) = (since, conditions.all.last_mut()) {
            set.last_transition_time = since;
        }
    }

    fn is_late(&self, conditions: &Conditions, patience: i32) -> bool {
        let Some(known) = conditions.get(PROGRESSING) else { return false };
        match known.reason.as_deref() {
            Some(DONE) => false,
            Some(TIMED_OUT) => true,
            _ => ends(known, patience).is_some_and(|end| self.now >= end),
        }
    }

    /// When a rollout that does not move has failed.
    pub(super) fn deadline(&self, status: &DeploymentStatus) -> Option<Timestamp> {
        let patience = self.patience()?;
        let known = status.conditions.iter().flatten().find(|known| known.type_ == PROGRESSING)?;
        let settled = matches!(known.reason.as_deref(), Some(TIMED_OUT | DONE | PAUSED));
        if settled || self.is_complete(status) { None } else { ends(known, patience) }
    }

    /// The failure of the current set, else of any.
    fn failures(&self, conditions: &mut Conditions) {
        let order = self.new.into_iter().chain(0..self.sets.len());
        let failed = order
            .flat_map(|i| status_of(self.sets[i]).conditions.unwrap_or_default())
            .find(|condition| condition.type_ == FAILURE);
        let Some(failed) = failed else { return conditions.remove(FAILURE) };
        let (reason, text) = (failed.reason.unwrap_or_default(), failed.message);
        conditions.set(FAILURE, &failed.status, &reason, text.unwrap_or_default());
    }
}

fn ends(known: &DeploymentCondition, patience: i32) -> Option<Timestamp> {
    let since = known.last_update_time.as_ref()?.0;
    since.checked_add(SignedDuration::from_secs(i64::from(patience) + 1)).ok()
}

/// More is updated, ready or available than before, or fewer are old.
fn moves(known: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(status.updated_replicas) > count(known.updated_replicas)
        || old(status) < old(known)
        || count(status.ready_replicas) > count(known.ready_replicas)
        || count(status.available_replicas) > count(known.available_replicas)
}
