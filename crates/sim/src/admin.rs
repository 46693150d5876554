//! Users of an API server in this process, and the administrator who prepares a site on it.

use api::Machine;
use api::machine::MachineStatus;
use apiserver::auth::User;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use kit::controller::Declaration;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::datacentre::Objects;

/// The API did not take what every site needs.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub(crate) struct Refused {
    /// What was being written.
    pub(crate) what: String,
    /// Why not.
    pub(crate) source: Box<kube::Error>,
}

/// Who gives identities to machines: idle where these are declared.
pub(crate) const JOINING: [&str; 2] = ["boot-controller", "machine-join-approving-controller"];

/// A user of these groups.
pub(crate) fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

/// The administrator, who prepares the site.
pub(crate) struct Admin(pub(crate) Client);

impl Admin {
    /// Installs kinds and the agents' rights, and describes the site: all but machines and pools, by
    /// which it comes to life.
    pub(crate) async fn prepare(&self, objects: &Objects) -> Result<(), Refused> {
        for definition in api::definitions() {
            self.create(None, &definition).await?;
        }
        self.create(None, &agent::cluster_role()).await?;
        self.create(None, &agent::cluster_role_binding()).await?;
        self.create(None, &objects.namespace).await?;
        self.create(Some(api::names::NAMESPACE), &objects.credential).await?;
        self.all(&objects.instance_types).await?;
        self.all(&objects.racks).await?;
        self.all(&objects.switches).await?;
        self.create(None, &objects.ledger).await
    }

    pub(crate) async fn create<K>(&self, namespace: Option<&str>, object: &K) -> Result<(), Refused>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        let failed = |source| Refused {
            what: format!("create {} {name}", K::kind(&())),
            source: Box::new(source),
        };
        let body = serde_json::to_vec(object).map_err(|e| failed(kube::Error::SerdeError(e)))?;
        let request = kube::core::Request::new(K::url_path(&(), namespace));
        let request = request.create(&PostParams::default(), body);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        self.0.request::<K>(request).await.map(drop).map_err(failed)
    }

    pub(crate) async fn all<K>(&self, objects: &[K]) -> Result<(), Refused>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        for object in objects {
            self.create(None, object).await?;
        }
        Ok(())
    }

    /// Writes how a machine stands.
    pub(crate) async fn stand(
        &self,
        machine: &Machine,
        status: &MachineStatus,
    ) -> Result<(), Refused> {
        let name = machine.name();
        let patch = Patch::Merge(json!({"status": status}));
        let machines = Api::<Machine>::all(self.0.clone());
        let written = machines.patch_status(name, &PatchParams::default(), &patch).await;
        let failed = |source| Refused {
            what: format!("write the status of machine {name}"),
            source: Box::new(source),
        };
        written.map(drop).map_err(failed)
    }

    /// The roles that a controller declares, for these users.
    pub(crate) async fn grant(
        &self,
        declaration: &Declaration,
        users: &[&str],
    ) -> Result<(), Refused> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let role: ClusterRole = declaration.cluster_role();
        let name = role.metadata.name.clone().unwrap_or_default();
        let subject = |user: &&str| Subject {
            api_group: Some(GROUP.to_owned()),
            kind: "User".to_owned(),
            name: (*user).to_owned(),
            namespace: None,
        };
        let subjects: Vec<Subject> = users.iter().map(subject).collect();
        let to = |kind: &str| RoleRef {
            api_group: GROUP.to_owned(),
            kind: kind.to_owned(),
            name: name.clone(),
        };
        let binding = ClusterRoleBinding {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            role_ref: to("ClusterRole"),
            subjects: Some(subjects.clone()),
        };
        self.create(None, &role).await?;
        self.create(None, &binding).await?;
        for role in declaration.roles() {
            let binding = RoleBinding {
                metadata: role.metadata.clone(),
                role_ref: to("Role"),
                subjects: Some(subjects.clone()),
            };
            let namespace = role.metadata.namespace.as_deref();
            self.create(namespace, &role).await?;
            self.create(namespace, &binding).await?;
        }
        Ok(())
    }
}
