//! How an object becomes its controller's, or ceases to be: by a patch of its owner references that
//! is refused if somebody wrote in between.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::controller::{Context, Error, Watchable};
use kube::api::Patch;
use serde_json::{Value, json};

/// The object shall be controlled by `owner`.
pub(crate) async fn adopt<K>(
    context: &Context,
    object: &ObjectMeta,
    owner: OwnerReference,
) -> Result<K, Error>
where
    K: Watchable<DynamicType: Default>,
{
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|known| known.uid != owner.uid);
    owners.push(owner);
    write(context, object, &owners).await
}

/// The object shall no longer be owned by the one with this UID. One that is gone is released.
pub(crate) async fn release<K>(
    context: &Context,
    object: &ObjectMeta,
    uid: Option<&str>,
) -> Result<(), Error>
where
    K: Watchable<DynamicType: Default>,
{
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|known| Some(known.uid.as_str()) != uid);
    match write::<K>(context, object, &owners).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

async fn write<K>(
    context: &Context,
    object: &ObjectMeta,
    owners: &[OwnerReference],
) -> Result<K, Error>
where
    K: Watchable<DynamicType: Default>,
{
    context
        .patch(object, None, &fenced(object, json!({"ownerReferences": owners}), json!({})))
        .await
}

/// A patch of metadata and more, for this very revision of the object.
pub(crate) fn fenced(object: &ObjectMeta, mut metadata: Value, mut rest: Value) -> Patch<Value> {
    metadata["uid"] = json!(object.uid);
    metadata["resourceVersion"] = json!(object.resource_version);
    rest["metadata"] = metadata;
    Patch::Merge(rest)
}
