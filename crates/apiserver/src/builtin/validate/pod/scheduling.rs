//! What a pod says about where it may run: affinity, tolerations, spread, claims.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::form;
use super::super::place::{At, Errors, push};
use super::super::rule::Rule::{Each, On, Own, Sub};
use super::super::rule::{self, Context, Rules};
use crate::schema::field::FieldError;
use crate::schema::names;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A term of a node selector in which label values must be right.
static NODE_SELECTOR_TERM: Rules = &[
    Each("matchExpressions", &[Own(|at, _, errors| expression(at, true, errors))]),
    Each("matchFields", &[Own(field_expression)]),
];

static PREFERENCE: Rules = &[
    Each("matchExpressions", &[Own(|at, _, errors| expression(at, false, errors))]),
    Each("matchFields", &[Own(field_expression)]),
];

static PREFERRED_NODES: Rules = &[Own(weight), Sub("preference", PREFERENCE)];

static NODE_AFFINITY: Rules =
    &[Sub(REQUIRED, &[Own(node_selector)]), Each(PREFERRED, PREFERRED_NODES)];

static POD_AFFINITY: Rules = &[
    Each(REQUIRED, &[Own(pod_term)]),
    Each(PREFERRED, &[Own(weight), On("podAffinityTerm", pod_term)]),
];

static AFFINITY: Rules = &[
    Sub("nodeAffinity", NODE_AFFINITY),
    Sub("podAffinity", POD_AFFINITY),
    Sub("podAntiAffinity", POD_AFFINITY),
];

/// A pod's affinity; `at` is the spec.
pub(super) fn affinity(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if at.has("affinity") {
        rule::check(AFFINITY, &at.field("affinity"), context, errors);
    }
}

fn weight(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let weight = at.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        at.field("weight").invalid_value(errors, weight, "must be in the range 1-100");
    }
}

/// A node selector has terms.
pub(in super::super) fn node_selector(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if at.list("nodeSelectorTerms").is_empty() {
        let why = "must have at least one node selector term";
        return at.field("nodeSelectorTerms").required(errors, why);
    }
    for term in at.field("nodeSelectorTerms").items() {
        rule::check(NODE_SELECTOR_TERM, &term, context, errors);
    }
}

fn expression(at: &At<'_>, strict: bool, errors: &mut Errors) {
    let values = at.field("values");
    let count = at.list("values").len();
    match at.text("operator") {
        "In" | "NotIn" if count == 0 => {
            values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            values.forbidden(errors, why);
        }
        "Gt" | "Lt" if count != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            values.required(errors, why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            let why = "not a valid selector operator";
            at.field("operator").invalid_value(errors, other, why);
        }
    }
    at.field("key").must_be(errors, names::qualified);
    for value in values.items().filter(|_| strict) {
        value.must_be(errors, names::label_value);
    }
}

fn field_expression(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    match at.text("operator") {
        "In" | "NotIn" => {
            if at.list("values").len() != 1 {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node \
                           field selector";
                at.field("values").required(errors, why);
            }
        }
        other => {
            let why = "not a valid selector operator";
            at.field("operator").invalid_value(errors, other, why);
        }
    }
    if at.text("key") == "metadata.name" {
        for value in at.field("values").items() {
            value.must_be(errors, names::subdomain);
        }
    } else {
        let why = "not a valid field selector key";
        at.field("key").invalid_value(errors, at.text("key"), why);
    }
}

fn pod_term(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        form::selector(&at.field(name), errors);
    }
    for namespace in at.field("namespaces").items() {
        for why in names::label(namespace.as_text()) {
            at.field("namespace").invalid_value(errors, namespace.as_text(), why);
        }
    }
    label_keys(at, "mismatchLabelKeys", errors);
    let key = at.field("topologyKey");
    if key.as_text().is_empty() {
        key.required(errors, "can not be empty");
    }
    key.must_be(errors, names::qualified);
}

