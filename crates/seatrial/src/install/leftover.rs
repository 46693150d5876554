//! What an installation left in a cluster: found by its labels, wherever it lies.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions, PropagationPolicy};
use kube::core::{ObjectList, Request};
use kube::{Client, Resource, ResourceExt as _};

use super::document::{ApplyError, Document, SELECTOR};

/// An object that was installed.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    /// As kubectl names it.
    pub(crate) what: String,
    collection: String,
    name: String,
    uid: Option<String>,
}

/// The collection of a kind in a namespace, or of all of them.
type Collection = fn(Option<&str>) -> String;

fn collection<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> String {
    K::url_path(&(), namespace)
}

/// What runs.
const WORKLOADS: [(&str, Collection); 3] = [
    ("deployment", collection::<Deployment>),
    ("service", collection::<Service>),
    ("poddisruptionbudget", collection::<PodDisruptionBudget>),
];

/// Who may do what; bindings first, so that nothing is bound to what is gone.
const RIGHTS: [(&str, Collection); 7] = [
    ("clusterrolebinding", collection::<ClusterRoleBinding>),
    ("rolebinding", collection::<RoleBinding>),
    ("clusterrole", collection::<ClusterRole>),
    ("role", collection::<Role>),
    ("validatingadmissionpolicybinding", collection::<ValidatingAdmissionPolicyBinding>),
    ("validatingadmissionpolicy", collection::<ValidatingAdmissionPolicy>),
    ("serviceaccount", collection::<ServiceAccount>),
];

/// The kinds of everything that an uninstallation removes, for kubectl.
pub(crate) fn kinds() -> String {
    let all: Vec<&str> = WORKLOADS.iter().chain(&RIGHTS).map(|(kind, _)| *kind).collect();
    all.join(",")
}

/// Everything but namespaces and kinds.
///
/// # Errors
/// What the API answered.
pub(crate) async fn everything(client: &Client) -> Result<Vec<Leftover>, ApplyError> {
    let mut found = of(client, &WORKLOADS).await?;
    found.extend(of(client, &RIGHTS).await?);
    Ok(found)
}

/// Accounts and rights that an earlier version put in and these documents no longer name.
///
/// # Errors
/// What the API answered.
pub(crate) async fn obsolete(
    client: &Client,
    wanted: &[Document],
) -> Result<Vec<Leftover>, ApplyError> {
    let wanted: BTreeSet<(&str, &str)> = wanted.iter().map(Document::place).collect();
    let mut found = of(client, &RIGHTS).await?;
    found.retain(|left| !wanted.contains(&(left.collection.as_str(), left.name.as_str())));
    Ok(found)
}

async fn of(client: &Client, kinds: &[(&str, Collection)]) -> Result<Vec<Leftover>, ApplyError> {
    let mut found = Vec::new();
    for (kind, collection) in kinds {
        let read = |source| ApplyError::Read { what: format!("{kind}s"), source: Box::new(source) };
        let request = Request::new(collection(None)).list(&ListParams::default().labels(SELECTOR));
        let request = request.map_err(|error| read(kube::Error::BuildRequest(error)))?;
        let list: ObjectList<DynamicObject> = client.request(request).await.map_err(read)?;
        found.extend(list.items.into_iter().map(|object| Leftover {
            what: format!("{kind}/{}", object.name_any()),
            collection: collection(object.namespace().as_deref()),
            name: object.name_any(),
            uid: object.uid(),
        }));
    }
    Ok(found)
}

impl Leftover {
    /// Deletes it; one that is gone, or another by now, is left alone.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn delete(&self, client: &Client) -> Result<(), ApplyError> {
        let failed =
            |source| ApplyError::Delete { what: self.what.clone(), source: Box::new(source) };
        let how = DeleteParams {
            preconditions: Some(Preconditions { uid: self.uid.clone(), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = Request::new(&self.collection).delete(&self.name, &how);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match client.request::<serde_json::Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}
