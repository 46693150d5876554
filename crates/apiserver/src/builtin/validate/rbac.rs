//! Roles and what binds people to them.

use serde_json::Value;

use super::form;
use super::place::{At, Errors};
use crate::schema::names;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role in a namespace.
pub(super) fn role(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    for rule in at.field("rules").items() {
        policy_rule(&rule, true, errors);
    }
}

/// A role of the cluster.
pub(super) fn cluster_role(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    for rule in at.field("rules").items() {
        policy_rule(&rule, false, errors);
    }
    if !at.has("aggregationRule") {
        return;
    }
    let aggregation = at.field("aggregationRule");
    let selectors = aggregation.field("clusterRoleSelectors");
    if aggregation.list("clusterRoleSelectors").is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        selectors.required(errors, why);
    }
    for selector in selectors.items() {
        form::selector(&selector, errors);
        if !form::is_usable(selector.value) {
            selector.invalid_as(errors, "null", "invalid label selector.");
        }
    }
}

fn policy_rule(at: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let empty = |field: &str| at.list(field).is_empty();
    if empty("verbs") {
        at.field("verbs").required(errors, "verbs must contain at least one value");
    }
    if !empty("nonResourceURLs") {
        let urls = at.field("nonResourceURLs");
        if namespaced {
            urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            urls.invalid(errors, why);
        }
        return;
    }
    if empty("apiGroups") {
        let why = "resource rules must supply at least one api group";
        at.field("apiGroups").required(errors, why);
    }
    if empty("resources") {
        let why = "resource rules must supply at least one resource";
        at.field("resources").required(errors, why);
    }
}

/// A binding in a namespace.
pub(super) fn role_binding(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    binding(old, at, &["Role", "ClusterRole"], true, errors);
}

/// A binding in the whole cluster.
pub(super) fn cluster_role_binding(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    binding(old, at, &["ClusterRole"], false, errors);
}

fn binding(
    old: Option<&Value>,
    at: &At<'_>,
    kinds: &[&str],
    namespaced: bool,
    errors: &mut Errors,
) {
    let role = at.field("roleRef");
    if role.text("apiGroup") != GROUP {
        role.field("apiGroup").not_supported(errors, &[GROUP]);
    }
    if !kinds.contains(&role.text("kind")) {
        role.field("kind").not_supported(errors, kinds);
    }
    match role.text("name") {
        "" => role.field("name").required(errors, ""),
        _ => role.field("name").must_be(errors, form::path_segment),
    }
    for one in at.field("subjects").items() {
        subject(&one, namespaced, errors);
    }
    let same = |old: &Value| {
        ["apiGroup", "kind", "name"].iter().all(|f| old["roleRef"][*f] == *role.get(f))
    };
    if old.is_some_and(|old| !same(old)) {
        let text = |field: &str| Value::from(role.text(field));
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            text("apiGroup"),
            text("kind"),
            text("name")
        );
        role.invalid_as(errors, &shown, "cannot change roleRef");
    }
}

fn subject(at: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (name, group) = (at.field("name"), at.field("apiGroup"));
    if name.as_text().is_empty() {
        name.required(errors, "");
    }
    match at.text("kind") {
        "ServiceAccount" => {
            if !name.as_text().is_empty() {
                name.must_be(errors, names::subdomain);
            }
            if !group.as_text().is_empty() {
                group.not_supported(errors, &[""]);
            }
            if !namespaced && at.text("namespace").is_empty() {
                at.field("namespace").required(errors, "");
            }
        }
        "User" | "Group" => {
            if group.as_text() != GROUP {
                group.not_supported(errors, &[GROUP]);
            }
        }
        _ => at.field("kind").not_supported(errors, &["ServiceAccount", "User", "Group"]),
    }
}
