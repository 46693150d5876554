//! What a pod of a DaemonSet is made of: bound to its node by its affinity, and tolerant of what
//! befalls a node.

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{GENERATION_LABEL, HASH_LABEL, KIND, World};
use crate::replicaset::reference;

const NAME: &str = "metadata.name";
/// The taints of nodes that such pods stand, and their effects.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The node of a pod: where it runs, or the only one where it may.
pub fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|t| t.match_fields.iter().flatten());
    let names = fields.filter(|field| field.key == NAME && field.operator == "In");
    match names.filter_map(|field| field.values.as_deref()).next()? {
        [only] => Some(only),
        _ => None,
    }
}

/// The spec with the tolerations that every such pod has.
pub(super) fn tolerant(mut spec: PodSpec) -> PodSpec {
    let network = (spec.host_network == Some(true)).then_some(NO_NETWORK);
    let all = spec.tolerations.get_or_insert_default();
    for (key, effect) in BORNE.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    spec
}

impl World<'_> {
    /// A pod for a node.
    pub(super) fn birth(&self, node: &str) -> Pod {
        let meta = &self.observed.set.metadata;
        let template = self.spec.template.metadata.clone().unwrap_or_default();
        let mut labels = template.labels.unwrap_or_default();
        if let Some(generation) = &self.generation {
            labels.insert(GENERATION_LABEL.to_owned(), generation.clone());
        }
        labels.insert(HASH_LABEL.to_owned(), self.hash.clone());
        let mut spec = self.template.clone();
        let name = NodeSelectorRequirement {
            key: NAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        };
        let term = NodeSelectorTerm { match_fields: Some(vec![name]), ..Default::default() };
        let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
        affinity
            .required_during_scheduling_ignored_during_execution
            .get_or_insert_default()
            .node_selector_terms = vec![term];
        let prefix = format!("{}-", meta.name.as_deref().unwrap_or_default());
        Pod {
            metadata: ObjectMeta {
                generate_name: Some(prefix),
                namespace: meta.namespace.clone(),
                labels: Some(labels),
                annotations: template.annotations,
                finalizers: template.finalizers,
                owner_references: Some(vec![reference(KIND, meta)]),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
            status: None,
        }
    }
}
