//! Signs of life: a Lease that whoever lives renews.
//!
//! The Lease belongs to the object whose life it tells, and goes with it. Nothing here ticks or tries
//! again: when is the caller's to say.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

/// Says that the owner lives: renews the Lease of its name, or makes it where there is none.
///
/// # Errors
/// The API refuses it or does not answer.
pub async fn renew(
    leases: &Api<Lease>,
    owner: OwnerReference,
    lasts: Duration,
    now: Timestamp,
) -> kube::Result<()> {
    let name = owner.name.clone();
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(now)}}));
    match leases.patch(&name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => return other.map(drop),
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: i32::try_from(lasts.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&PostParams::default(), &lease).await.map(drop)
}
