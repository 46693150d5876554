//! Who may do what: the accounts of the controllers with exactly the rights that each declares, and
//! the roles of agents and people. The one home of all of it, however the controllers are run.
//!
//! Every controller acts as an account of its own. What they watch is watched once for all by the
//! account of their process, which may list and watch what they do, stand for election, act as them,
//! and nothing else.

use ::controllers::{Entry, boot};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kit::controller::{Declaration, declaration, reading};
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use sim::people::People;
use sim::trainer::{self, Trainer};

use super::document::Document;
use crate::identity;

/// The account of a process of the fleet's controllers, its roles, and its lease.
pub(crate) const PROCESS: &str = "seatrial-controllers";
/// The account of the process that is the API server too: it runs all controllers.
pub(crate) const SERVER: &str = "seatrial-server";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The user that a controller acts as.
pub(crate) fn user_of(entry: &Entry, namespace: &str) -> String {
    identity::account(namespace, entry.name)
}

/// Accounts and rights of controllers whose accounts lie in `namespace`. Those of the fleet's are the
/// same wherever they run.
///
/// # Errors
/// None, unless a role cannot be JSON.
pub(crate) fn of_controllers(
    entries: &[&Entry],
    namespace: &str,
) -> Result<Vec<Document>, serde_json::Error> {
    let mut documents = Vec::new();
    for entry in entries {
        let own = of_controller(entry, namespace)?;
        let fleet = entry.fleet;
        documents.extend(own.into_iter().map(|one| if fleet { one.installed() } else { one }));
    }
    Ok(documents)
}

fn of_controller(entry: &Entry, namespace: &str) -> Result<Vec<Document>, serde_json::Error> {
    let (declaration, subject) = ((entry.declare)(), [subject(entry.name, namespace)]);
    let role = declaration.cluster_role();
    let mut documents = vec![
        Document::of(&account(entry.name, namespace))?,
        Document::of(&role)?,
        Document::of(&bound(&role.name_any(), &subject))?,
    ];
    for role in declaration.roles() {
        let at = role.namespace().unwrap_or_default();
        documents.push(Document::of(&role)?);
        documents.push(Document::of(&bound_in(&role.name_any(), &at, &subject))?);
    }
    Ok(documents)
}

/// Account and rights of a process that runs these controllers.
///
/// # Errors
/// None, unless a role cannot be JSON.
pub(crate) fn of_process(
    name: &str,
    entries: &[&Entry],
    namespace: &str,
) -> Result<Vec<Document>, serde_json::Error> {
    let declarations: Vec<Declaration> = entries.iter().map(|entry| (entry.declare)()).collect();
    let reads = ClusterRole {
        metadata: named(name),
        rules: Some(reading(&declarations)),
        ..ClusterRole::default()
    };
    let subject = [subject(name, namespace)];
    Ok(vec![
        Document::of(&account(name, namespace))?,
        Document::of(&reads)?,
        Document::of(&bound(name, &subject))?,
        Document::of(&process(name, entries, namespace))?,
        Document::of(&bound_in(name, namespace, &subject))?,
    ])
}

/// What the process does in its own namespace: elections, and acting as its controllers.
fn process(name: &str, entries: &[&Entry], namespace: &str) -> Role {
    let rule = |verbs: &[&str], group: &str, resource: &str, names: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    };
    let accounts: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    let leases = "coordination.k8s.io";
    Role {
        metadata: within(name, namespace),
        rules: Some(vec![
            // A create names nothing that a rule could name.
            rule(&["create"], leases, "leases", &[]),
            rule(&["get", "update"], leases, "leases", &[name]),
            rule(&["impersonate"], "", "serviceaccounts", &accounts),
        ]),
    }
}

/// What agents and machines that join may do, and where the accounts of machines lie.
///
/// # Errors
/// None, unless a role cannot be JSON.
pub(crate) fn of_agents() -> Result<Vec<Document>, serde_json::Error> {
    let mut documents = vec![
        Document::of(&boot::namespace())?,
        Document::of(&agent::cluster_role())?.installed(),
        Document::of(&agent::cluster_role_binding())?.installed(),
        Document::of(&agent::role())?.installed(),
        Document::of(&agent::role_binding())?.installed(),
    ];
    for (policy, binding) in agent::policies() {
        documents.push(Document::of(&policy)?.installed());
        documents.push(Document::of(&binding)?.installed());
    }
    for binding in boot::joining() {
        documents.push(Document::of(&binding)?.installed());
    }
    Ok(documents)
}

/// What technicians and operators need. A site binds its own people to these roles; the simulated
/// ones are users of these names.
///
/// # Errors
/// None, unless a role cannot be JSON.
pub(crate) fn of_people() -> Result<Vec<Document>, serde_json::Error> {
    let roles = People::declarations().map(|(_, declaration)| declaration.cluster_role());
    roles.iter().map(|role| Ok(Document::of(role)?.installed())).collect()
}

/// Binds the simulated people to their roles, and whoever reads for all of them to what they read.
///
/// # Errors
/// None, unless a binding cannot be JSON.
pub(crate) fn of_simulated_people(reader: &str) -> Result<Vec<Document>, serde_json::Error> {
    let people = People::declarations();
    let mut documents = Vec::new();
    for (name, declaration) in &people {
        let role = declaration.cluster_role().name_any();
        documents.push(Document::of(&bound(&role, &[user(name)]))?);
    }
    documents.push(Document::of(&ClusterRole {
        metadata: named(reader),
        rules: Some(reading(people.iter().map(|(_, declaration)| declaration))),
        ..ClusterRole::default()
    })?);
    documents.push(Document::of(&bound(reader, &[user(reader)]))?);
    Ok(documents)
}

/// What the simulated program of training jobs needs, bound to its user, who also reads for itself.
///
/// # Errors
/// None, unless a role cannot be JSON.
pub(crate) fn of_trainer() -> Result<Vec<Document>, serde_json::Error> {
    let role = declaration::<Trainer>().cluster_role();
    let bound = bound(&role.name_any(), &[user(trainer::USER)]);
    Ok(vec![Document::of(&role)?, Document::of(&bound)?])
}

fn user(name: &str) -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "User".to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

fn account(name: &str, namespace: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: within(name, namespace),
        // Nothing runs as a controller's account: the process acts as it.
        automount_service_account_token: Some(name == PROCESS),
        ..ServiceAccount::default()
    }
}

fn subject(name: &str, namespace: &str) -> Subject {
    Subject {
        api_group: None,
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
    }
}

fn bound(role: &str, subjects: &[Subject]) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(role),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(subjects.to_vec()),
    }
}

fn bound_in(role: &str, namespace: &str, subjects: &[Subject]) -> RoleBinding {
    RoleBinding {
        metadata: within(role, namespace),
        role_ref: role_ref("Role", role),
        subjects: Some(subjects.to_vec()),
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: RBAC.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn within(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.to_owned()), ..named(name) }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
