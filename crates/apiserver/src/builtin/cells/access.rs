//! Who may do what: bindings of roles, admission's webhooks and policies.

use serde_json::Value;

use super::super::selector;
use super::recipe::{Recipe, at, list, text};
use super::{Column, Kind, UNSET};

use Recipe::{Code, Count, Pair, Text};

const SUBJECTS: &[&str] = &["subjects.kind", "subjects.name", "subjects.namespace"];

const BINDING: &[Column] = &[
    ("Role", Pair("roleRef.kind", "roleRef.name"), "The role that it gives."),
    ("Users", Code(users, SUBJECTS), "Users that it is given to."),
    ("Groups", Code(groups, SUBJECTS), "Groups that it is given to."),
    ("ServiceAccounts", Code(accounts, SUBJECTS), "Service accounts that it is given to."),
];

const WEBHOOKS: &[Column] = &[("Webhooks", Count(&["webhooks"]), "How many webhooks it has.")];

pub(super) const KINDS: &[Kind] = &[
    ("rbac.authorization.k8s.io/v1 RoleBinding", BINDING),
    ("rbac.authorization.k8s.io/v1 ClusterRoleBinding", BINDING),
    ("admissionregistration.k8s.io/v1 MutatingWebhookConfiguration", WEBHOOKS),
    ("admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", WEBHOOKS),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
        &[
            ("Validations", Count(&["spec.validations"]), "How many rules it has."),
            ("ParamKind", Code(param_kind, &["spec.paramKind"]), "The kind of its parameters."),
        ],
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
        &[
            ("PolicyName", Text("spec.policyName"), "The policy that it puts in force."),
            ("ParamRef", Code(param, &["spec.paramRef"]), "The policy's parameters."),
        ],
    ),
];

fn subjects(binding: &Value, kind: &str, show: fn(&Value) -> String) -> Value {
    let subjects = list(binding, "subjects").iter();
    let found = subjects.filter(|subject| text(subject, "kind") == kind);
    found.map(show).collect::<Vec<_>>().join(", ").into()
}

fn users(binding: &Value) -> Value {
    subjects(binding, "User", |subject| text(subject, "name").to_owned())
}

fn groups(binding: &Value) -> Value {
    subjects(binding, "Group", |subject| text(subject, "name").to_owned())
}

fn accounts(binding: &Value) -> Value {
    subjects(binding, "ServiceAccount", |subject| {
        format!("{}/{}", text(subject, "namespace"), text(subject, "name"))
    })
}

fn param_kind(policy: &Value) -> Value {
    match at(policy, "spec.paramKind").filter(|kind| !kind.is_null()) {
        Some(kind) => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")).into(),
        None => UNSET.into(),
    }
}

fn param(binding: &Value) -> Value {
    let reference = at(binding, "spec.paramRef").unwrap_or(&Value::Null);
    let selected = || reference.get("selector").and_then(selector::text);
    match (text(reference, "namespace"), text(reference, "name")) {
        (_, "") => selected().unwrap_or_else(|| UNSET.to_owned()),
        // Of a name alone nobody can say whether it has a namespace.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
    .into()
}
