//! A volume that is deleted goes when no claim is bound to it any more.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use kit::controller::{
    Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Watchable, Wiring,
};
use kube::api::{ObjectMeta, Patch};
use plan::protection::{self, VOLUME};
use serde_json::json;

/// See the module.
pub struct PvProtection(Cache<PersistentVolume>);

/// A volume, and how it stands.
pub struct Observed(Arc<PersistentVolume>, protection::Observed);

/// A volume, and what shall be done about it.
pub struct Plan(Arc<PersistentVolume>, protection::Plan);

impl Controller for PvProtection {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "pvprotection";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Keeps volumes that are deleted until no claim is bound to them").may(
            &["patch"],
            "",
            &["persistentvolumes"],
        );
        Self(wiring.own(Watch::<PersistentVolume>::all().when(|old, new| facts(old) != facts(new))))
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(volume) = self.0.get(key) else { return Ok(None) };
        let (deleting, kept, used) = facts(&volume);
        Ok(Some(Observed(volume, protection::Observed { deleting, kept, used })))
    }

    fn plan(Observed(volume, facts): &Observed) -> Plan {
        Plan(Arc::clone(volume), protection::plan(*facts))
    }

    async fn apply(
        &self,
        context: &Context,
        _: &ObjectKey,
        Plan(volume, plan): Plan,
    ) -> Result<Wake, Error> {
        finalize::<PersistentVolume>(context, &volume.metadata, VOLUME, plan).await?;
        Ok(Wake::Never)
    }
}

fn facts(volume: &PersistentVolume) -> (bool, bool, bool) {
    let metadata = &volume.metadata;
    let deleting = metadata.deletion_timestamp.is_some();
    (deleting, is_kept(metadata, VOLUME), protection::is_bound(volume))
}

/// Whether an object carries a finalizer.
pub(crate) fn is_kept(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|there| there == finalizer)
}

/// Puts a finalizer on, or takes it off, where the object is still what was looked at.
pub(crate) async fn finalize<K>(
    context: &Context,
    metadata: &ObjectMeta,
    finalizer: &str,
    plan: protection::Plan,
) -> Result<(), Error>
where
    K: Watchable<DynamicType: Default>,
{
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    match plan {
        protection::Plan::Leave => return Ok(()),
        protection::Plan::Keep => finalizers.push(finalizer.to_owned()),
        protection::Plan::Release => finalizers.retain(|there| there != finalizer),
    }
    let patch = json!({"metadata": {"uid": metadata.uid,
        "resourceVersion": metadata.resource_version, "finalizers": finalizers}});
    context.patch::<K>(metadata, None, &Patch::Merge(patch)).await.map(drop)
}
