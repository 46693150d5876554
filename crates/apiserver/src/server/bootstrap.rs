//! The objects that every cluster has from its first moment.

use serde_json::{Value, json};

use super::ApiServer;
use crate::auth::User;
use crate::registry::{Object, meta, text};
use crate::status::ApiError;

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Priority classes that are always there: name, value, description.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Roles and bindings that a kube-apiserver creates; facts recorded from 1.35.
const RBAC: &str = include_str!("../../facts/bootstrap-rbac.json");

impl ApiServer {
    /// Makes the server ready: what is stored takes effect, what is missing is created.
    pub(super) async fn prepare(&self) -> Result<(), ApiError> {
        for name in NAMESPACES {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
            });
            self.ensure(object).await?;
        }
        let rbac: Value = serde_json::from_str(RBAC).map_err(ApiError::internal)?;
        for object in rbac["items"].as_array().into_iter().flatten() {
            self.ensure(object.clone()).await?;
        }
        for (name, value, description) in PRIORITIES {
            let object = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value, "description": description,
            });
            self.ensure(object).await?;
        }
        self.follow_admission()?;
        self.follow_definitions().await
    }

    /// Creates an object unless it is there.
    async fn ensure(&self, object: Value) -> Result<(), ApiError> {
        let Value::Object(object) = object else { return Ok(()) };
        let Some(resource) = self.resource_of(&object) else { return Ok(()) };
        let (namespace, name) = (text(meta(&object), "namespace"), text(meta(&object), "name"));
        let namespace = (!namespace.is_empty()).then_some(namespace);
        if self.read(&resource.group, &resource.plural, namespace, name)?.is_some() {
            return Ok(());
        }
        let user = User { name: "system:apiserver".to_owned(), ..User::default() };
        let mut call = self.own_call(&user, &resource, namespace, None, None);
        match call.create_object(object.clone()).await {
            Err(error) if error.code == http::StatusCode::CONFLICT => Ok(()),
            other => other,
        }
    }

    fn resource_of(&self, object: &Object) -> Option<std::sync::Arc<crate::resource::Resource>> {
        let api_version = text(object, "apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = text(object, "kind");
        self.table().iter().find(|r| r.group == group && r.kind == kind).cloned()
    }
}
