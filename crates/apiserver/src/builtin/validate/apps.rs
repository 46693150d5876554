//! Controllers of pods: deployments, replica sets, stateful sets, daemon sets, replication
//! controllers and what they remember of themselves.

use std::collections::BTreeSet;

use serde_json::Value;

use super::claim;
use super::form;
use super::place::{At, Errors, push};
use super::pod;
use super::rule::NEGATIVE;
use crate::schema::names;

/// A number must not be below zero; absent is zero.
pub(super) fn not_negative(at: &At<'_>, name: &str, errors: &mut Errors) {
    if at.int(name).is_some_and(|n| n < 0) {
        at.field(name).invalid(errors, NEGATIVE);
    }
}

fn empty_selector(selector: &Value) -> bool {
    let empty = |field: &str| match &selector[field] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}

/// A selector that must choose something; told by the kind's own word.
fn needs_selector(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.field("selector");
    if selector.value.is_null() {
        return selector.required(errors, "");
    }
    form::selector(&selector, errors);
    if empty_selector(selector.value) {
        let shown = form::shown_selector(selector.value);
        selector.invalid_as(errors, &shown, &format!("empty selector is invalid for {kind}"));
    }
}

/// The selector chooses the template's own labels.
pub(super) fn selects_template(spec: &At<'_>, errors: &mut Errors) {
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    // No selector chooses nothing.
    if spec.get("selector").is_null() || !form::selects(spec.get("selector"), labels.value) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Pods of a controller are started again for ever.
fn always_restarts(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let template = spec.field("template");
    let pod = template.field("spec");
    if pod.text("restartPolicy") != "Always" {
        pod.field("restartPolicy").not_supported(errors, &["Always"]);
    }
    if pod.has("activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        pod.field("activeDeadlineSeconds").forbidden(errors, why);
    }
}

/// A field that no update changes.
fn immutable(old: Option<&Value>, spec: &At<'_>, field: &str, errors: &mut Errors) {
    let Some(old) = old else { return };
    if &old["spec"][field] != spec.get(field) {
        let shown = form::shown_selector(spec.get(field));
        spec.field(field).invalid_as(errors, &shown, "field is immutable");
    }
}

/// A count or a share.
pub(super) fn count_or_percent(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(_) => at.must_be(errors, form::percent),
        value => {
            if value.as_i64().is_some_and(|n| n < 0) {
                at.invalid(errors, NEGATIVE);
            }
        }
    }
}

fn percentage(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| form::percent(text).is_empty())?;
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

