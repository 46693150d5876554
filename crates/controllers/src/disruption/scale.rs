//! How many pods the controllers of some pods want.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::controller::{AnyMeta, Context, Error, ObjectKey, controller_of};
use kube::Resource;

use super::Disruption;
use crate::kinds::discover;

fn controller(object: &ObjectMeta) -> Option<&OwnerReference> {
    object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Disruption {
    /// The sum over the pods' controllers, each counted once; pods of none are left out, and `Err`
    /// says which controller has no scale.
    pub(super) async fn scale_of(
        &self,
        context: &Context,
        pods: &[Arc<Pod>],
    ) -> Result<Result<i32, String>, Error> {
        let mut scales: BTreeMap<String, i32> = BTreeMap::new();
        let mut asked: BTreeMap<String, ObjectKey> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller(&pod.metadata) else { continue };
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            let key = ObjectKey::new(namespace, owner.name.clone());
            if asked.insert(owner.uid.clone(), key.clone()).is_some() {
                continue;
            }
            let found = match self.known(owner, &key) {
                Some(found) => Some(found),
                None => scaled(context, owner, &key)
                    .await?
                    .map(|replicas| (owner.uid.clone(), replicas)),
            };
            let Some((uid, replicas)) = found else {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                return Ok(Err(format!(
                    "found no controllers for pod {name:?}: {} {:?} has no scale",
                    owner.kind, owner.name
                )));
            };
            scales.insert(uid, replicas);
        }
        Ok(Ok(scales.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas))))
    }

    /// The scale of a controller of the common kinds, under the UID of whoever decides it.
    fn known(&self, owner: &OwnerReference, key: &ObjectKey) -> Option<(String, i32)> {
        let uid = Some(owner.uid.as_str());
        match (group(owner), owner.kind.as_str()) {
            ("apps", "ReplicaSet") => {
                let set =
                    self.replica_sets.get(key).filter(|set| set.metadata.uid.as_deref() == uid)?;
                let deployment = controller_of::<Deployment, _>(&*set);
                if let Some(deployment) = deployment.and_then(|key| self.deployments.get(&key)) {
                    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                    return Some((deployment.metadata.uid.clone()?, wanted.unwrap_or(1)));
                }
                let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
                Some((owner.uid.clone(), wanted.unwrap_or(1)))
            }
            ("apps", "StatefulSet") => {
                let set =
                    self.stateful_sets.get(key).filter(|set| set.metadata.uid.as_deref() == uid)?;
                let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
                Some((owner.uid.clone(), wanted.unwrap_or(1)))
            }
            ("", "ReplicationController") => {
                let it = self.replication_controllers.get(key);
                let it = it.filter(|it| it.metadata.uid.as_deref() == uid)?;
                let wanted = it.spec.as_ref().and_then(|spec| spec.replicas);
                Some((owner.uid.clone(), wanted.unwrap_or(1)))
            }
            _ => None,
        }
    }
}

/// What the `scale` subresource of a controller of any kind says; `None` if it has none.
async fn scaled(
    context: &Context,
    owner: &OwnerReference,
    key: &ObjectKey,
) -> Result<Option<i32>, Error> {
    let kinds = discover(context.client()).await?;
    let is = |kind: &&crate::kinds::Served| {
        kind.resource.group == group(owner) && kind.resource.kind == owner.kind
    };
    let Some(kind) = kinds.values().find(is) else { return Ok(None) };
    let url = AnyMeta::url_path(&kind.resource, Some(&key.namespace));
    let what = format!("get the scale of {} {:?}", owner.kind, owner.name);
    let request = kube::core::Request::new(url)
        .get_subresource("scale", &key.name)
        .map_err(|error| Error::during(what.clone(), kube::Error::BuildRequest(error)))?;
    match context.client().request::<Scale>(request).await {
        Ok(scale) => Ok(Some(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(Error::during(what, error)),
    }
}
