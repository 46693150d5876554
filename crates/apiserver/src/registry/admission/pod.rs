//! DefaultTolerationSeconds, PodTopologyLabels and TaintNodesByCondition: what pods and nodes get
//! from the cluster without asking.

use serde_json::{Map, Value, json};

use super::super::metadata::{meta, meta_mut, text};
use super::super::{Call, Object};
use super::{list_mut, spec_mut};
use crate::status::ApiError;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// How long a pod stays on a node that is out of reach, in seconds, if it does not say.
const SECONDS: u32 = 300;

/// Labels of a node that its pods get as well.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A pod that says nothing about it stays five minutes on a node that is out of reach.
pub(super) fn tolerate_outages(pod: &mut Object) {
    let tolerations = list_mut(spec_mut(pod), "tolerations");
    for key in [NOT_READY, UNREACHABLE] {
        let covers = |toleration: &Value| {
            let any_key = toleration["key"].as_str().unwrap_or_default().is_empty();
            let any_effect = toleration["effect"].as_str().unwrap_or_default().is_empty();
            (any_key || toleration["key"] == key)
                && (any_effect || toleration["effect"] == "NoExecute")
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
}

/// No pod is to run on a node that has not said it is ready.
pub(super) fn taint_until_ready(node: &mut Object) {
    let taints = list_mut(spec_mut(node), "taints");
    if !taints.iter().any(|t| t["key"] == NOT_READY && t["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

impl Call<'_> {
    /// A pod that is born on a node carries the node's place.
    pub(super) fn label_by_node(&self, pod: &mut Object) -> Result<(), ApiError> {
        let node = text(spec_mut(pod), "nodeName").to_owned();
        let labels = self.topology(&node)?;
        if labels.is_empty() {
            return Ok(());
        }
        let own = meta_mut(pod).entry("labels").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            own.extend(labels);
        }
        Ok(())
    }

    /// The labels that tell where a node is.
    pub(in crate::registry) fn topology(&self, node: &str) -> Result<Map<String, Value>, ApiError> {
        if node.is_empty() {
            return Ok(Map::new());
        }
        let Some(node) = self.server.read("", "nodes", None, node)? else { return Ok(Map::new()) };
        let labels = meta(&node).get("labels").and_then(Value::as_object);
        let told = labels.into_iter().flatten().filter(|(k, _)| TOPOLOGY.contains(&k.as_str()));
        Ok(told.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_tolerated_unless_the_pod_says_otherwise() {
        let tolerated = |given: Value| {
            let mut pod = json!({"spec": {"tolerations": given}});
            tolerate_outages(pod.as_object_mut().unwrap());
            pod["spec"]["tolerations"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(tolerated(json!([])), 2);
        assert_eq!(tolerated(json!([{"operator": "Exists"}])), 1);
        assert_eq!(tolerated(json!([{"key": UNREACHABLE}])), 2);
        assert_eq!(tolerated(json!([{"key": "other", "effect": "NoSchedule"}])), 3);
    }

    #[test]
    fn a_node_is_tainted_once() {
        let mut node = json!({"spec": {"taints": [{"key": NOT_READY, "effect": "NoExecute"}]}});
        taint_until_ready(node.as_object_mut().unwrap());
        taint_until_ready(node.as_object_mut().unwrap());
        assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), 2);
    }
}
