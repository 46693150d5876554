//! Which objects a quota counts: all, or those of every scope that it names.

use serde_json::{Value, json};

use super::super::Object;
use super::usage::Counting;

/// Whether a quota counts an object.
pub(super) fn counts(quota: &Value, counting: Counting, object: &Object) -> bool {
    let null = Value::Null;
    let part = |name: &str| object.get(name).unwrap_or(&null);
    let (spec, status) = (part("spec"), part("status"));
    terms(quota).iter().all(|term| match counting {
        Counting::Pods => pod_is_of(term, spec),
        Counting::Claims => claim_is_of(term, spec, status),
        Counting::Services | Counting::Objects => false,
    })
}

fn terms(quota: &Value) -> Vec<Value> {
    let spec = &quota["spec"];
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let terms = scopes.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let more = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    terms.chain(more.cloned()).collect()
}

fn pod_is_of(term: &Value, spec: &Value) -> bool {
    let ends = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match term["scopeName"].as_str().unwrap_or_default() {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().unwrap_or_default();
            is_named(term, (!class.is_empty()).then_some(class))
        }
        "CrossNamespacePodAffinity" => looks_elsewhere(spec),
        _ => false,
    }
}

fn claim_is_of(term: &Value, spec: &Value, status: &Value) -> bool {
    if term["scopeName"] != "VolumeAttributesClass" {
        return false;
    }
    let names = [
        &spec["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let mut names =
        names.into_iter().filter_map(Value::as_str).filter(|n| !n.is_empty()).peekable();
    if names.peek().is_none() {
        return is_named(term, None);
    }
    names.any(|name| is_named(term, Some(name)))
}

/// Whether a name, or that there is none, is what a term asks for.
fn is_named(term: &Value, name: Option<&str>) -> bool {
    let among = || {
        let values = term["values"].as_array().into_iter().flatten();
        name.is_some_and(|name| values.clone().any(|value| value == name))
    };
    match term["operator"].as_str().unwrap_or_default() {
        "In" => among(),
        "NotIn" => !among(),
        "Exists" => name.is_some(),
        "DoesNotExist" => name.is_none(),
        _ => false,
    }
}

/// Whether no container asks for processor or memory, or is held to any.
fn is_best_effort(spec: &Value) -> bool {
    let quiet = |of: &Value| {
        ["requests", "limits"].iter().all(|side| {
            ["cpu", "memory"]
                .iter()
                .all(|name| of["resources"][side][name].as_str().is_none_or(|amount| amount == "0"))
        })
    };
    let containers = ["containers", "initContainers"].into_iter();
    let mut containers = containers.filter_map(|field| spec[field].as_array()).flatten();
    quiet(spec) && containers.all(quiet)
}

/// Whether a pod's wishes to be near others, or not, reach into other namespaces.
fn looks_elsewhere(spec: &Value) -> bool {
    let reaches = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
            || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &spec["affinity"][kind];
        let of = |field: &str| affinity[field].as_array().map_or(&[][..], Vec::as_slice);
        of("requiredDuringSchedulingIgnoredDuringExecution").iter().any(reaches)
            || of("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| reaches(&weighted["podAffinityTerm"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scopes: Value, selector: Value, pod: Value, want: bool) {
        let quota =
            json!({"spec": {"scopes": scopes, "scopeSelector": {"matchExpressions": selector}}});
        let pod = json!({"spec": pod});
        assert_eq!(counts(&quota, Counting::Pods, pod.as_object().unwrap()), want, "{quota} {pod}");
    }

    #[test]
    fn a_pod_is_counted_where_every_scope_is_its_own() {
        let asks = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        check(json!([]), json!([]), json!({}), true);
        check(json!(["BestEffort"]), json!([]), json!({}), true);
        check(json!(["BestEffort"]), json!([]), asks.clone(), false);
        check(json!(["NotBestEffort", "NotTerminating"]), json!([]), asks, true);
        check(json!(["Terminating"]), json!([]), json!({"activeDeadlineSeconds": 5}), true);
        let high = json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]);
        check(json!([]), high.clone(), json!({"priorityClassName": "high"}), true);
        check(json!([]), high.clone(), json!({"priorityClassName": "low"}), false);
        check(json!([]), high, json!({}), false);
        let none = json!([{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]);
        check(json!([]), none, json!({}), true);
        let away = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}}});
        check(json!(["CrossNamespacePodAffinity"]), json!([]), away, true);
    }
}
