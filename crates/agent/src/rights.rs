//! What agents may do beside what every kubelet may: look at machines, and say their own word.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The name of role and binding.
const NAME: &str = "seatrial:agent";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The role of agents. They act as their node, whose own rights cover its conditions.
///
/// A role cannot say "your own machine only": where nodes are not trusted with one another's status, a
/// ValidatingAdmissionPolicy compares the machine's name with the user's.
pub fn cluster_role() -> ClusterRole {
    let rule = |resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec!["fleet.seatrial.dev".to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    ClusterRole {
        metadata: named(),
        rules: Some(vec![
            rule("machines", &["get", "list", "watch"]),
            rule("machines/status", &["patch"]),
        ]),
        ..ClusterRole::default()
    }
}

/// Gives the role to every node.
pub fn cluster_role_binding() -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: NAME.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "Group".to_owned(),
            name: "system:nodes".to_owned(),
            ..Subject::default()
        }]),
    }
}

fn named() -> ObjectMeta {
    ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() }
}
