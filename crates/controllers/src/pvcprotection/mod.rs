//! A claim that is deleted goes when no pod uses it any more.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::Api;
use kube::api::ListParams;
use plan::protection::{self, CLAIM};

use crate::pvprotection::{finalize, is_kept};

/// See the module.
pub struct PvcProtection {
    claims: Cache<PersistentVolumeClaim>,
    pods: Cache<Pod>,
}

/// A claim, and how it stands.
pub struct Observed(Arc<PersistentVolumeClaim>, protection::Observed);

/// A claim, and what shall be done about it.
pub struct Plan(Arc<PersistentVolumeClaim>, protection::Plan);

impl Controller for PvcProtection {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "pvcprotection";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Keeps claims that are deleted until no pod uses them")
            .may(&["patch"], "", &["persistentvolumeclaims"])
            .may(&["list"], "", &["pods"]);
        let claims = wiring.own(Watch::<PersistentVolumeClaim>::all().when(|old, new| {
            (is_kept(&old.metadata, CLAIM), old.metadata.deletion_timestamp.is_some())
                != (is_kept(&new.metadata, CLAIM), new.metadata.deletion_timestamp.is_some())
        }));
        let pods =
            Watch::<Pod>::all().when(|old, new| protection::claims(old) != protection::claims(new));
        let pods = wiring.watch(pods, |pod| {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            // Of one that has ended too, since that may be what a claim waits for.
            let named: Vec<String> = protection::named(pod).collect();
            named.into_iter().map(move |name| ObjectKey::new(&namespace, name))
        });
        Self { claims, pods }
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(claim) = self.claims.get(key) else { return Ok(None) };
        let deleting = claim.metadata.deletion_timestamp.is_some();
        let used = deleting && self.pods.list().iter().any(|pod| protection::uses(pod, &claim));
        let kept = is_kept(&claim.metadata, CLAIM);
        Ok(Some(Observed(claim, protection::Observed { deleting, kept, used })))
    }

    fn plan(Observed(claim, facts): &Observed) -> Plan {
        Plan(Arc::clone(claim), protection::plan(*facts))
    }

    async fn apply(
        &self,
        context: &Context,
        _: &ObjectKey,
        Plan(claim, plan): Plan,
    ) -> Result<Wake, Error> {
        // The cache may lag behind a pod that was just given its node.
        if plan == protection::Plan::Release && used_by_now(context, &claim).await? {
            return Ok(Wake::Never);
        }
        finalize::<PersistentVolumeClaim>(context, &claim.metadata, CLAIM, plan).await?;
        Ok(Wake::Never)
    }
}

async fn used_by_now(context: &Context, claim: &PersistentVolumeClaim) -> Result<bool, Error> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(context.client().clone(), namespace);
    let pods = pods.list(&ListParams::default()).await;
    let pods = pods.map_err(|error| Error::during("list pods".to_owned(), error))?;
    Ok(pods.items.iter().any(|pod| protection::uses(pod, claim)))
}
