//! A namespace in which pods run as the test says.

use k8s_openapi::api::core::v1::Pod;
use kit::controller::Running;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Cluster, idle};

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) running: Running,
    pub(crate) namespace: String,
}

impl World {
    pub(crate) async fn new(cluster: Cluster, folders: &[&str]) -> Self {
        let running = cluster.start(folders).await;
        let namespace = cluster.namespace("work").await;
        Self { cluster, running, namespace }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client.clone(), &self.namespace)
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    /// Every pod runs and is ready; says whether there was one to do that for.
    pub(crate) async fn kubelet(&self) -> bool {
        let pods = self.api::<Pod>();
        let mut worked = false;
        for pod in self.pods().await {
            let status = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if status == Some("Running") || pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            worked = true;
            let since = pod.metadata.creation_timestamp.clone().unwrap();
            let ready = json!([{
                "type": "Ready", "status": "True", "lastTransitionTime": since,
            }]);
            let patch = Patch::Merge(json!({"status": {"phase": "Running", "conditions": ready}}));
            // It may be deleted meanwhile.
            if let Err(error) =
                pods.patch_status(&pod.name_any(), &Default::default(), &patch).await
            {
                assert!(matches!(&error, kube::Error::Api(s) if s.code == 404), "{error}");
            }
        }
        worked
    }

    /// Controllers and kubelet until nobody has anything to do.
    pub(crate) async fn settle(&self) {
        loop {
            idle(&self.running).await;
            if !self.kubelet().await {
                break;
            }
        }
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        self.api::<K>().patch(name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let events = self.api::<k8s_openapi::api::core::v1::Event>();
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let those = events.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        those.filter_map(|event| event.message).collect()
    }

    /// What a kubelet says of a pod.
    pub(crate) async fn say(&self, pod: &Pod, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<Pod>().patch_status(&pod.name_any(), &Default::default(), &patch).await.unwrap();
    }
}

/// Creates an object in the world's namespace.
pub(crate) async fn create<K>(world: &World, object: Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    world.api::<K>().create(&PostParams::default(), &object).await.unwrap()
}
