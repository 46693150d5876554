//! What the boot service needs beside the role that it declares, and what joining machines need.
//!
//! Each right is held where it is used: Secrets are made in `kube-system` only, tokens of accounts in
//! the namespace of the machines' accounts only. Nobody is given the right by which kube-controller-
//! manager approves requests of bootstrap tokens by itself (`nodeclient`), since that approves any
//! node's name for any token: [`JoinApproving`](crate::certificates::JoinApproving) approves, and looks
//! whose token it was.

use api::names;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{
    ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const RBAC: &str = "rbac.authorization.k8s.io";
const NAME: &str = "seatrial:boot";

/// Objects that an installation brings.
#[derive(Clone, Debug)]
pub struct Rights {
    /// Where the accounts of machines live.
    pub namespace: Namespace,
    /// What the boot service may do in one namespace.
    pub roles: Vec<Role>,
    /// These roles, given to the boot service.
    pub role_bindings: Vec<RoleBinding>,
    /// What machines that join may do, and nodes that renew their certificates.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
}

/// The rights, for the boot service that acts as one of these.
pub fn rights(service: &[Subject]) -> Rights {
    let rule = |verbs: &[&str], resource: &str| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let tokens = vec![rule(&["create"], "secrets")];
    let accounts =
        vec![rule(&["create"], "serviceaccounts"), rule(&["create"], "serviceaccounts/token")];
    let places = [("kube-system", tokens), (names::MACHINES, accounts)];
    let role = |(namespace, rules): (&str, Vec<PolicyRule>)| Role {
        metadata: named(NAME, Some(namespace)),
        rules: Some(rules),
    };
    let binding = |namespace: &str| RoleBinding {
        metadata: named(NAME, Some(namespace)),
        role_ref: reference("Role", NAME),
        subjects: Some(service.to_vec()),
    };
    let role_bindings = places.iter().map(|(namespace, _)| binding(namespace)).collect();
    Rights {
        namespace: Namespace { metadata: named(names::MACHINES, None), ..Namespace::default() },
        roles: places.into_iter().map(role).collect(),
        role_bindings,
        cluster_role_bindings: vec![
            bind("seatrial:machines-join", "system:node-bootstrapper", names::JOINING_GROUP),
            bind(
                "seatrial:nodes-renew",
                "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
                "system:nodes",
            ),
        ],
    }
}

fn bind(name: &str, role: &str, group: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(name, None),
        role_ref: reference("ClusterRole", role),
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "Group".to_owned(),
            name: group.to_owned(),
            namespace: None,
        }]),
    }
}

fn reference(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: RBAC.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}
