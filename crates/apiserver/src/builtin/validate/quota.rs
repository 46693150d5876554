//! Quotas: the resources that they may bound, and the scopes of what they count.

use std::collections::BTreeSet;

use serde_json::Value;

use super::amount;
use super::place::{At, Errors};

/// Resources that quotas know without a domain.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// What pods of a scope may be bounded in.
const OF_PODS: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// Scopes that are there or not, without values.
const PLAIN: &[&str] =
    &["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];

const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// A quota.
pub(super) fn quota(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    amounts(&spec.field("hard"), errors);
    scopes(&spec, errors);
    if spec.has("scopeSelector") {
        selector(&spec, errors);
    }
    let Some(old) = old else { return };
    let set = |spec: &Value| -> BTreeSet<String> {
        let scopes = spec["scopes"].as_array().into_iter().flatten();
        scopes.filter_map(|scope| scope.as_str().map(str::to_owned)).collect()
    };
    if set(&old["spec"]) != set(spec.value) {
        spec.field("scopes").invalid(errors, "field is immutable");
    }
}

/// What a quota says of its use.
pub(super) fn quota_status(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    amounts(&status.field("hard"), errors);
    amounts(&status.field("used"), errors);
}

fn amounts(at: &At<'_>, errors: &mut Errors) {
    for name in at.value.as_object().into_iter().flat_map(|map| map.keys()) {
        let here = at.key(name);
        amount::resource_name(name, &here, errors);
        if !name.contains('/') && !is_standard(name) {
            here.invalid_value(errors, name.as_str(), "must be a standard resource for quota");
        }
        amount::quantity(name, &here, errors);
    }
}

fn is_standard(name: &str) -> bool {
    let pages = name.strip_prefix("requests.").unwrap_or(name);
    STANDARD.contains(&name) || pages.starts_with("hugepages-")
}

/// Whether a scope and a bound on a resource that upstream knows make sense together.
fn fits(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => OF_CLAIMS.contains(&name),
        "PriorityClass" => OF_PODS.contains(&name),
        scope if PLAIN.contains(&scope) => OF_PODS.contains(&name),
        _ => true,
    }
}

fn is_scope(name: &str) -> bool {
    PLAIN.contains(&name) || matches!(name, "PriorityClass" | "VolumeAttributesClass")
}

/// The bounded resources that a scope does not go with.
fn misfits<'a>(spec: &At<'a>, scope: &'a str) -> impl Iterator<Item = &'a String> {
    let names = spec.map("hard").into_iter().flat_map(|map| map.keys());
    names.filter(move |name| is_standard(name) && !fits(scope, name))
}

fn conflicts(found: &[&str]) -> usize {
    PAIRS.iter().filter(|pair| pair.iter().all(|scope| found.contains(scope))).count()
}

fn scopes(spec: &At<'_>, errors: &mut Errors) {
    let here = spec.field("scopes");
    let found: Vec<&str> = spec.list("scopes").iter().filter_map(Value::as_str).collect();
    for scope in &found {
        if !is_scope(scope) {
            here.invalid(errors, "unsupported scope");
        }
        for _ in misfits(spec, scope) {
            here.invalid(errors, "unsupported scope applied to resource");
        }
    }
    for _ in 0..conflicts(&found) {
        here.invalid(errors, "conflicting scopes");
    }
}

fn selector(spec: &At<'_>, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let here = selector.field("matchExpressions");
    let mut found = Vec::new();
    for term in here.items() {
        let (scope, operator) = (term.text("scopeName"), term.text("operator"));
        let values = term.list("values");
        if !is_scope(scope) {
            here.field("scopeName").invalid_value(errors, scope, "unsupported scope");
        }
        for _ in misfits(spec, scope) {
            let why = "unsupported scope applied to resource";
            here.invalid_value(errors, selector.value.clone(), why);
        }
        if PLAIN.contains(&scope) && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                       ResourceQuotaScopeNotBestEffort or \
                       ResourceQuotaScopeCrossNamespacePodAffinity";
            here.field("operator").invalid_value(errors, operator, why);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => here.field("values").required(
                errors,
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => here.field("values").invalid_value(
                errors,
                values.to_vec(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                here.field("operator").invalid_value(errors, other, why);
            }
        }
        found.push(scope);
    }
    for _ in 0..conflicts(&found) {
        // The scopes that are shown are those of the other list, as upstream does.
        here.invalid_value(errors, spec.get("scopes").clone(), "conflicting scopes");
    }
}

/// What whoever makes a quota is warned of.
pub(super) fn warnings(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let hard = spec.field("hard");
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request, limit) = (format!("requests.{name}"), format!("limits.{name}"));
        if !hard.has(&request) && matches!(name, "cpu" | "memory") {
            name.clone_into(&mut request);
        }
        let (asked, most) = (hard.text(&request), hard.text(&limit));
        if hard.has(&request) && hard.has(&limit) && amount::nanos(asked) > amount::nanos(most) {
            warnings.push(format!(
                "ResourceQuota {request} ({asked}) should be less than {limit} ({most})"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn find(spec: Value, want: &[&str]) {
        let mut errors = Vec::new();
        quota(None, &At::root(&json!({"spec": spec})), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), want.len(), "{errors:?}");
        for (error, want) in errors.iter().zip(want) {
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn quotas_bound_what_can_be_counted() {
        let hard = json!({"pods": "1", "requests.nvidia.com/gpu": "8", "count/a.b": "2", "requests.hugepages-2Mi": "1Gi"});
        find(json!({"hard": hard}), &[]);
        find(json!({"hard": {"pods": "-1"}}), &["greater than or equal to 0"]);
        find(json!({"hard": {"pods": "1500m"}}), &["must be an integer"]);
        find(json!({"hard": {"storage": "1"}}), &["must be a standard resource for quota"]);
        find(json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}), &["applied to resource"]);
        find(json!({"scopes": ["Terminating", "NotTerminating"]}), &["conflicting scopes"]);
        find(json!({"scopes": ["Big"]}), &["unsupported scope"]);
        let terms = json!([{"scopeName": "PriorityClass", "operator": "In"}]);
        find(json!({"scopeSelector": {"matchExpressions": terms}}), &["at least one value"]);
        let terms = json!([{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]);
        find(json!({"scopeSelector": {"matchExpressions": terms}}), &["must be 'Exists'"]);
    }
}
