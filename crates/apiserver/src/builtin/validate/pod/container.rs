//! Containers: names, ports, variables, mounts and what they ask for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::amount;
use super::super::form;
use super::super::place::{At, Errors, push};
use super::super::rule::Rule::{Named, On, OneOf, Own, Port, Required, Sub};
use super::super::rule::{self, Context, Rules};
use super::{probe, security, volume};
use crate::schema::names;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// What every container must hold.
static CONTAINER: Rules = &[
    Named("name", names::label),
    Required("image"),
    OneOf("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    On("ports", ports),
    On("env", variables),
    On("envFrom", sources),
    Own(volume::mounts),
    Own(volume::devices),
    OneOf("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    Sub("resources", &[Own(amount::requirements)]),
    On("resizePolicy", resize_policy),
    Sub("securityContext", &[Own(security::container)]),
];

/// A port of a container, without its name, which must be its own.
static PORT: Rules = &[Own(container_port), Port("hostPort"), OneOf("protocol", PROTOCOLS)];

/// What a container says about ports on the host.
const HOST_PORTS: &str = "hostPort";

/// Fields that a container for debugging cannot have, in Go's order.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// All containers of a pod.
pub(super) fn containers(spec: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    main(&spec.field("containers"), context, &mut names, errors);
    init(&spec.field("initContainers"), context, &mut names, errors);
    ephemeral(&spec.field("ephemeralContainers"), context, &mut names, errors);
}

fn main<'a>(
    at: &At<'a>,
    context: &Context<'_>,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let list = at.value.as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        return at.required(errors, "");
    }
    for (container, value) in at.items().zip(list) {
        rule::check(CONTAINER, &container, context, errors);
        let name = value["name"].as_str().unwrap_or_default();
        if !names.insert(name) {
            container.field("name").duplicate(errors, name);
        }
        probe::lifecycle(&container.field("lifecycle"), context, errors);
        probe::probes(&container, context, errors);
        restart(&container, errors);
    }
    host_ports(at, at.items(), errors);
}

fn init<'a>(
    at: &At<'a>,
    context: &Context<'_>,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let list = at.value.as_array().map_or(&[][..], Vec::as_slice);
    for (container, value) in at.items().zip(list) {
        rule::check(CONTAINER, &container, context, errors);
        let sidecar = container.text("restartPolicy") == "Always";
        let rules = container.list("restartPolicyRules");
        if !container.has("restartPolicy") {
            if !rules.is_empty() {
                let why = "must specify restartPolicy when restart rules are used";
                container.field("restartPolicy").required(errors, why);
            }
        } else if !sidecar {
            restart(&container, errors);
        } else if !rules.is_empty() {
            let why =
                "restartPolicyRules are not allowed for init containers with restart policy Always";
            container.field("restartPolicyRules").forbidden(errors, why);
        }
        let name = value["name"].as_str().unwrap_or_default();
        if names.contains(name) {
            container.field("name").duplicate(errors, name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_ports(at, std::iter::once(container), errors);
        if sidecar {
            probe::lifecycle(&container.field("lifecycle"), context, errors);
            probe::probes(&container, context, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(field) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    container.field(field).forbidden(errors, why);
                }
            }
        }
    }
}

