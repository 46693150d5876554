//! Signs of life: Leases on the wall clock, a function of node and time in virtual time.

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kit::clock::Clock;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::fleet::Fleet;
use super::{LEASE, RENEW};

/// Where kubelets keep their Leases.
const NAMESPACE: &str = "kube-node-lease";

/// So many Leases are renewed at once.
const AT_ONCE: usize = 64;

/// When a kubelet was last alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has not run since this process began.
    Never,
    /// It lives.
    Alive,
    /// It has been silent since then.
    Silent(Timestamp),
}

impl Life {
    /// It falls silent; says whether it was alive.
    pub(super) fn end(&mut self, now: Timestamp) -> bool {
        let alive = *self == Self::Alive;
        if alive {
            *self = Self::Silent(now);
        }
        alive
    }
}

/// Healthy heartbeats as a function of node and time, so that nothing ticks: a node that lives was
/// heard of just now. Cheap to clone.
#[derive(Clone)]
pub struct Heartbeats(Fleet);

impl Heartbeats {
    pub(super) fn new(fleet: Fleet) -> Self {
        Self(fleet)
    }

    /// When the node was last heard of; `None` if it was not since this process began.
    pub fn last(&self, node: &str, now: Timestamp) -> Option<Timestamp> {
        match self.0.with(node, |seat| seat.life)? {
            Life::Never => None,
            Life::Alive => Some(now),
            Life::Silent(since) => Some(since),
        }
    }

    /// From now on `listener` is told of each node that falls silent or speaks again.
    pub fn on_change(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.0.tell(Arc::new(listener));
    }
}

/// Renews the Lease of every kubelet that lives, for as long as it is not dropped.
pub(super) async fn renew_leases(fleet: Fleet, clock: Clock) {
    let mut tick = tokio::time::interval(RENEW);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let alive = |name: String| {
            let client = fleet.with(&name, |seat| {
                let kubelet = seat.kubelet.as_ref().filter(|kubelet| !kubelet.mute)?;
                let node = seat.node.borrow().clone();
                kubelet.registered.then(|| kubelet.client.clone()).zip(node)
            });
            client.flatten().map(|(client, node)| (client, node, name))
        };
        let due: Vec<_> = fleet.names().into_iter().filter_map(alive).collect();
        let renewals = due.into_iter().map(|(client, node, name)| {
            let now = clock.now();
            async move {
                if let Err(error) = renew(client, &node, &name, now).await {
                    tracing::warn!(node = %name, %error, "cannot renew a Lease");
                }
            }
        });
        futures::stream::iter(renewals).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

async fn renew(client: Client, node: &Node, name: &str, now: Timestamp) -> kube::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(now)}}));
    match leases.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => return other.map(drop),
    }
    let owner = OwnerReference {
        api_version: Node::api_version(&()).into_owned(),
        kind: Node::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: node.uid().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&kube::api::PostParams::default(), &lease).await.map(drop)
}
