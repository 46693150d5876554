//! What agents may do: look at machines and nodes, say their own word about their own, and that they
//! live.

use api::names::{MACHINE_GROUP, MACHINE_USER, MACHINES};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The name of roles and bindings.
const NAME: &str = "seatrial:agent";
const RBAC: &str = "rbac.authorization.k8s.io";
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");

/// The role of agents. They act as their machine's own service account from the first moment of a
/// boot; the node is the kubelet's.
///
/// A role cannot say "your own machine only": [`policies`] does.
pub fn cluster_role() -> ClusterRole {
    ClusterRole {
        metadata: named(NAME),
        rules: Some(vec![
            rule(api::GROUP, "machines", &["get", "list", "watch"]),
            rule(api::GROUP, "machines/status", &["patch"]),
            rule("", "nodes", &["get", "list", "watch"]),
            rule("", "nodes/status", &["patch"]),
        ]),
        ..ClusterRole::default()
    }
}

/// Gives the role to the agent of every machine.
pub fn cluster_role_binding() -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(NAME),
        role_ref: reference("ClusterRole"),
        subjects: Some(vec![agents()]),
    }
}

/// What agents may do in the namespace of their accounts: say that they live.
pub fn role() -> Role {
    Role {
        metadata: among_machines(),
        rules: Some(vec![rule(LEASES.0, LEASES.1, &["create", "patch"])]),
    }
}

/// Gives that role to the agent of every machine.
pub fn role_binding() -> RoleBinding {
    RoleBinding {
        metadata: among_machines(),
        role_ref: reference("Role"),
        subjects: Some(vec![agents()]),
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

fn reference(kind: &str) -> RoleRef {
    RoleRef { api_group: RBAC.to_owned(), kind: kind.to_owned(), name: NAME.to_owned() }
}

/// The agents of all machines.
fn agents() -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "Group".to_owned(),
        name: MACHINE_GROUP.to_owned(),
        ..Subject::default()
    }
}

/// What the role cannot say: an agent speaks for its own machine and node, and of its Machine's status
/// it writes what is the agent's. Each with its binding, which puts it into force.
pub fn policies() -> Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)> {
    let own = Validation {
        expression: format!("request.userInfo.username == '{MACHINE_USER}' + object.metadata.name"),
        message: Some("an agent speaks for its own machine and node only".to_owned()),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    };
    let ours = "f in ['agent', 'inventory', 'firmware', 'report']";
    let kept = "has(oldObject.status) && f in oldObject.status && \
                oldObject.status[f] == object.status[f]";
    let lifecycle = Validation {
        expression: format!(
            "has(object.status) && object.status.all(f, {ours} || ({kept})) && \
             (!has(oldObject.status) || oldObject.status.all(f, {ours} || f in object.status))"
        ),
        message: Some(
            "an agent writes agent, inventory, firmware and report of its machine's status"
                .to_owned(),
        ),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    };
    let machines = (api::GROUP, "machines/status");
    let nodes = ("", "nodes/status");
    vec![
        policy("agents-speak-for-themselves.fleet.seatrial.dev", &[machines, nodes, LEASES], own),
        policy("agents-leave-the-lifecycle.fleet.seatrial.dev", &[machines], lifecycle),
    ]
}

fn policy(
    name: &str,
    on: &[(&str, &str)],
    validation: Validation,
) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let rule = |(group, resource): &(&str, &str)| NamedRuleWithOperations {
        api_groups: Some(vec![(*group).to_owned()]),
        api_versions: Some(vec!["*".to_owned()]),
        operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
        resources: Some(vec![(*resource).to_owned()]),
        ..NamedRuleWithOperations::default()
    };
    let policy = ValidatingAdmissionPolicy {
        metadata: named(name),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                resource_rules: Some(on.iter().map(rule).collect()),
                ..MatchResources::default()
            }),
            match_conditions: Some(vec![MatchCondition {
                name: "is-an-agent".to_owned(),
                expression: format!("request.userInfo.username.startsWith('{MACHINE_USER}')"),
            }]),
            validations: Some(vec![validation]),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    };
    let binding = ValidatingAdmissionPolicyBinding {
        metadata: named(name),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(name.to_owned()),
            validation_actions: Some(vec!["Deny".to_owned()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    };
    (policy, binding)
}

fn among_machines() -> ObjectMeta {
    ObjectMeta { namespace: Some(MACHINES.to_owned()), ..named(NAME) }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
