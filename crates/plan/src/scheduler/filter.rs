//! Whether a pod may run on a node, and if not why, in kube-scheduler's words.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec};
use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::Room;
use super::request::{self, Amounts, Port};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Why a node will not do: the first kind of reason; of resources, all that are short.
pub(super) fn reasons(pod: &Pod, wants: &Amounts, ports: &[Port], room: &Room<'_>) -> Vec<String> {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let node = room.node;
    let one = |text: &str| vec![text.to_owned()];
    if is_cordoned(node) && !tolerates(spec, &cordon()) {
        return one("node(s) were unschedulable");
    }
    if !is_tolerated(spec, node) {
        return one("node(s) had untolerated taint(s)");
    }
    if !is_selected(spec, node) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    if ports.iter().any(|port| room.ports.iter().any(|taken| request::collide(port, taken))) {
        return one("node(s) didn't have free ports for the requested pod ports");
    }
    let mut short = Vec::new();
    if room.pods.saturating_add(1).saturating_mul(1000) > room.allocatable("pods") {
        short.push("Too many pods".to_owned());
    }
    let lacks = wants.iter().filter(|(name, amount)| {
        **amount > 0 && amount.saturating_add(room.taken(name)) > room.allocatable(name)
    });
    short.extend(lacks.map(|(name, _)| format!("Insufficient {name}")));
    short
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn cordon() -> Taint {
    Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

fn is_tolerated(spec: &PodSpec, node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let hard = taints.filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"));
    hard.into_iter().all(|taint| tolerates(spec, taint))
}

/// Whether a pod stands a taint.
pub(crate) fn tolerates(spec: &PodSpec, taint: &Taint) -> bool {
    let matches = |toleration: &Toleration| {
        let wide =
            |own: Option<&str>, other: &str| own.is_none_or(|own| own.is_empty() || own == other);
        let value = toleration.value.as_deref().unwrap_or_default();
        let same = match toleration.operator.as_deref() {
            Some("Exists") => true,
            None | Some("" | "Equal") => value == taint.value.as_deref().unwrap_or_default(),
            Some(_) => false,
        };
        same && wide(toleration.effect.as_deref(), &taint.effect)
            && wide(toleration.key.as_deref(), &taint.key)
    };
    spec.tolerations.iter().flatten().any(matches)
}

/// Whether a pod's selector and affinity allow a node.
pub(crate) fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let nothing = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&nothing);
    let by_label =
        spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref();
    let term = |term: &NodeSelectorTerm| {
        let by_label = term.match_expressions.as_deref().unwrap_or_default();
        let by_field = term.match_fields.as_deref().unwrap_or_default();
        // A term that says nothing matches nothing.
        !(by_label.is_empty() && by_field.is_empty())
            && by_label.iter().all(|r| holds(r, labels.get(&r.key).map(String::as_str)))
            && by_field.iter().all(|r| holds(r, name.filter(|_| r.key == "metadata.name")))
    };
    by_label && required.is_none_or(|required| required.node_selector_terms.iter().any(term))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|known| known == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let pair = value.and_then(number).zip(values.first().and_then(|first| number(first)));
    match &*requirement.operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => pair.is_some_and(|(own, bound)| own > bound),
        "Lt" => pair.is_some_and(|(own, bound)| own < bound),
        _ => false,
    }
}
