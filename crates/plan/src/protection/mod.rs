//! Storage in use stays: a claim that a pod uses, and a volume that a claim is bound to. One that is
//! deleted meanwhile goes when it is free, by a finalizer.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};

use crate::scheduler::node_of;

/// What keeps a claim.
pub const CLAIM: &str = "kubernetes.io/pvc-protection";
/// What keeps a volume.
pub const VOLUME: &str = "kubernetes.io/pv-protection";

/// What there is to know about a claim or a volume.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// It is being deleted.
    pub deleting: bool,
    /// It carries the finalizer.
    pub kept: bool,
    /// Somebody uses it.
    pub used: bool,
}

/// What shall be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Leave,
    /// It gets the finalizer.
    Keep,
    /// The finalizer goes.
    Release,
}

/// What shall be done about a claim or a volume.
pub fn plan(observed: Observed) -> Plan {
    match observed {
        Observed { deleting: false, kept: false, .. } => Plan::Keep,
        Observed { deleting: true, kept: true, used: false } => Plan::Release,
        _ => Plan::Leave,
    }
}

/// The claims that a pod names.
pub fn named(pod: &Pod) -> impl Iterator<Item = String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(move |volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        // Such a claim is named after its pod.
        None => volume.ephemeral.as_ref().map(|_| format!("{name}-{}", volume.name)),
    })
}

/// The claims that a pod uses, by name: from when it has a node, since no kubelet starts one with a claim
/// that is being deleted, until it has ended.
pub fn claims(pod: &Pod) -> Vec<String> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if node_of(pod).is_none() || matches!(phase, Some("Succeeded" | "Failed")) {
        return Vec::new();
    }
    named(pod).collect()
}

/// Whether a pod uses a claim.
pub fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    pod.metadata.namespace == claim.metadata.namespace
        && claim.metadata.name.as_ref().is_some_and(|name| claims(pod).contains(name))
}

/// Whether a claim holds a volume.
pub fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_deleted_and_free_is_released() {
        let cases = [
            (false, false, false, Plan::Keep),
            (false, false, true, Plan::Keep),
            (false, true, true, Plan::Leave),
            (true, false, false, Plan::Leave),
            (true, true, true, Plan::Leave),
            (true, true, false, Plan::Release),
        ];
        for (deleting, kept, used, want) in cases {
            assert_eq!(plan(Observed { deleting, kept, used }), want);
        }
    }

    #[test]
    fn a_pod_uses_its_claims_from_its_node_to_its_end() {
        let pod = |node: Option<&str>, phase: &str| -> Pod {
            let volumes = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "b", "ephemeral": {}}, {"name": "e", "emptyDir": {}}]);
            let pod = json!({"metadata": {"name": "p", "namespace": "n"},
                "spec": {"nodeName": node, "containers": [], "volumes": volumes},
                "status": {"phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        assert_eq!(claims(&pod(Some("n1"), "Running")), ["c", "p-b"]);
        assert!(claims(&pod(None, "Pending")).is_empty());
        assert!(claims(&pod(Some("n1"), "Succeeded")).is_empty());
        let claim = |namespace: &str| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {"name": "c", "namespace": namespace}}))
                .unwrap()
        };
        assert!(uses(&pod(Some("n1"), "Pending"), &claim("n")));
        assert!(!uses(&pod(Some("n1"), "Pending"), &claim("other")));
    }
}
