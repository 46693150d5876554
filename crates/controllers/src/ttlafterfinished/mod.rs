//! Jobs that have ended go by themselves, as they say.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kit::controller::{Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::PropagationPolicy;

/// See the module.
pub struct TtlAfterFinished(Cache<Job>);

/// A Job that goes by itself.
pub struct Observed {
    job: Arc<Job>,
    deadline: Timestamp,
    now: Timestamp,
}

/// What shall be done about it.
pub enum Plan {
    /// It stays until then.
    Until(Timestamp),
    /// It goes.
    Delete(Arc<Job>),
}

impl Controller for TtlAfterFinished {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "ttlafterfinished";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Deletes Jobs some time after their end, as they ask").may(
            &["delete"],
            "batch",
            &["jobs"],
        );
        let deadline = plan::ttlafterfinished::deadline;
        Self(wiring.own(Watch::<Job>::all().when(move |old, new| deadline(old) != deadline(new))))
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(job) = self.0.get(key) else { return Ok(None) };
        let deadline = plan::ttlafterfinished::deadline(&job);
        let Some(deadline) = deadline.filter(|_| job.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        Ok(Some(Observed { job, deadline, now: context.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        match observed.deadline <= observed.now {
            true => Plan::Delete(Arc::clone(&observed.job)),
            false => Plan::Until(observed.deadline),
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let job = match plan {
            Plan::Until(deadline) => return Ok(Wake::At(deadline)),
            Plan::Delete(job) => job,
        };
        // At the revision that was looked at: somebody may have given it more time since.
        let how = Delete {
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
            propagation: Some(PropagationPolicy::Foreground),
            grace_seconds: None,
        };
        context.delete::<Job>(&(), &job.metadata, how).await?;
        Ok(Wake::Never)
    }
}
