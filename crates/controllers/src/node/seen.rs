//! Nodes and pods in the words of `plan::node`.
//!
//! Who wrote something is read from `managedFields`, which caches do not keep: a node of a cache says
//! nothing about it, and whoever needs to know asks the API.

use std::time::Duration;

use api::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use plan::node::{FromPool, NodeSeen, PodSeen, Ready, Reported};
pub(super) use plan::scheduler::node_of;

/// How long a pod may take to end that does not say.
const GRACE: Duration = Duration::from_secs(30);

/// The machine below a node: the one that its label names, else the one of its name.
pub(crate) fn machine_of(node: &Node) -> String {
    let labels = node.metadata.labels.as_ref();
    let named =
        labels.and_then(|labels| labels.get(names::MACHINE)).filter(|name| !name.is_empty());
    named.or(node.metadata.name.as_ref()).cloned().unwrap_or_default()
}

/// An annotation, if it says something.
fn annotation<'a>(object: &'a ObjectMeta, name: &str) -> Option<&'a String> {
    object.annotations.as_ref()?.get(name)
}

pub(crate) fn is_unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// What its Ready condition says.
pub(crate) fn readiness(node: &Node) -> Ready {
    match conditions(node).iter().find(|c| c.type_ == "Ready").map(|c| c.status.as_str()) {
        Some("True") => Ready::Yes,
        Some("False") => Ready::No,
        _ => Ready::Unknown,
    }
}

/// The reason of a condition of a node, while it holds.
pub(crate) fn shows<'a>(node: &'a Node, condition: &str) -> Option<&'a str> {
    let said = conditions(node).iter().find(|said| said.type_ == condition);
    said.filter(|said| said.status == "True")?.reason.as_deref()
}

/// Whether a change of a node is more than a heartbeat.
pub(crate) fn node_matters(old: &Node, new: &Node) -> bool {
    fn said(node: &Node) -> impl PartialEq + '_ {
        let of = |c: &'_ NodeCondition| {
            let since = c.last_transition_time.as_ref().map(|time| time.0);
            (c.type_.clone(), c.status.clone(), c.reason.clone(), c.message.clone(), since)
        };
        let m = &node.metadata;
        let taints = node.spec.as_ref().map(|spec| &spec.taints);
        let all: Vec<_> = conditions(node).iter().map(of).collect();
        ((&m.uid, &m.labels, &m.annotations), is_unschedulable(node), taints, boot(node), all)
    }
    said(old) != said(new)
}

fn boot(node: &Node) -> Option<&str> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    Some(info.boot_id.as_str()).filter(|boot| !boot.is_empty())
}

/// Whether our cordon on a node is still ours: nobody else has set it since. Without
/// `managedFields` our mark alone counts.
pub(super) fn cordon_is(node: &Node, manager: &str) -> bool {
    let mut writers = writers(&node.metadata, &["f:spec", "f:unschedulable"]).peekable();
    writers.peek().is_none() || writers.all(|entry| entry.manager.as_deref() == Some(manager))
}

/// A node; `manager` is the name under which we write.
pub(crate) fn node(node: &Node, machine: &api::Machine, manager: &str) -> NodeSeen {
    let metadata = &node.metadata;
    let unschedulable = is_unschedulable(node);
    let marked = annotation(metadata, names::CORDONED_FOR);
    let ours = marked.filter(|_| !unschedulable || cordon_is(node, manager));
    let hands_off = annotation(metadata, names::HANDS_OFF).map(String::as_str);
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let from_pool = annotation(metadata, names::FROM_POOL);
    NodeSeen {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        boot: boot(node).map(str::to_owned),
        ready: readiness(node),
        unschedulable,
        cordoned_for: ours.cloned(),
        // What is forbidden for the machine is forbidden for its node.
        hands_off: hands_off.or(machine.hands_off()).map(str::to_owned),
        labels: metadata.labels.clone().unwrap_or_default(),
        taints: taints.cloned().collect(),
        from_pool: from_pool.map(|text| FromPool::read(text)).unwrap_or_default(),
        conditions: conditions(node).iter().map(|c| reported(c, metadata)).collect(),
    }
}

/// A condition as somebody reported it.
pub(super) fn reported(condition: &NodeCondition, of: &ObjectMeta) -> Reported {
    let key = format!("k:{{\"type\":\"{}\"}}", condition.type_);
    let writer = writers(of, &["f:status", "f:conditions", &key])
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    // A person who sets one by hand may leave the time out.
    let written = || writer.and_then(|entry| entry.time.as_ref()).map(|time| time.0);
    Reported {
        kind: condition.type_.clone(),
        holds: condition.status == "True",
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        by: writer.and_then(|entry| entry.manager.clone()).unwrap_or_else(|| "unknown".to_owned()),
        since: since.or_else(written).unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

/// Whose managed fields hold a field.
fn writers<'a>(
    object: &'a ObjectMeta,
    path: &[&str],
) -> impl Iterator<Item = &'a ManagedFieldsEntry> {
    let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    object.managed_fields.iter().flatten().filter(move |entry| {
        let mut at = entry.fields_v1.as_ref().map(|fields| &fields.0);
        for part in &path {
            at = at.and_then(|fields| fields.get(part));
        }
        at.is_some()
    })
}

