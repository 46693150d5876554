//! What an installation brings for machines that join, beside the roles that controllers declare.
//!
//! Nobody is given the right by which kube-controller-manager approves requests of bootstrap tokens by
//! itself (`nodeclient`), since that approves any node's name for any token:
//! [`JoinApproving`](crate::certificates::JoinApproving) approves, and looks whose token it was.

use api::names;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Where the accounts of machines lie.
pub fn namespace() -> Namespace {
    Namespace { metadata: named(names::MACHINES), ..Namespace::default() }
}

/// What machines that join may do (send a request for a certificate), and nodes (renew their own).
pub fn joining() -> [ClusterRoleBinding; 2] {
    let renew = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    [
        bind("seatrial:machines-join", "system:node-bootstrapper", names::JOINING_GROUP),
        bind("seatrial:nodes-renew", renew, "system:nodes"),
    ]
}

fn bind(name: &str, role: &str, group: &str) -> ClusterRoleBinding {
    let (api_group, kind) = (RBAC.to_owned(), "ClusterRole".to_owned());
    ClusterRoleBinding {
        metadata: named(name),
        role_ref: RoleRef { api_group, kind, name: role.to_owned() },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "Group".to_owned(),
            name: group.to_owned(),
            namespace: None,
        }]),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
