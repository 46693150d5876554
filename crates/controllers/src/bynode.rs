//! Which pods are on which node, kept up with every change.
//!
//! Nodes are lost and return by the thousand, and each asks for its pods: a search through all pods
//! would cost the square of the fleet. What is on no node yet is not here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kit::controller::{Cache, Change, ObjectKey};
use plan::scheduler::node_of;

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ByNode(Arc<Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>>);

impl ByNode {
    /// Follows the pods of a cache from now on.
    pub(crate) fn of(pods: &Cache<Pod>) -> Self {
        let this = Self::default();
        let own = this.clone();
        pods.on_change(move |change| own.see(change));
        this
    }

    fn see(&self, change: &Change<Pod>) {
        let was = change.old.as_deref().and_then(node_of);
        let is = change.new.as_deref().and_then(node_of);
        if was == is {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = was
            && let Some(keys) = all.get_mut(node)
        {
            keys.remove(&change.key);
            if keys.is_empty() {
                all.remove(node);
            }
        }
        if let Some(node) = is {
            all.entry(node.to_owned()).or_default().insert(change.key.clone());
        }
    }

    /// The pods on a node, in the order of keys.
    pub(crate) fn on(&self, node: &str) -> Vec<ObjectKey> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(node).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str) -> Option<Arc<Pod>> {
        let mut pod = Pod::default();
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        Some(Arc::new(pod))
    }

    #[test]
    fn a_pod_is_where_it_is_bound_and_nowhere_once_it_is_gone() {
        let by_node = ByNode::default();
        let see = |name: &str, old: Option<Arc<Pod>>, new: Option<Arc<Pod>>| {
            by_node.see(&Change { key: ObjectKey::new("d", name), old, new });
        };
        see("a", None, pod(""));
        see("a", pod(""), pod("n1"));
        see("b", None, pod("n1"));
        see("b", pod("n1"), pod("n1"));
        assert_eq!(by_node.on("n1"), [ObjectKey::new("d", "a"), ObjectKey::new("d", "b")]);
        see("a", pod("n1"), None);
        see("b", pod("n1"), None);
        assert_eq!((by_node.on("n1"), by_node.on("")), (vec![], vec![]));
        assert!(by_node.0.lock().unwrap().is_empty(), "nothing is kept of a node without pods");
    }
}