/// Whether a change of a pod matters to its node.
pub(super) fn pod_matters(old: &Pod, new: &Pod) -> bool {
    fn said(pod: &Pod) -> impl PartialEq + '_ {
        let ends = pod.metadata.deletion_timestamp.is_some();
        (
            &pod.metadata.uid,
            node_of(pod),
            plan::pod::treatment(pod),
            plan::pod::is_finished(pod),
            ends,
        )
    }
    said(old) != said(new)
}

/// A pod; `ending` is since when it is known to end.
pub(super) fn pod(pod: &Pod, ending: Option<Timestamp>) -> PodSeen {
    let metadata = &pod.metadata;
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = grace.and_then(|seconds| u64::try_from(seconds).ok());
    PodSeen {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        treatment: plan::pod::treatment(pod),
        holds: plan::pod::holds(pod),
        grace: grace.map_or(GRACE, Duration::from_secs),
        ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn the_node(fields: serde_json::Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {
                "name": "n1", "uid": "u",
                "annotations": {names::CORDONED_FOR: "i1"},
                "managedFields": fields,
            },
            "spec": {"unschedulable": true, "taints": [
                {"key": names::TAINT_SPARE, "effect": "NoSchedule"},
                {"key": "other", "effect": "NoSchedule"},
            ]},
            "status": {
                "nodeInfo": {"bootID": "b", "architecture": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                    "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""},
                "conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": "PendingPhase", "status": "True", "reason": "Reboot"},
                ],
            },
        }))
        .unwrap()
    }

    fn entry(manager: &str, time: &str, fields: serde_json::Value) -> serde_json::Value {
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    #[test]
    fn a_cordon_is_whose_fields_say_so_and_else_whose_mark_it_bears() {
        let machine = api::Machine::default();
        let by = |managers: &[&str]| {
            let cordon = json!({"f:spec": {"f:unschedulable": {}}});
            let entries: Vec<_> = managers
                .iter()
                .map(|manager| entry(manager, "2026-01-01T00:00:00Z", cordon.clone()))
                .collect();
            node(&the_node(json!(entries)), &machine, "us").cordoned_for
        };
        assert_eq!(by(&[]).as_deref(), Some("i1"), "a cache does not know");
        assert_eq!(by(&["us"]).as_deref(), Some("i1"));
        assert_eq!(by(&["kubectl"]), None);
        assert_eq!(by(&["us", "kubectl"]), None, "a person holds on to it too");
    }

    #[test]
    fn a_condition_has_its_writer_and_a_time_even_if_the_writer_gave_none() {
        let asked = json!({"f:status": {"f:conditions": {"k:{\"type\":\"PendingPhase\"}": {}}}});
        let fields = json!([entry("ada", "2026-01-01T00:00:07Z", asked)]);
        let seen = node(&the_node(fields), &api::Machine::default(), "us");
        let phase = seen.condition("PendingPhase").unwrap();
        assert_eq!((phase.by.as_str(), phase.reason.as_str()), ("ada", "Reboot"));
        assert_eq!(phase.since, "2026-01-01T00:00:07Z".parse().unwrap());
        assert_eq!((seen.ready, seen.boot.as_deref()), (Ready::No, Some("b")));
        let keys: Vec<&str> = seen.taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, [names::TAINT_SPARE, "other"]);
    }

    #[test]
    fn only_pods_that_somebody_would_miss_hold_a_node() {
        let holds = |metadata: serde_json::Value, phase: &str, key: &str| {
            let object = json!({"metadata": metadata, "status": {"phase": phase},
                "spec": {"containers": [], "tolerations": [{"key": key}]}});
            pod(&serde_json::from_value(object).unwrap(), None).holds
        };
        assert!(holds(json!({"namespace": "a"}), "Running", "x"));
        assert!(holds(json!({"namespace": "a"}), "Pending", names::TAINT_STATE));
        assert!(!holds(json!({"namespace": "a"}), "Failed", "x"));
        assert!(!holds(json!({"namespace": names::NAMESPACE}), "Running", names::TAINT_STATE));
        assert!(holds(json!({"namespace": names::NAMESPACE}), "Running", "x"));
        let owned = json!({"namespace": "a", "ownerReferences": [{"apiVersion": "apps/v1",
            "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]});
        assert!(!holds(owned, "Running", "x"));
        let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "m"}});
        assert!(!holds(mirror, "Running", "x"));
    }
}
