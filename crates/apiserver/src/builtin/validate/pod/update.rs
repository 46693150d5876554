//! What an update of a pod may change.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::place::{At, Errors};
use super::scheduling;
use super::{at_any_time, metadata, trimmed_image};

/// What may change, as clients are told.
const MAY_CHANGE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// An update of a pod.
pub(in super::super) fn update(old: &Value, at: &At<'_>, errors: &mut Errors) {
    at_any_time(at, errors);
    let annotations = at.field("metadata");
    let annotations = annotations.field("annotations");
    metadata::kept(&old["metadata"]["annotations"], &annotations, errors);
    metadata::pod_annotations(&annotations, &at.field("spec"), errors);
    let (before, spec) = (&old["spec"], at.field("spec"));
    for list in ["containers", "initContainers"] {
        let count = before[list].as_array().map_or(0, Vec::len);
        let containers = spec.field(list);
        if spec.list(list).len() != count {
            return containers.forbidden(errors, "pod updates may not add or remove containers");
        }
        for container in containers.items() {
            if container.text("image").is_empty() {
                container.field("image").required(errors, "");
            }
            trimmed_image(&container, errors);
        }
    }
    deadline(before, &spec, errors);
    added_tolerations(before, &spec, errors);
    deleted_gates(before, &spec, errors);
    if before == spec.value {
        return;
    }
    let mut munged = spec.value.clone();
    forget_allowed(before, &mut munged);
    if before["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        gated(before, &spec, &mut munged, errors);
    }
    if &munged != before {
        let why = format!(
            "pod updates may not change fields other than {MAY_CHANGE}\n{}",
            difference(before, &munged)
        );
        spec.forbidden(errors, why);
    }
}

fn deadline(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let here = spec.field("activeDeadlineSeconds");
    let old = before["activeDeadlineSeconds"].as_i64();
    match (here.value.as_i64(), old) {
        (Some(new), old) => {
            if !(0..=i64::from(i32::MAX)).contains(&new) {
                here.invalid(errors, "must be between 0 and 2147483647, inclusive");
            }
            if old.is_some_and(|old| old < new) {
                here.invalid(errors, "must be less than or equal to previous value");
            }
        }
        (None, Some(_)) => {
            here.invalid(errors, "must not update from a positive integer to nil value");
        }
        (None, None) => {}
    }
}

fn added_tolerations(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let here = spec.field("tolerations");
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration.to_string()
    };
    let kept: BTreeSet<String> = spec.list("tolerations").iter().map(without_time).collect();
    for old in before["tolerations"].as_array().into_iter().flatten() {
        if !kept.contains(&without_time(old)) {
            let why = "existing toleration can not be modified except its tolerationSeconds";
            here.forbidden(errors, why);
        }
    }
    scheduling::tolerations(&here, errors);
}

fn deleted_gates(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let old = before["schedulingGates"].as_array().into_iter().flatten();
    let old: BTreeSet<&str> = old.filter_map(|gate| gate["name"].as_str()).collect();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.text("name");
        if !old.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            gate.field("name").forbidden(errors, why);
        }
    }
}

/// Makes what may change as it was.
fn forget_allowed(before: &Value, munged: &mut Value) {
    for list in ["containers", "initContainers"] {
        let containers = munged.get_mut(list).and_then(Value::as_array_mut);
        let old = before[list].as_array();
        for (new, old) in containers.into_iter().flatten().zip(old.into_iter().flatten()) {
            keep(old, new, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(before, munged, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if before[grace].as_i64().is_some_and(|seconds| seconds < 0) && munged[grace] == 1 {
        keep(before, munged, grace);
    }
}

fn keep(from: &Value, to: &mut Value, field: &str) {
    let Some(map) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// While something holds a pod back, it may be told more narrowly where to run.
fn gated(before: &Value, spec: &At<'_>, munged: &mut Value, errors: &mut Errors) {
    let old = before["nodeSelector"].as_object();
    let new = spec.map("nodeSelector");
    if old != new {
        let narrower =
            |(key, value): (&String, &Value)| new.and_then(|new| new.get(key)) == Some(value);
        if !old.into_iter().flatten().all(narrower) {
            let here = spec.field("nodeSelector");
            here.invalid(
                errors,
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            );
        }
        keep(before, munged, "nodeSelector");
    }
    let node = |spec: &Value| spec["affinity"]["nodeAffinity"].clone();
    let (old, new) = (node(before), node(munged));
    if old != new {
        let affinity = spec.field("affinity");
        node_affinity(&old, &affinity.field("nodeAffinity"), errors);
        keep_affinity(before, munged, old);
    }
}

fn keep_affinity(before: &Value, munged: &mut Value, old: Value) {
    let others = |affinity: &Value| {
        !affinity["podAffinity"].is_null() || !affinity["podAntiAffinity"].is_null()
    };
    if before["affinity"].is_null() && !others(&munged["affinity"]) {
        if let Some(map) = munged.as_object_mut() {
            map.remove("affinity");
        }
        return;
    }
    if munged["affinity"].is_null() {
        munged["affinity"] = Value::Object(Map::new());
    }
    match old {
        Value::Null => {
            if let Some(map) = munged["affinity"].as_object_mut() {
                map.remove("nodeAffinity");
            }
        }
        old => munged["affinity"]["nodeAffinity"] = old,
    }
}

fn node_affinity(old: &Value, at: &At<'_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const WHY: &str = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
    let Some(before) = old[REQUIRED]["nodeSelectorTerms"].as_array() else { return };
    let required = at.field(REQUIRED);
    let terms = required.field("nodeSelectorTerms");
    let after = required.list("nodeSelectorTerms");
    if before.len() != after.len() {
        return terms.invalid(errors, WHY);
    }
    for (term, old) in terms.items().zip(before) {
        let only_added = ["matchExpressions", "matchFields"].iter().all(|list| {
            let (old, new) = (old[*list].as_array(), term.list(list));
            old.into_iter().flatten().enumerate().all(|(n, one)| new.get(n) == Some(one))
        });
        let empty = old.as_object().is_none_or(Map::is_empty);
        if !only_added || empty && term.value != old {
            let why = "only additions are allowed (no mutations or deletions)";
            term.invalid(errors, why);
        }
    }
}

/// What changed, field by field. Upstream prints its own structs here; clients read the sentence
/// before.
fn difference(before: &Value, after: &Value) -> String {
    let (old, new) = (before.as_object(), after.as_object());
    let names = old.into_iter().chain(new).flat_map(|map| map.keys());
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    names.dedup();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let lines = changed.map(|name| {
        let shown = |of: &Value| of.get(name).map_or_else(|| "null".to_owned(), Value::to_string);
        format!("- {name}: {}\n+ {name}: {}", shown(before), shown(after))
    });
    lines.collect::<Vec<_>>().join("\n")
}
