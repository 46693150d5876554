//! The node authorizer: a kubelet may read what the pods on its node need, and nothing else.
//!
//! Who is in `system:nodes` and called `system:node:NAME` is the kubelet of that node. What hangs
//! together is looked up at the moment of asking, through [`Relations`]; this file says only which
//! question a request comes to, with upstream's words for a no. What is not divided between nodes is
//! decided by the cluster role `system:node`.

use super::User;
use super::authz::{Attributes, Target};

const GROUP: &str = "system:nodes";
const PREFIX: &str = "system:node:";

/// The role that every node has.
pub(crate) const ROLE: &str = "system:node";

/// The namespace of the leases by which nodes say that they live.
const LEASES: &str = "kube-node-lease";

/// The node whose kubelet a user is: none for other users, an empty name for a node that does not
/// say which it is.
pub(crate) fn identity(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(PREFIX)?;
    user.is_in(GROUP).then_some(name)
}

/// What can be related to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Related {
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    Volume,
    ResourceClaim,
    Attachment,
    Slice,
}

/// Knows what hangs together.
pub(crate) trait Relations {
    /// Whether something is needed by a pod on the node, or is about the node.
    fn relates(&self, node: &str, what: Related, namespace: &str, name: &str) -> bool;
}

/// A verdict on a node's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    /// For this reason, which may be empty.
    No(String),
    /// As the role of all nodes says.
    ByRole,
}

fn no(reason: &str) -> Verdict {
    Verdict::No(reason.to_owned())
}

/// A request of a node.
struct Asked<'a> {
    node: &'a str,
    verb: &'a str,
    namespace: &'a str,
    name: &'a str,
    part: &'a str,
    /// The node that the field selector demands.
    selected: Option<&'a str>,
}

/// Judges a node's request; `selected` is the value that its field selector demands for
/// `spec.nodeName`.
pub(crate) fn judge(
    relations: &impl Relations,
    node: &str,
    attributes: &Attributes<'_>,
    selected: Option<&str>,
) -> Verdict {
    let Target::Resource { group, resource, subresource, namespace, name } = attributes.target
    else {
        return Verdict::ByRole;
    };
    let verb = attributes.verb;
    let asked = Asked { node, verb, namespace, name, part: subresource, selected };
    match (group, resource) {
        ("", "secrets") => asked.read_namespaced(relations, Related::Secret),
        ("", "configmaps") => asked.read_namespaced(relations, Related::ConfigMap),
        ("", "persistentvolumeclaims") if subresource == "status" => {
            if !matches!(verb, "update" | "patch") {
                return no("can only get/update/patch this type");
            }
            asked.related(relations, Related::Claim)
        }
        ("", "persistentvolumeclaims") => asked.get(relations, Related::Claim),
        ("", "persistentvolumes") => asked.get(relations, Related::Volume),
        ("resource.k8s.io", "resourceclaims") => asked.get(relations, Related::ResourceClaim),
        ("storage.k8s.io", "volumeattachments") => asked.get(relations, Related::Attachment),
        ("", "serviceaccounts") => asked.account(relations),
        ("coordination.k8s.io", "leases") => asked.lease(),
        ("storage.k8s.io", "csinodes") => asked.csi_node(),
        ("resource.k8s.io", "resourceslices") => asked.slice(relations),
        ("", "nodes") => asked.node(),
        ("", "pods") => asked.pod(relations),
        _ => Verdict::ByRole,
    }
}