/// Keys whose values are taken from the pod itself.
fn label_keys(at: &At<'_>, mismatch: &str, errors: &mut Errors) {
    let selector = at.field("labelSelector");
    for name in ["matchLabelKeys", mismatch] {
        let keys = at.field(name);
        if at.list(name).is_empty() {
            continue;
        }
        if selector.value.is_null() {
            keys.forbidden(errors, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.items() {
            key.must_be(errors, names::qualified);
        }
    }
    let labels = selector.map("matchLabels").into_iter().flat_map(|map| map.keys());
    let mut known: BTreeSet<&str> = labels.map(String::as_str).collect();
    let match_keys: BTreeMap<&str, usize> = at
        .list("matchLabelKeys")
        .iter()
        .enumerate()
        .filter_map(|(n, key)| Some((key.as_str()?, n)))
        .collect();
    for one in selector.list("matchExpressions") {
        let key = one["key"].as_str().unwrap_or_default();
        let place = match_keys.get(key);
        if let Some(n) = place.filter(|_| known.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            at.index(*n).invalid_value(errors, key, why);
        }
        known.insert(key);
    }
    let others: BTreeSet<&str> = at.list(mismatch).iter().filter_map(Value::as_str).collect();
    let keys = at.field("matchLabelKeys");
    for key in keys.items().filter(|key| others.contains(key.as_text())) {
        key.invalid(errors, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Tolerations of a pod, or of what a runtime class adds.
pub(in super::super) fn tolerations(at: &At<'_>, errors: &mut Errors) {
    for one in at.items() {
        let (key, operator) = (one.text("key"), one.field("operator"));
        let value = one.text("value");
        if key.is_empty() && operator.as_text() != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
            operator.invalid_value(errors, operator.as_text(), why);
        } else if !key.is_empty() {
            one.field("key").must_be(errors, names::qualified);
        }
        if one.has("tolerationSeconds") && one.text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            one.field("effect").invalid_value(errors, one.text("effect"), why);
        }
        match operator.as_text() {
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    operator.invalid_value(errors, value, wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                operator.invalid_value(errors, value, why);
            }
            "Exists" => {}
            "Lt" | "Gt" => operator.not_supported(errors, &["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.not_supported(errors, &["Equal", "Exists"]),
        }
        let effect = one.field("effect");
        if !effect.as_text().is_empty() && !EFFECTS.contains(&effect.as_text()) {
            effect.not_supported(errors, EFFECTS);
        }
    }
}

/// A key that says what counts as one place.
fn topology_key(at: &At<'_>, errors: &mut Errors) {
    if at.as_text().is_empty() {
        at.required(errors, "can not be empty");
    }
}

/// How pods are spread.
pub(super) fn spread(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let all = at.value.as_array().map_or(&[][..], Vec::as_slice);
    let text = |one: &'_ Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let last: BTreeMap<(String, String), usize> = all
        .iter()
        .enumerate()
        .map(|(n, one)| ((text(one, "topologyKey"), text(one, "whenUnsatisfiable")), n))
        .collect();
    for (n, one) in at.items().enumerate() {
        let skew = one.int("maxSkew").unwrap_or(0);
        if skew <= 0 {
            one.field("maxSkew").invalid_value(errors, skew, "must be greater than zero");
        }
        topology_key(&one.field("topologyKey"), errors);
        let action = one.text("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            let at = one.field("whenUnsatisfiable").path();
            push(errors, FieldError::not_supported(at, action, &supported));
        }
        let key = (one.text("topologyKey").to_owned(), action.to_owned());
        if last.get(&key).is_some_and(|last| *last > n) {
            let shown = format!("{{{}, {action}}}", one.text("topologyKey"));
            one.with("{topologyKey, whenUnsatisfiable}", &Value::Null).duplicate(errors, shown);
        }
        if let Some(least) = one.int("minDomains") {
            let here = one.field("minDomains");
            if least <= 0 {
                here.invalid(errors, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                here.invalid(errors, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = one.field(field);
            if !policy.value.is_null() && !["Honor", "Ignore"].contains(&policy.as_text()) {
                policy.not_supported(errors, &["Honor", "Ignore"]);
            }
        }
        label_keys(&one, "mismatchLabelKeys", errors);
        form::selector(&one.field("labelSelector"), errors);
    }
}

/// A pod's claims: named once, and each made or taken from a template.
pub(super) fn claims(at: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in at.items() {
        let name = claim.text("name");
        if name.is_empty() {
            claim.field("name").required(errors, "");
        } else if seen.contains(name) {
            claim.field("name").duplicate(errors, name);
        } else {
            claim.field("name").must_be(errors, names::label);
            seen.insert(name.to_owned());
        }
        let (own, template) =
            (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        let shown = format!(
            "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
            Value::from(name),
            own.value,
            template.value
        );
        match (own.value.is_null(), template.value.is_null()) {
            (false, false) => claim.invalid_as(
                errors,
                &shown,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (true, true) => claim.invalid_as(
                errors,
                &shown,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for here in [own, template].into_iter().filter(|here| !here.value.is_null()) {
            here.must_be(errors, names::subdomain);
        }
    }
}