fn count(value: &Value) -> i64 {
    percentage(value)
        .or_else(|| value.as_i64())
        .unwrap_or_else(|| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// No share is more than all.
pub(super) fn at_most_all(at: &At<'_>, errors: &mut Errors) {
    if percentage(at.value).is_some_and(|share| share > 100) {
        at.invalid(errors, "must not be greater than 100%");
    }
}

/// A deployment.
pub(super) fn deployment(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    not_negative(&spec, "replicas", errors);
    needs_selector(&spec, "deployment", errors);
    template_for_selector(&spec, "ReplicaSet", errors);
    deployment_strategy(&spec.field("strategy"), errors);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(&spec, field, errors);
    }
    let ready = spec.int("minReadySeconds").unwrap_or(0);
    if spec.int("progressDeadlineSeconds").is_some_and(|deadline| deadline <= ready) {
        let why = "must be greater than minReadySeconds";
        spec.field("progressDeadlineSeconds").invalid(errors, why);
    }
    immutable(old, &spec, "selector", errors);
}

fn template_for_selector(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    if !form::is_usable(spec.get("selector")) {
        let shown = form::shown_selector(spec.get("selector"));
        return spec.field("selector").invalid_as(errors, &shown, "invalid label selector");
    }
    if spec.get("selector").is_null() || !empty_selector(spec.get("selector")) {
        selects_template(spec, errors);
    }
    pod::template(&spec.field("template"), errors);
    always_restarts(spec, kind, errors);
}

/// A strategy as upstream's own form of it prints.
fn shown_strategy(strategy: &Value) -> String {
    let rolling = match &strategy["rollingUpdate"] {
        Value::Null => "null".to_owned(),
        rolling => format!(
            "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
            rolling["maxUnavailable"], rolling["maxSurge"]
        ),
    };
    format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", strategy["type"])
}

fn unknown_strategy(at: &At<'_>, known: &[&str], errors: &mut Errors) {
    use crate::schema::field::{ErrorKind, FieldError};
    let list: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
    let why = format!("{}: supported values: {}", shown_strategy(at.value), list.join(", "));
    push(errors, FieldError::new(ErrorKind::NotSupported, at.path(), None, &why));
}

fn deployment_strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    match at.text("type") {
        "Recreate" if !rolling.value.is_null() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            rolling.forbidden(errors, why);
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.value.is_null() => {
            rolling.required(errors, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (down, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            count_or_percent(&down, errors);
            count_or_percent(&surge, errors);
            if count(down.value) == 0 && count(surge.value) == 0 {
                down.invalid(errors, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&down, errors);
        }
        _ => unknown_strategy(at, &["Recreate", "RollingUpdate"], errors),
    }
}

/// A replica set.
pub(super) fn replica_set(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    not_negative(&spec, "replicas", errors);
    not_negative(&spec, "minReadySeconds", errors);
    needs_selector(&spec, "deployment", errors);
    template_for_selector(&spec, "ReplicaSet", errors);
    immutable(old, &spec, "selector", errors);
}

/// A replication controller, whose selector is a map.
pub(super) fn replication_controller(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    not_negative(&spec, "minReadySeconds", errors);
    let selector = spec.map("selector").filter(|map| !map.is_empty());
    if selector.is_none() {
        spec.field("selector").required(errors, "");
    }
    not_negative(&spec, "replicas", errors);
    let template = spec.field("template");
    if template.value.is_null() {
        return template.required(errors, "");
    }
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let chosen = |(key, value): (&String, &Value)| labels.get(key) == value;
    if !selector.into_iter().flatten().all(chosen) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
    pod::template(&template, errors);
    always_restarts(&spec, "ReplicationController", errors);
}

/// A daemon set.
pub(super) fn daemon_set(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    immutable(old, &spec, "selector", errors);
    form::selector(&spec.field("selector"), errors);
    if form::is_usable(spec.get("selector"))
        && (spec.get("selector").is_null()
            || !form::selects(spec.get("selector"), &spec.get("template")["metadata"]["labels"]))
    {
        let template = spec.field("template");
        let metadata = template.field("metadata");
        metadata.field("labels").invalid(errors, "`selector` does not match template `labels`");
    }
    if spec.has("selector") && empty_selector(spec.get("selector")) {
        let why = "empty selector is invalid for daemonset";
        spec.field("selector").invalid_as(errors, "{}", why);
    }
    pod::template(&spec.field("template"), errors);
    always_restarts(&spec, "DaemonSet", errors);
    not_negative(&spec, "minReadySeconds", errors);
    daemon_strategy(&spec.field("updateStrategy"), errors);
    not_negative(&spec, "revisionHistoryLimit", errors);
}

fn daemon_strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    match at.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.value.is_null() => rolling.required(errors, ""),
        "RollingUpdate" => {
            let (down, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for one in [&down, &surge] {
                count_or_percent(one, errors);
            }
            for one in [&down, &surge] {
                at_most_all(one, errors);
            }
            match (count(down.value) != 0, count(surge.value) != 0) {
                (true, true) => {
                    surge.invalid(errors, "may not be set when maxUnavailable is non-zero")
                }
                (false, false) => down.required(errors, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => unknown_strategy(at, &["RollingUpdate", "OnDelete"], errors),
    }
}

/// A stateful set.
pub(super) fn stateful_set(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    let management = spec.field("podManagementPolicy");
    match management.as_text() {
        "" => management.required(errors, ""),
        "OrderedReady" | "Parallel" => {}
        _ => management.invalid(errors, "must be 'OrderedReady' or 'Parallel'"),
    }
    stateful_strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"].iter().filter(|_| !retention.value.is_null()) {
        if !["Retain", "Delete"].contains(&retention.text(field)) {
            retention.field(field).not_supported(errors, &["Retain", "Delete"]);
        }
    }
    if old.is_none() {
        for template in spec.field("volumeClaimTemplates").items() {
            claim::spec(&template.field("spec"), errors);
        }
    }
    for field in ["replicas", "minReadySeconds"] {
        not_negative(&spec, field, errors);
    }
    if spec.get("ordinals")["start"].as_i64().is_some_and(|start| start < 0) {
        spec.with("ordinals.start", &spec.get("ordinals")["start"]).invalid(errors, NEGATIVE);
    }
    if old.is_none() && !spec.text("serviceName").is_empty() {
        spec.field("serviceName").must_be(errors, names::label);
    }
    needs_selector(&spec, "statefulset", errors);
    if form::is_usable(spec.get("selector")) {
        stateful_template(&spec, errors);
    } else {
        let shown = form::shown_selector(spec.get("selector"));
        spec.field("selector").invalid_as(errors, &shown, "");
    }
    always_restarts(&spec, "StatefulSet", errors);
    if let Some(old) = old {
        stateful_update(&old["spec"], &spec, errors);
    }
}

/// The template with the volumes that each pod's claims make.
fn stateful_template(spec: &At<'_>, errors: &mut Errors) {
    if spec.get("selector").is_null() || !empty_selector(spec.get("selector")) {
        selects_template(spec, errors);
    }
    let mut template = spec.get("template").clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        let claims = spec.list("volumeClaimTemplates");
        let names = claims.iter().filter_map(|claim| claim["metadata"]["name"].as_str());
        let names: BTreeSet<&str> = names.collect();
        if !names.is_empty() {
            let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
            let made = names.iter().map(|name| {
                serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
            });
            let is_made =
                |volume: &Value| volume["name"].as_str().is_some_and(|n| names.contains(n));
            let rest = own.into_iter().filter(|volume| !is_made(volume));
            let volumes: Vec<Value> = made.chain(rest).collect();
            pod.insert("volumes".to_owned(), volumes.into());
        }
    }
    let here = spec.with("template", &template);
    pod::template(&here, errors);
    // Upstream asks once more for the template's own metadata.
    let metadata = here.field("metadata");
    form::labels(&here.with("labels", metadata.get("labels")), errors);
}

fn stateful_strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    let shown = |rolling: &Value| {
        format!(
            "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
            rolling["partition"].as_i64().unwrap_or(0),
            rolling["maxUnavailable"]
        )
    };
    match at.text("type") {
        "" => at.required(errors, ""),
        "OnDelete" if !rolling.value.is_null() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            rolling.invalid_as(errors, &shown(rolling.value), why);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            not_negative(&rolling, "partition", errors);
            let down = rolling.field("maxUnavailable");
            if !down.value.is_null() {
                count_or_percent(&down, errors);
                if count(down.value) == 0 {
                    down.invalid(errors, "cannot be 0");
                }
                at_most_all(&down, errors);
            }
        }
        _ => {
            let inner = if rolling.value.is_null() { "null".into() } else { shown(rolling.value) };
            let whole = format!("{{\"Type\":{},\"RollingUpdate\":{inner}}}", at.get("type"));
            at.invalid_as(errors, &whole, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn stateful_update(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    const MAY_CHANGE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| !MAY_CHANGE.contains(&name.as_str()));
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if fixed(before) != fixed(spec.value) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                   'template', 'updateStrategy', 'revisionHistoryLimit', \
                   'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        spec.forbidden(errors, why);
    }
}

/// What a controller remembers of an earlier self.
pub(super) fn controller_revision(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    not_negative(at, "revision", errors);
    match (old, at.get("data")) {
        (None, Value::Null) => at.field("data").required(errors, "data is mandatory"),
        (None, Value::Object(_)) => {}
        (None, _) => at.field("data").required(errors, "data must be a valid JSON object"),
        (Some(old), data) if &old["data"] != data => {
            at.field("data").invalid(errors, "field is immutable");
        }
        _ => {}
    }
}

/// A pod template on its own.
pub(super) fn pod_template(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    pod::template(&at.field("template"), errors);
}

/// How a controller's counts relate: the counts that are not negative, then which may not be more
/// than which.
struct Counts {
    counted: &'static [&'static str],
    at_most_replicas: &'static [&'static str],
    ready: &'static str,
    collisions: bool,
}

const READY: &str = "cannot be greater than readyReplicas";

static DEPLOYMENT: Counts = Counts {
    counted: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    at_most_replicas: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: READY,
    collisions: true,
};

static REPLICA_SET: Counts = Counts {
    counted: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    at_most_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: READY,
    collisions: false,
};

static STATEFUL_SET: Counts = Counts {
    counted: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    at_most_replicas: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "cannot be greater than status.readyReplicas",
    collisions: true,
};

static DAEMON_SET: Counts = Counts {
    counted: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    at_most_replicas: &[],
    ready: READY,
    collisions: true,
};

fn counts(of: &Counts, old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    for name in of.counted {
        not_negative(&status, name, errors);
    }
    let count = |name: &str| status.int(name).unwrap_or(0);
    for name in of.at_most_replicas {
        if count(name) > count("replicas") {
            let why = "cannot be greater than status.replicas";
            status.field(name).invalid_value(errors, count(name), why);
        }
    }
    if !of.at_most_replicas.is_empty() && count("availableReplicas") > count("readyReplicas") {
        status.field("availableReplicas").invalid(errors, of.ready);
    }
    let before = old.and_then(|old| old["status"]["collisionCount"].as_i64());
    if of.collisions && before.is_some_and(|before| count("collisionCount") < before) {
        let shown = count("collisionCount");
        status.field("collisionCount").invalid_value(errors, shown, "cannot be decremented");
    }
}

/// A deployment's status.
pub(super) fn deployment_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    counts(&DEPLOYMENT, old, at, errors);
}

/// The status of a replica set or replication controller.
pub(super) fn replica_set_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    counts(&REPLICA_SET, old, at, errors);
}

/// A stateful set's status.
pub(super) fn stateful_set_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    counts(&STATEFUL_SET, old, at, errors);
}

/// A daemon set's status.
pub(super) fn daemon_set_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    counts(&DAEMON_SET, old, at, errors);
}
