//! Jobs: as many pods as must succeed, each counted once.
//!
//! A pod that nobody will count any more, since its Job is gone, ended or never was, is let go.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit::controller::{
    Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring, controller_of,
};
use kube::api::Patch;
use plan::claim::controller;
use plan::job::{FINALIZER, KIND, Observed, is_tracked};
use serde_json::json;

use crate::pods::{Keeper, Pods, keepers, tell};

/// See the module.
pub struct Jobs {
    jobs: Cache<Job>,
    pods: Pods,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A Job with its pods.
    Job(ObjectKey),
    /// A pod that is kept for a Job and has none.
    Stray(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(key) => write!(out, "{key}"),
            Self::Stray(key) => write!(out, "pod {key}"),
        }
    }
}

/// A Job, and what the decision about it rests on.
pub struct Seen {
    job: Option<(Arc<Job>, Observed)>,
    strays: Vec<Arc<Pod>>,
}

/// What shall be done.
pub struct Plan {
    job: Option<(Arc<Job>, plan::job::Plan)>,
    strays: Vec<Arc<Pod>>,
}

impl Keeper for Job {
    const KIND: (&'static str, &'static str) = KIND;

    fn selector(&self) -> LabelSelector {
        self.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default()
    }
}

impl Controller for Jobs {
    type Key = Key;
    type Settings = ();
    type Observed = Seen;
    type Plan = Plan;
    const NAME: &'static str = "job";

    fn wire((): (), wiring: &mut Wiring<Key>) -> Self {
        wiring
            .about("Runs the pods of Jobs until enough have succeeded")
            .may(&["create", "delete", "patch"], "", &["pods"])
            .may(&["get"], "batch", &["jobs"])
            .may(&["patch"], "batch", &["jobs/status"])
            .may(&["update"], "batch", &["jobs/finalizers"])
            .records_events();
        let jobs =
            wiring.watch(Watch::<Job>::all(), |job| [Key::Job(ObjectKey::of(&job.metadata))]);
        let all = jobs.clone();
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| {
            let mut keys: Vec<_> = keepers(&all, &pod.metadata).into_iter().map(Key::Job).collect();
            if controller(&pod.metadata).is_none() && is_tracked(&pod.metadata) {
                keys.push(Key::Stray(ObjectKey::of(&pod.metadata)));
            }
            keys
        });
        Self { jobs, pods: Pods::new(pods) }
    }

    async fn observe(&self, cx: &Context, key: &Key) -> Result<Option<Seen>, Error> {
        let key = match key {
            Key::Job(key) => key,
            Key::Stray(key) => return Ok(self.stray(key)),
        };
        let job = self.jobs.get(key);
        let uid = job.as_ref().and_then(|job| job.metadata.uid.clone());
        // Pods of an earlier Job of this name are no longer anybody's.
        let mut strays = self.pods.cache.in_namespace(&key.namespace);
        strays.retain(|pod| {
            is_tracked(&pod.metadata)
                && controller_of::<Job, _>(&**pod).as_ref() == Some(key)
                && controller(&pod.metadata).is_some_and(|by| Some(&by.uid) != uid.as_ref())
        });
        let job = match job {
            None => None,
            Some(job) => {
                let pods = self.pods.claimed(cx, &*job, true).await?;
                Some((Arc::clone(&job), Observed { job: (*job).clone(), pods, now: cx.now() }))
            }
        };
        Ok(Some(Seen { job, strays }))
    }

    fn plan(seen: &Seen) -> Plan {
        let job = seen.job.as_ref();
        let job = job.map(|(job, observed)| (Arc::clone(job), plan::job::plan(observed)));
        Plan { job, strays: seen.strays.clone() }
    }

    async fn apply(&self, cx: &Context, _: &Key, plan: Plan) -> Result<Wake, Error> {
        let_go(cx, &plan.strays).await?;
        let Some((job, todo)) = plan.job else { return Ok(Wake::Never) };
        if todo.uncounted {
            let_go(cx, &todo.delete).await?;
        }
        self.pods.delete(cx, &*job, &todo.delete).await?;
        let pods: Vec<&Pod> = todo.create.iter().collect();
        let (made, outcome) = self.pods.create(cx, &*job, &pods).await;
        if let Some(mut status) = todo.status {
            let lacks = i32::try_from(pods.len() - made).unwrap_or(i32::MAX);
            status.active = status.active.map(|all| all - lacks).filter(|active| *active > 0);
            report(cx, &job, &status).await?;
        }
        let_go(cx, &todo.release).await?;
        for event in todo.events {
            tell(cx, &*job, "Sync", event).await;
        }
        outcome.map(|()| Wake::earliest(todo.wake))
    }
}

impl Jobs {
    /// A pod that is kept for counting, if there is still nobody to count it.
    fn stray(&self, key: &ObjectKey) -> Option<Seen> {
        let pod = self.pods.cache.get(key)?;
        let alone = controller(&pod.metadata).is_none() && is_tracked(&pod.metadata);
        let alone = alone && keepers(&self.jobs, &pod.metadata).is_empty();
        alone.then(|| Seen { job: None, strays: vec![pod] })
    }
}

/// Writes the status, if nobody wrote since: what it counts rests on what it counted before.
async fn report(cx: &Context, job: &Job, status: &JobStatus) -> Result<(), Error> {
    let (version, kind) = KIND;
    let meta = &job.metadata;
    let body = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
        },
        "status": status,
    });
    cx.patch::<Job>(meta, Some("status"), &Patch::Apply(body)).await.map(drop)
}

/// Pods need no longer be kept. One that is gone is none.
async fn let_go(cx: &Context, pods: &[Arc<Pod>]) -> Result<(), Error> {
    let patch = |pod: &Arc<Pod>| {
        let pod = Arc::clone(pod);
        async move {
            let patch = Patch::Strategic(json!({"metadata": {
                "uid": pod.metadata.uid,
                "$deleteFromPrimitiveList/finalizers": [FINALIZER],
            }}));
            cx.patch::<Pod>(&pod.metadata, None, &patch).await.map(drop)
        }
    };
    let all = join_all(pods.iter().map(patch)).await;
    let failed = all.into_iter().filter_map(Result::err).find(|error| !error.is_not_found());
    failed.map_or(Ok(()), Err)
}
