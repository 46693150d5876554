//! Horizontal pod autoscalers.

use serde_json::Value;

use super::amount;
use super::apps::not_negative;
use super::form;
use super::place::{At, Errors};
use crate::schema::names;

const SOURCES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// An autoscaler.
pub(super) fn autoscaler(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    let least = spec.int("minReplicas");
    let most = spec.int("maxReplicas").unwrap_or(0);
    if least.is_some_and(|n| n < 1) {
        spec.field("minReplicas").invalid(errors, "must be greater than or equal to 1");
    }
    let highest = spec.field("maxReplicas");
    if most < 1 {
        highest.invalid_value(errors, most, "must be greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        highest.invalid_value(errors, most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    reference(&target, errors);
    let kept = old.is_some_and(|old| &old["spec"]["scaleTargetRef"] == target.value);
    if !kept && !target.text("apiVersion").contains('/') {
        let why = "apiVersion must specify API group";
        target.field("apiVersion").invalid_value(errors, target.text("apiVersion"), why);
    }
    for one in spec.field("metrics").items() {
        metric(&one, errors);
    }
    let outside = |one: &Value| one["type"] == "Object" || one["type"] == "External";
    if least == Some(0) && !spec.list("metrics").iter().any(outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero \
                   replicas";
        spec.field("metrics").forbidden(errors, why);
    }
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if behavior.has(direction) {
            scaling_rules(&behavior.field(direction), errors);
        }
    }
}

fn reference(at: &At<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        match at.text(field) {
            "" => at.field(field).required(errors, ""),
            _ => at.field(field).must_be(errors, form::path_segment),
        }
    }
    let version = at.text("apiVersion");
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        at.field("apiVersion").invalid(errors, why);
    }
}

/// The kinds of metrics: their field, and what `type` calls them, in upstream's order.
const KINDS: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

fn metric(at: &At<'_>, errors: &mut Errors) {
    let kind = at.field("type");
    if kind.as_text().is_empty() {
        kind.required(errors, "must specify a metric source type");
    }
    if !SOURCES.contains(&kind.as_text()) {
        kind.not_supported(errors, SOURCES);
    }
    let present: Vec<&str> = KINDS.iter().map(|(f, _)| *f).filter(|f| at.has(f)).collect();
    if let Some(first) = present.first() {
        source(first, &at.field(first), errors);
    }
    let expected = KINDS.iter().find(|(_, name)| *name == kind.as_text()).map(|(field, _)| *field);
    match expected {
        None => kind.not_supported(errors, SOURCES),
        Some(field) if !at.has(field) => {
            let why = "must populate information for the given metric source";
            at.field(field).required(errors, why);
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            at.field(field).forbidden(errors, "must populate the given metric source only");
        }
    }
}

fn source(kind: &str, at: &At<'_>, errors: &mut Errors) {
    let target = at.field("target");
    if kind == "object" {
        reference(&at.field("describedObject"), errors);
    }
    if matches!(kind, "object" | "external" | "pods") {
        let metric = at.field("metric");
        match metric.text("name") {
            "" => metric.field("name").required(errors, "must specify a metric name"),
            _ => metric.field("name").must_be(errors, form::path_segment),
        }
    } else if at.text("name").is_empty() {
        at.field("name").required(errors, "must specify a resource name");
    } else if kind == "containerResource" {
        amount::container_resource(at.text("name"), &at.field("name"), errors);
    }
    if kind == "containerResource" {
        match at.text("container") {
            "" => at.field("container").required(errors, "must specify a container"),
            _ => at.field("container").must_be(errors, names::label),
        }
    }
    metric_target(&target, errors);
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let share = target.has("averageUtilization");
    match kind {
        "object" if !value && !average => {
            let why = "must set either a target value or averageValue";
            target.field("averageValue").required(errors, why);
        }
        "external" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            target.field("averageValue").required(errors, why);
        }
        "external" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            target.field("value").forbidden(errors, why);
        }
        "pods" if !average => {
            let why = "must specify a positive target averageValue";
            target.field("averageValue").required(errors, why);
        }
        "resource" | "containerResource" if !share && !average => {
            let why = "must set either a target raw value or a target utilization";
            target.field("averageUtilization").required(errors, why);
        }
        "resource" | "containerResource" if share && average => {
            let why = "may not set both a target raw value and a target utilization";
            target.field("averageValue").forbidden(errors, why);
        }
        _ => {}
    }
}

fn metric_target(at: &At<'_>, errors: &mut Errors) {
    let kind = at.field("type");
    if kind.as_text().is_empty() {
        kind.required(errors, "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.as_text()) {
        let why = "must be either Utilization, Value, or AverageValue";
        kind.invalid_value(errors, kind.as_text(), why);
    }
    for field in ["value", "averageValue"] {
        if at.has(field) && amount::nanos(at.text(field)) <= 0 {
            at.field(field).invalid(errors, "must be positive");
        }
    }
    if at.int("averageUtilization").is_some_and(|share| share < 1) {
        at.field("averageUtilization").invalid(errors, "must be greater than 0");
    }
}

fn scaling_rules(at: &At<'_>, errors: &mut Errors) {
    const WINDOW: i64 = 3600;
    const PERIOD: i64 = 1800;
    let window = at.field("stabilizationWindowSeconds");
    match window.value.as_i64() {
        Some(n) if n < 0 => window.invalid(errors, "must be greater than or equal to zero"),
        Some(n) if n > WINDOW => {
            window.invalid(errors, format!("must be less than or equal to {WINDOW}"));
        }
        _ => {}
    }
    let select = at.field("selectPolicy");
    if !select.value.is_null() && !["Disabled", "Max", "Min"].contains(&select.as_text()) {
        select.not_supported(errors, &["Disabled", "Max", "Min"]);
    }
    if at.list("policies").is_empty() {
        at.field("policies").required(errors, "must specify at least one Policy");
    }
    for policy in at.field("policies").items() {
        if !["Pods", "Percent"].contains(&policy.text("type")) {
            policy.field("type").not_supported(errors, &["Percent", "Pods"]);
        }
        for field in ["value", "periodSeconds"] {
            let number = policy.int(field).unwrap_or(0);
            if number <= 0 {
                policy.field(field).invalid_value(errors, number, "must be greater than zero");
            }
        }
        if policy.int("periodSeconds").is_some_and(|seconds| seconds > PERIOD) {
            let why = format!("must be less than or equal to {PERIOD}");
            policy.field("periodSeconds").invalid(errors, why);
        }
    }
    if amount::nanos(at.text("tolerance")) < 0 {
        at.field("tolerance").invalid(errors, super::rule::NEGATIVE);
    }
}

/// An autoscaler's status.
pub(super) fn autoscaler_status(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    for field in ["currentReplicas", "desiredReplicas"] {
        not_negative(&status, field, errors);
    }
}
