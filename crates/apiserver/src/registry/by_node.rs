//! Pods by their node: the one selector by which thousands ask, each kubelet for its own.
//!
//! A pod that is bound lies in the store under an alias too, `NODE/NAMESPACE/NAME`, so that a kubelet's
//! list touches its pods only, and a pod's change wakes its own kubelet and no other. An alias narrows;
//! whether a pod is selected is still told by the selector.

use bytes::Bytes;
use memchr::memmem;
use store::{Entry, KeyRange};

use super::read::Selection;
use crate::resource::Resource;
use crate::stored::Stored;

/// The field, as selectors name it.
const FIELD: &str = "spec.nodeName";
/// The field, as the index of a stored pod holds it.
const INDEXED: &[u8] = b"\".spec.nodeName\":\"";
const PODS: &str = "/core/pods/";

/// The alias of a stored object, if it is a pod on a node.
pub(crate) fn alias(entry: &Entry) -> Option<Bytes> {
    let name = entry.key.strip_prefix(PODS.as_bytes())?;
    let stored = Stored::from_entry(entry).ok()?;
    let index = stored.index_bytes();
    let node = index.get(memmem::find(index, INDEXED)? + INDEXED.len()..)?;
    let node = node.get(..memchr::memchr(b'"', node)?)?;
    (!node.is_empty()).then(|| [node, b"/", name].concat().into())
}

/// The aliases among which everything lies that a selection wants of a resource; `None` if that is not
/// for an alias to say.
pub(super) fn range(
    resource: &Resource,
    namespace: Option<&str>,
    selection: &Selection,
) -> Option<KeyRange> {
    if !resource.group.is_empty() || resource.plural != "pods" {
        return None;
    }
    // No pod is stored whose node has a name that JSON would escape.
    let plain = |node: &&str| !node.is_empty() && !node.contains(['"', '\\']);
    let node = selection.exact(FIELD).filter(plain)?;
    Some(pods_on(node, namespace))
}

/// The aliases of the pods on a node, of a namespace or of all.
pub(crate) fn pods_on(node: &str, namespace: Option<&str>) -> KeyRange {
    KeyRange::prefix(match namespace {
        Some(namespace) => format!("{node}/{namespace}/"),
        None => format!("{node}/"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use store::Revision;

    use super::*;
    use crate::builtin;
    use crate::registry::{index_of, keys};
    use crate::stored::encode;

    fn pods() -> Arc<Resource> {
        builtin::table().unwrap().get("", "pods").unwrap().clone()
    }

    fn named(pods: &Resource, namespace: &str, node: &str) -> Option<Bytes> {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node}});
        let pod = pod.as_object().unwrap();
        alias(&Entry {
            key: keys::object(pods, Some(namespace), "p"),
            value: encode(pod, &index_of(pods, pod)).unwrap(),
            created: Revision(2),
            modified: Revision(2),
            version: 1,
            lease: None,
        })
    }

    #[test]
    fn a_pod_is_named_after_its_node_as_it_is_sought() {
        let pods = pods();
        let sought = |namespace, selector: &str| {
            range(&pods, namespace, &Selection::of_fields(selector)).unwrap()
        };
        assert_eq!(named(&pods, "ns", "n1").as_deref(), Some(&b"n1/ns/p"[..]));
        assert_eq!(named(&pods, "ns", ""), None, "it waits for a node");
        for node in ["n1", "rack-7.slot-2", "ü"] {
            let name = named(&pods, "ns", node).unwrap();
            let selector = format!("spec.nodeName={node},status.phase!=Failed");
            assert!(sought(None, &selector).contains(&name), "{node}");
            assert!(sought(Some("ns"), &selector).contains(&name), "{node}");
            assert!(!sought(Some("other"), &selector).contains(&name), "{node}");
        }
        assert!(!sought(None, "spec.nodeName=n").contains(b"n1/ns/p"));
        for other in
            ["spec.nodeName!=n1", "spec.nodeName=", "spec.nodeName=a\"b", "status.phase=Running"]
        {
            assert!(range(&pods, None, &Selection::of_fields(other)).is_none(), "{other}");
        }
    }
}