impl Asked<'_> {
    fn related(&self, relations: &impl Relations, what: Related) -> Verdict {
        if self.name.is_empty() {
            return no("No Object name found");
        }
        if relations.relates(self.node, what, self.namespace, self.name) {
            return Verdict::Allow;
        }
        Verdict::No(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn get(&self, relations: &impl Relations, what: Related) -> Verdict {
        match (self.verb, self.part) {
            ("get", "") => self.related(relations, what),
            ("get", _) => no("cannot get subresource"),
            _ => no("can only get individual resources of this type"),
        }
    }

    fn read_namespaced(&self, relations: &impl Relations, what: Related) -> Verdict {
        match self.verb {
            "get" | "list" | "watch" if !self.part.is_empty() => no("cannot read subresource"),
            "get" | "list" | "watch" if self.namespace.is_empty() => {
                no("can only read namespaced object of this type")
            }
            "get" | "list" | "watch" => self.related(relations, what),
            _ => no("can only read resources of this type"),
        }
    }

    fn account(&self, relations: &impl Relations) -> Verdict {
        match (self.verb, self.part) {
            ("get", "") => self.read_namespaced(relations, Related::ServiceAccount),
            ("create", _) if self.name.is_empty() => {
                no("can only create tokens for individual service accounts")
            }
            ("create", "token") => self.related(relations, Related::ServiceAccount),
            ("create", _) => no("can only create token subresource of serviceaccount"),
            _ => no("can only create tokens for individual service accounts"),
        }
    }

    fn lease(&self) -> Verdict {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if self.namespace != LEASES {
            return Verdict::No(format!(
                "can only access leases in the \"{LEASES}\" system namespace"
            ));
        }
        // The name of what is created is admission's to see.
        if self.verb != "create" && self.name != self.node {
            return no("can only access node lease with the same name as the requesting node");
        }
        Verdict::Allow
    }

    fn csi_node(&self) -> Verdict {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.part.is_empty() {
            return no("cannot authorize CSINode subresources");
        }
        if self.verb != "create" && self.name != self.node {
            return no("can only access CSINode with the same name as the requesting node");
        }
        Verdict::Allow
    }

    fn slice(&self, relations: &impl Relations) -> Verdict {
        if !self.part.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => Verdict::Allow,
            "get" | "update" | "patch" | "delete" => self.related(relations, Related::Slice),
            "list" | "watch" | "deletecollection" if self.selected == Some(self.node) => {
                Verdict::Allow
            }
            "list" | "watch" | "deletecollection" => no(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Verdict {
        let Self { node, name, .. } = self;
        match (self.part, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::Allow,
            ("", "get" | "list" | "watch") if name == node => Verdict::Allow,
            ("", "get" | "list" | "watch") if name.is_empty() => Verdict::No(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            ("", "get" | "list" | "watch") => {
                Verdict::No(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no(""),
        }
    }

    fn pod(&self, relations: &impl Relations) -> Verdict {
        match (self.part, self.verb) {
            ("", "get") => self.related(relations, Related::Pod),
            ("", "list" | "watch") if self.selected == Some(self.node) => Verdict::Allow,
            ("", "list" | "watch") if !self.name.is_empty() => {
                self.related(relations, Related::Pod)
            }
            ("", "list" | "watch") => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Verdict::Allow
            }
            _ => no(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything in namespace `near` is related to every node.
    struct Near;

    impl Relations for Near {
        fn relates(&self, _: &str, _: Related, namespace: &str, _: &str) -> bool {
            namespace == "near"
        }
    }

    #[track_caller]
    fn check(request: &str, selected: Option<&str>, want: &str) {
        // verb group/resource/part namespace/name
        let words: Vec<&str> = request.split(' ').collect();
        let what: Vec<&str> = words[1].split('/').collect();
        let place: Vec<&str> = words[2].split('/').collect();
        let target = Target::Resource {
            group: what[0],
            resource: what[1],
            subresource: what.get(2).copied().unwrap_or_default(),
            namespace: place[0],
            name: place[1],
        };
        let got = match judge(&Near, "n", &Attributes { verb: words[0], target }, selected) {
            Verdict::Allow => "yes".to_owned(),
            Verdict::ByRole => "role".to_owned(),
            Verdict::No(reason) => format!("no: {reason}"),
        };
        assert!(got.starts_with(want), "{request}: {got}");
    }

    #[test]
    fn a_node_reads_what_its_pods_need() {
        check("get /secrets near/a", None, "yes");
        check("watch /configmaps near/a", None, "yes");
        check("get /secrets far/a", None, "no: no relationship found between node 'n'");
        check("list /secrets near/", None, "no: No Object name found");
        check("update /secrets near/a", None, "no: can only read");
        check("get /persistentvolumeclaims near/a", None, "yes");
        check("list /persistentvolumeclaims near/a", None, "no: can only get individual");
        check("patch /persistentvolumeclaims/status near/a", None, "yes");
        check("create /serviceaccounts/token near/a", None, "yes");
        check("create /serviceaccounts/token far/a", None, "no: no relationship");
        check("delete /serviceaccounts near/a", None, "no: can only create tokens");
    }

    #[test]
    fn a_node_keeps_to_itself() {
        check("get /nodes /n", None, "yes");
        check("get /nodes /m", None, "no: node 'n' cannot read 'm'");
        check("list /nodes /", None, "no: node 'n' cannot read all nodes");
        check("delete /nodes /n", None, "no: ");
        check("list /pods /", Some("n"), "yes");
        check("list /pods /", Some("m"), "no: can only list/watch pods");
        check("list /pods /", None, "no: can only list/watch pods");
        check("get /pods near/a", None, "yes");
        check("update /pods near/a", None, "no: ");
        check("update coordination.k8s.io/leases kube-node-lease/n", None, "yes");
        check("update coordination.k8s.io/leases kube-node-lease/m", None, "no: can only access");
        check("get coordination.k8s.io/leases default/n", None, "no: can only access leases");
        check("get storage.k8s.io/csinodes /m", None, "no: can only access CSINode");
        check("list resource.k8s.io/resourceslices /", Some("n"), "yes");
        check("list resource.k8s.io/resourceslices /", None, "no: can only list/watch");
        check("list /services /", None, "role");
    }

    #[test]
    fn a_node_is_known_by_name_and_group() {
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        assert_eq!(identity(&user("system:node:n", GROUP)), Some("n"));
        assert_eq!(identity(&user("system:node:", GROUP)), Some(""));
        assert_eq!(identity(&user("system:node:n", "devs")), None);
        assert_eq!(identity(&user("n", GROUP)), None);
    }
}