fn ephemeral<'a>(
    at: &At<'a>,
    context: &Context<'_>,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let others: BTreeSet<&str> = names.iter().copied().collect();
    let list = at.value.as_array().map_or(&[][..], Vec::as_slice);
    for (container, value) in at.items().zip(list) {
        rule::check(CONTAINER, &container, context, errors);
        super::trimmed_image(&container, errors);
        let name = value["name"].as_str().unwrap_or_default();
        if !names.insert(name) {
            container.field("name").duplicate(errors, name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            container.field("targetContainerName").not_found(errors, target, "");
        }
        for field in NOT_EPHEMERAL {
            let empty = |value: &Value| {
                value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            if container.has(field) && !empty(container.get(field)) {
                container
                    .field(field)
                    .forbidden(errors, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    mount
                        .field(field)
                        .forbidden(errors, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// How a container is started again.
fn restart(container: &At<'_>, errors: &mut Errors) {
    const RULES: u64 = 20;
    const CODES: u64 = 255;
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.value.is_null() {
        if container.list("restartPolicyRules").is_empty() {
            return;
        }
        policy.required(errors, "must specify restartPolicy when restart rules are used");
    } else if !["Always", "Never", "OnFailure"].contains(&policy.as_text()) {
        policy.not_supported(errors, &["Always", "Never", "OnFailure"]);
    }
    if container.list("restartPolicyRules").len() as u64 > RULES {
        rules.too_long(errors, RULES);
    }
    for rule in rules.items() {
        if rule.text("action") != "Restart" {
            rule.field("action").not_supported(errors, &["Restart"]);
        }
        let codes = rule.field("exitCodes");
        if codes.value.is_null() {
            codes.required(errors, "must be specified");
            continue;
        }
        if !["In", "NotIn"].contains(&codes.text("operator")) {
            codes.field("operator").not_supported(errors, &["In", "NotIn"]);
        }
        if codes.list("values").len() as u64 > CODES {
            codes.field("values").too_long(errors, CODES);
        }
    }
}

/// No two containers take the same port of the host.
fn host_ports<'b>(list: &At<'_>, containers: impl Iterator<Item = At<'b>>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (n, container) in containers.enumerate() {
        for (p, port) in container.list("ports").iter().enumerate() {
            let number = port[HOST_PORTS].as_i64().unwrap_or(0);
            if number == 0 {
                continue;
            }
            let text = |field: &str| port[field].as_str().unwrap_or_default().to_owned();
            let taken = format!("{}/{}/{number}", text("protocol"), text("hostIP"));
            if seen.contains(&taken) {
                let (item, ports) = (list.index(n), &Value::Null);
                let ports = item.with("ports", ports);
                ports.index(p).with(HOST_PORTS, &Value::Null).duplicate(errors, taken.as_str());
            }
            seen.insert(taken);
        }
    }
}

fn ports(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in at.items() {
        let name = port.text("name");
        if !name.is_empty() {
            let wrong = form::port_name(name);
            if wrong.is_empty() && !names.insert(name) {
                port.field("name").duplicate(errors, name);
            }
            for why in wrong {
                port.field("name").invalid(errors, why);
            }
        }
        rule::check(PORT, &port, context, errors);
    }
}

fn container_port(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let here = at.field("containerPort");
    match here.value.as_i64().unwrap_or(0) {
        0 => here.required(errors, ""),
        1..=65_535 => {}
        _ => here.invalid(errors, form::PORT_RANGE),
    }
}

/// What a variable may say about the pod.
const POD_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

static KEY: Rules = &[rule::Rule::Must("name", names::subdomain), Named("key", form::data_key)];

static FILE_KEY: Rules = &[
    Named("key", form::variable),
    Named("volumeName", names::label),
    Named("path", form::no_backsteps),
];

static SOURCE: Rules = &[
    Sub("fieldRef", &[Own(|at, _, errors| volume::pod_field(at, POD_FIELDS, errors))]),
    Sub("resourceFieldRef", &[Own(|at, _, errors| volume::resource_field(at, false, errors))]),
    Sub("configMapKeyRef", KEY),
    Sub("secretKeyRef", KEY),
    Sub("fileKeyRef", FILE_KEY),
];

fn variables(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for variable in at.items() {
        rule::check(&[Named("name", form::variable)], &variable, context, errors);
        if !variable.has("valueFrom") {
            continue;
        }
        let from = variable.field("valueFrom");
        rule::check(SOURCE, &from, context, errors);
        let sources = from
            .value
            .as_object()
            .map_or(0, |map| map.values().filter(|value| !value.is_null()).count());
        if sources == 0 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                       `secretKeyRef` or `fileKeyRef`";
            from.invalid_value(errors, "", why);
        } else if !variable.text("value").is_empty() {
            from.invalid_value(errors, "", "may not be specified when `value` is not empty");
        } else if sources > 1 {
            let why = "may not have more than one field specified at a time";
            from.invalid_value(errors, "", why);
        }
    }
}

static REFERENCE: Rules = &[Named("name", form::subdomain_or_prefix)];

fn sources(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    static FROM: Rules = &[
        rule::Rule::Is("prefix", form::variable),
        Sub("configMapRef", REFERENCE),
        Sub("secretRef", REFERENCE),
    ];
    for from in at.items() {
        rule::check(FROM, &from, context, errors);
        match (from.has("configMapRef"), from.has("secretRef")) {
            (false, false) => {
                at.invalid_value(errors, "", "must specify one of: `configMapRef` or `secretRef`");
            }
            (true, true) => {
                let why = "may not have more than one field specified at a time";
                at.invalid_value(errors, "", why);
            }
            _ => {}
        }
    }
}

fn resize_policy(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in at.items() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            policy.duplicate(errors, resource);
        }
        let told = |value: &Value, supported: &[&str], errors: &mut Errors| match value.as_str() {
            None | Some("") => at.required(errors, ""),
            Some(text) if supported.contains(&text) => {}
            Some(text) => push(
                errors,
                crate::schema::field::FieldError::not_supported(at.path(), text, supported),
            ),
        };
        told(policy.get("resourceName"), &["cpu", "memory"], errors);
        told(policy.get("restartPolicy"), &["NotRequired", "RestartContainer"], errors);
        if context.pod.restart == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            at.invalid_value(errors, restart, why);
        }
    }
}
