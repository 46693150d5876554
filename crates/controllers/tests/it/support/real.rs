//! A real kube-apiserver: one for all tests, one test at a time, emptied before each.
//!
//! What the server itself keeps is left: its namespaces, roles, Services, priorities and leases, and
//! definitions of kinds, which cost a second to be served.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, Request};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use super::brake::Brake;

/// Groups whose objects the server makes for itself, and those whose loss takes time to heal.
const LEFT_GROUPS: [&str; 4] = [
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "rbac.authorization.k8s.io",
];
/// Objects that the server makes for itself, of whatever kind.
const LEFT_OBJECTS: [&str; 10] = [
    "10.96.0.1",
    "default",
    "extension-apiserver-authentication",
    "kube-apiserver-legacy-service-account-token-tracking",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kubernetes",
    "system-cluster-critical",
    "system-node-critical",
];

/// Whose turn it is.
static TURN: Mutex<()> = Mutex::new(());

/// Waits until the server is this test's, and for as long as what is returned is kept.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    // A test that failed left things behind, which the next one clears away.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server, in this test's turn.
pub(super) struct Real {
    kubeconfig: Kubeconfig,
    brake: Brake,
}

impl Real {
    /// Empties the server.
    pub(super) async fn new(kubeconfig: Kubeconfig) -> Self {
        let real = Self { kubeconfig, brake: Brake::new() };
        empty(&real.admin().await).await;
        real
    }

    pub(super) async fn admin(&self) -> Client {
        self.client(self.kubeconfig.clone(), None).await
    }

    /// A client that acts as somebody else.
    pub(super) async fn act_as(&self, user: String, groups: Option<Vec<String>>) -> Client {
        let mut kubeconfig = self.kubeconfig.clone();
        for user in &mut kubeconfig.auth_infos {
            user.auth_info.get_or_insert_default().impersonate_groups = groups.clone();
        }
        self.client(kubeconfig, Some(user)).await
    }

    /// A client that shows a bearer token.
    pub(super) async fn showing(&self, token: &str) -> Client {
        let mut kubeconfig = self.kubeconfig.clone();
        for user in &mut kubeconfig.auth_infos {
            let token = Some(token.to_owned().into());
            user.auth_info = Some(AuthInfo { token, ..AuthInfo::default() });
        }
        self.client(kubeconfig, None).await
    }

    async fn client(&self, kubeconfig: Kubeconfig, user: Option<String>) -> Client {
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.auth_info.impersonate = user;
        // It would wait for the clock while the brake holds it.
        config.default_retry = false;
        ClientBuilder::try_from(config).unwrap().with_layer(&self.brake).build()
    }
}

/// Deletes all that a test may have left, with no finalizer heard.
async fn empty(client: &Client) {
    let discovery = Discovery::new(client.clone()).exclude(&LEFT_GROUPS);
    let discovery = discovery.run_aggregated().await.unwrap();
    let mut namespaces = None;
    for group in discovery.groups() {
        for (kind, can) in group.recommended_resources() {
            if kind.plural == "namespaces" {
                namespaces = Some(kind);
            } else if can.supports_operation(verbs::LIST) && can.supports_operation(verbs::DELETE) {
                clear(client, &kind, &can.scope).await;
            }
        }
    }
    // Nothing is in them any more, so they can be told to be gone.
    let kind = namespaces.unwrap();
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for namespace in all.list_metadata(&ListParams::default()).await.unwrap() {
        let name = namespace.name_any();
        if LEFT_OBJECTS.contains(&name.as_str()) {
            continue;
        }
        all.delete(&name, &DeleteParams::default()).await.unwrap();
        let done = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let finalize = Request::new("/api/v1/namespaces").replace_subresource(
            "finalize",
            &name,
            &Default::default(),
            serde_json::to_vec(&done).unwrap(),
        );
        client.request::<Value>(finalize.unwrap()).await.unwrap();
    }
}

/// Deletes the objects of a kind.
async fn clear(client: &Client, kind: &ApiResource, scope: &Scope) {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let objects = loop {
        match all.list_metadata(&ListParams::default()).await {
            // A kind that has been defined just now.
            Err(kube::Error::Api(status)) if status.code == 429 => {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            // One that was defined and is no more.
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            other => break other.unwrap(),
        }
    };
    for object in objects {
        let name = object.name_any();
        if LEFT_OBJECTS.contains(&name.as_str()) || name.starts_with("apiserver-") {
            continue;
        }
        let here: Api<DynamicObject> = match (scope, object.namespace()) {
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), &namespace, kind)
            }
            _ => all.clone(),
        };
        if !object.finalizers().is_empty() {
            let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            here.patch_metadata(&name, &PatchParams::default(), &none).await.unwrap();
        }
        match here.delete(&name, &DeleteParams::background().grace_period(0)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other.unwrap()),
        }
    }
}
