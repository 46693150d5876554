//! Drains a node as kubectl does: a cordon, then the eviction of every pod of a user.

use std::io::Write;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, Patch};
use tokio::time::Instant;

use super::super::Outcome;
use super::super::view::{View, pods_on};
use super::act::{cordon_patch, node};
use crate::client::{ClientError, Cluster};
use crate::confirm::{Consent, ask};

/// How long between two looks at what is left.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error(
    "{name} is cordoned, and still runs after {} s: {left}; wait longer with --timeout",
    timeout.as_secs()
)]
struct Late {
    name: String,
    timeout: Duration,
    left: String,
}

pub(super) async fn run(
    cluster: &Cluster,
    view: &View,
    timeout: Duration,
    consent: &Consent,
) -> Outcome {
    node(view)?;
    let name = &view.name;
    if consent.show {
        let line = format!("kubectl drain {name} --ignore-daemonsets --delete-emptydir-data");
        return Ok(writeln!(std::io::stdout(), "{line}")?);
    }
    ask(consent, &view.blast().to_string(), &format!("Drain {name}?"))?;
    let patch = cordon_patch(&format!("drained by {}", cluster.person));
    cluster.patch::<Node>(name, false, &Patch::Strategic(patch)).await?;
    let began = Instant::now();
    loop {
        let held: Vec<Pod> =
            pods_on(cluster, name).await?.into_iter().filter(plan::pod::holds).collect();
        if held.is_empty() {
            return Ok(writeln!(
                std::io::stdout(),
                "{name} is cordoned, and runs no pod of a user."
            )?);
        }
        if began.elapsed() >= timeout {
            let left: Vec<&str> =
                held.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
            let late = Late { name: name.clone(), timeout, left: left.join(", ") };
            return Err(late.into());
        }
        for pod in held.iter().filter(|pod| !plan::pod::is_terminating(pod)) {
            evict(cluster, pod).await?;
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Asks a pod to leave. One that a budget keeps is asked again later.
async fn evict(cluster: &Cluster, pod: &Pod) -> Result<(), ClientError> {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(cluster.client().clone(), namespace);
    let name = meta.name.as_deref().unwrap_or_default();
    match pods.evict(name, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => Ok(()),
        Err(error) => Err(cluster.explain(error)),
    }
}
