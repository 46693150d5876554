//! Bootstrap tokens go at their date.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::controller::{Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring};
use plan::tokencleaner::{TYPE, deadline};

/// See the module.
pub struct TokenCleaner(Cache<Secret>);

/// A token that has a date.
pub struct Observed {
    secret: Arc<Secret>,
    deadline: Timestamp,
    now: Timestamp,
}

/// What shall be done about it.
pub enum Plan {
    /// It stays until then.
    Until(Timestamp),
    /// It goes.
    Delete(Arc<Secret>),
}

impl Controller for TokenCleaner {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "tokencleaner";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Deletes bootstrap tokens at their date").may(&["delete"], "", &["secrets"]);
        let tokens = Watch::<Secret>::all().in_namespace("kube-system");
        Self(wiring.own(tokens.fields(format!("type={TYPE}"))))
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(secret) = self.0.get(key) else { return Ok(None) };
        let Some(deadline) = secret.data.as_ref().and_then(deadline) else { return Ok(None) };
        Ok(Some(Observed { secret, deadline, now: context.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        match observed.deadline <= observed.now {
            true => Plan::Delete(Arc::clone(&observed.secret)),
            false => Plan::Until(observed.deadline),
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let secret = match plan {
            Plan::Until(deadline) => return Ok(Wake::At(deadline)),
            Plan::Delete(secret) => secret,
        };
        let how = Delete {
            uid: secret.metadata.uid.clone(),
            resource_version: secret.metadata.resource_version.clone(),
            ..Delete::default()
        };
        context.delete::<Secret>(&(), &secret.metadata, how).await?;
        Ok(Wake::Never)
    }
}
