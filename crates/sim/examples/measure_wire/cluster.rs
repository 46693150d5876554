//! The cluster under load, as its administrator reaches it and as its nodes do.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;

/// So many requests of the administrator are under way at a time.
const AT_ONCE: usize = 32;

/// See the module.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    config: Config,
}

impl Cluster {
    pub(crate) async fn open(kubeconfig: &str) -> Result<Self, Error> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self { client: Client::try_from(config.clone())?, config })
    }

    /// A client with connections of its own that acts as a node.
    pub(crate) fn node(&self, name: &str) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(format!("system:node:{name}"));
        config.auth_info.impersonate_groups = Some(vec!["system:nodes".to_owned()]);
        Ok(Client::try_from(config)?)
    }

    /// Makes an object, or finds it there.
    pub(crate) async fn ensure<K>(&self, api: &Api<K>, object: &K) -> Result<K, Error>
    where
        K: kube::Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        match api.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let name = object.meta().name.clone().unwrap_or_default();
                Ok(api.get(&name).await?)
            }
            other => Ok(other?),
        }
    }

    /// The same for many objects without a namespace.
    pub(crate) async fn ensure_all<K>(&self, objects: &[K]) -> Result<Vec<K>, Error>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        let api = &api;
        each(objects.iter(), |object| self.ensure(api, object)).await
    }
}

/// Does something for each, many at a time; the results are in order.
pub(crate) async fn each<T, R, F>(
    all: impl Iterator<Item = T>,
    act: impl Fn(T) -> F,
) -> Result<Vec<R>, Error>
where
    F: Future<Output = Result<R, Error>>,
{
    futures::stream::iter(all.map(act)).buffered(AT_ONCE).try_collect().await
}

/// A node as its kubelet makes it, ready.
pub(crate) fn node(name: &str, labels: &Value) -> Result<Node, Error> {
    let quantities = json!({"cpu": "128", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"});
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": healthy(),
            "nodeInfo": {
                "architecture": "amd64", "bootID": boot(name), "kernelVersion": "6.12.9",
                "containerRuntimeVersion": "simulated://1.0", "kubeProxyVersion": "",
                "kubeletVersion": "v1.35.0+simulated", "machineID": name,
                "operatingSystem": "linux", "osImage": "simulated", "systemUUID": name,
            },
        },
    });
    Ok(serde_json::from_value(node)?)
}

/// The boot that a node runs.
pub(crate) fn boot(node: &str) -> String {
    format!("boot-{node}")
}

/// The conditions that a kubelet sets whose node is well.
pub(crate) fn healthy() -> Value {
    let now = kit::clock::rfc3339_seconds(kit::clock::Clock::system().now());
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    json!([
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        condition("Ready", "True", "KubeletReady"),
    ])
}
