//! The cluster itself: nodes, namespaces, configuration, quotas, priorities, leases.

use std::collections::BTreeSet;

use serde_json::Value;

use super::recipe::{Recipe, at, flag, list, number, or, text};
use super::{Kind, NONE, UNKNOWN};

use Recipe::{Code, Count, Flag, Number, Text, TextOr};

const QUOTA: &[&str] = &["status.hard", "status.used"];

pub(super) const KINDS: &[Kind] = &[
    (
        "v1 Node",
        &[
            (
                "Status",
                Code(status, &["spec.unschedulable", "status.conditions"]),
                "Whether it is ready, and whether pods may be put on it.",
            ),
            ("Roles", Code(roles, &["metadata.labels"]), "What its labels say it is for."),
            ("Version", Text("status.nodeInfo.kubeletVersion"), "The kubelet's version."),
            ("Internal-IP", Code(internal_ip, &["status.addresses"]), "Its address inside."),
            ("External-IP", Code(external_ip, &["status.addresses"]), "Its address outside."),
            ("OS-Image", TextOr("status.nodeInfo.osImage", UNKNOWN), "Its operating system."),
            ("Kernel-Version", TextOr("status.nodeInfo.kernelVersion", UNKNOWN), "Its kernel."),
            (
                "Container-Runtime",
                TextOr("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
                "What runs its containers.",
            ),
        ],
    ),
    ("v1 Namespace", &[("Status", Text("status.phase"), "Whether it is in use or going.")]),
    ("v1 ConfigMap", &[("Data", Count(&["data", "binaryData"]), "How many entries it has.")]),
    (
        "v1 Secret",
        &[
            ("Type", Text("type"), "What it is for."),
            ("Data", Count(&["data"]), "How many entries it has."),
        ],
    ),
    (
        "v1 ResourceQuota",
        &[
            ("Request", Code(requests, QUOTA), "What is used of what may be requested."),
            ("Limit", Code(limits, QUOTA), "What is used of what limits may come to."),
        ],
    ),
    (
        "v1 ComponentStatus",
        &[
            ("Status", Code(health, &["conditions"]), "Whether the component is healthy."),
            ("Message", Code(|c| of_health(c, "message"), &["conditions"]), "What it says."),
            ("Error", Code(|c| of_health(c, "error"), &["conditions"]), "What is wrong."),
        ],
    ),
    ("coordination.k8s.io/v1 Lease", &[("Holder", Text("spec.holderIdentity"), "Who holds it.")]),
    (
        "scheduling.k8s.io/v1 PriorityClass",
        &[
            ("Value", Number("value"), "The priority of its pods."),
            ("Global-Default", Flag("globalDefault", false), "Whether pods that name none get it."),
            (
                "PreemptionPolicy",
                Text("preemptionPolicy"),
                "Whether its pods may drive out others.",
            ),
        ],
    ),
    (
        "node.k8s.io/v1 RuntimeClass",
        &[("Handler", Text("handler"), "What the container runtime calls it.")],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1 FlowSchema",
        &[
            (
                "PriorityLevel",
                Text("spec.priorityLevelConfiguration.name"),
                "Where requests queue.",
            ),
            ("MatchingPrecedence", Number("spec.matchingPrecedence"), "Lower numbers match first."),
            (
                "DistinguisherMethod",
                TextOr("spec.distinguisherMethod.type", NONE),
                "What tells its flows apart.",
            ),
            (
                "MissingPL",
                Code(dangling, &["status.conditions"]),
                "Whether the priority level does not exist.",
            ),
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration",
        &[
            ("Type", Text("spec.type"), "Whether it is limited."),
            (
                "NominalConcurrencyShares",
                Code(shares, &["spec.limited"]),
                "Its share of the server.",
            ),
            (
                "Queues",
                Code(|l| queuing(l, "queues"), &["spec.limited"]),
                "How many queues it has.",
            ),
            (
                "HandSize",
                Code(|l| queuing(l, "handSize"), &["spec.limited"]),
                "Queues of one flow.",
            ),
            (
                "QueueLengthLimit",
                Code(|l| queuing(l, "queueLengthLimit"), &["spec.limited"]),
                "Requests that fit into a queue.",
            ),
        ],
    ),
    (
        "certificates.k8s.io/v1 CertificateSigningRequest",
        &[
            ("SignerName", TextOr("spec.signerName", NONE), "Who is to sign it."),
            ("Requestor", Text("spec.username"), "Who asked for it."),
            (
                "RequestedDuration",
                Code(validity, &["spec.expirationSeconds"]),
                "How long the certificate is to be valid.",
            ),
            (
                "Condition",
                Code(condition, &["status.conditions", "status.certificate"]),
                "Whether it is approved and issued.",
            ),
        ],
    ),
    (
        "apiregistration.k8s.io/v1 APIService",
        &[
            ("Service", Code(served_by, &["spec.service"]), "Who serves the group."),
            ("Available", Code(available, &["status.conditions"]), "Whether it can be reached."),
        ],
    ),
];

fn status(node: &Value) -> Value {
    // Of two conditions of a type the last counts.
    let mut conditions = list(node, "status.conditions").iter().rev();
    let ready = conditions.find(|condition| text(condition, "type") == "Ready");
    let status = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if flag(node, "spec.unschedulable", false) {
        return format!("{status},SchedulingDisabled").into();
    }
    status.into()
}

fn roles(node: &Value) -> Value {
    let labels = at(node, "metadata.labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(key, value)| match key.as_str() {
        "kubernetes.io/role" => value.as_str(),
        key => key.strip_prefix("node-role.kubernetes.io/"),
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    or(&roles.into_iter().collect::<Vec<_>>().join(","), NONE).into()
}

fn internal_ip(node: &Value) -> Value {
    address(node, "InternalIP")
}

fn external_ip(node: &Value) -> Value {
    address(node, "ExternalIP")
}

fn address(node: &Value, type_: &str) -> Value {
    let mut addresses = list(node, "status.addresses").iter();
    let found = addresses.find(|address| text(address, "type") == type_);
    found.map_or(NONE, |address| text(address, "address")).into()
}

fn requests(quota: &Value) -> Value {
    usage(quota, false)
}

fn limits(quota: &Value) -> Value {
    usage(quota, true)
}

/// What is used of what there is, of limits or of all else.
fn usage(quota: &Value, limits: bool) -> Value {
    let hard = at(quota, "status.hard").and_then(Value::as_object);
    let wanted = hard.into_iter().flatten();
    let wanted = wanted.filter(|(name, _)| name.starts_with("limits.") == limits);
    let texts = wanted.map(|(name, hard)| {
        let used = at(quota, "status.used").and_then(|used| used.get(name)?.as_str());
        format!("{name}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or("0"))
    });
    texts.collect::<Vec<_>>().join(", ").into()
}

/// The condition that says whether a component is healthy.
fn healthy(component: &Value) -> Option<&Value> {
    list(component, "conditions").iter().find(|condition| text(condition, "type") == "Healthy")
}

fn health(component: &Value) -> Value {
    match healthy(component).map(|condition| text(condition, "status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    }
    .into()
}

fn of_health(component: &Value, field: &str) -> Value {
    healthy(component).map_or("", |condition| text(condition, field)).into()
}

fn dangling(schema: &Value) -> Value {
    let mut conditions = list(schema, "status.conditions").iter();
    let found = conditions.find(|condition| text(condition, "type") == "Dangling");
    found.map_or("?", |condition| text(condition, "status")).into()
}

fn shares(level: &Value) -> Value {
    at(level, "spec.limited.nominalConcurrencyShares").cloned().unwrap_or_else(|| NONE.into())
}

fn queuing(level: &Value, field: &str) -> Value {
    match at(level, "spec.limited.limitResponse.queuing").filter(|queuing| !queuing.is_null()) {
        Some(queuing) => number(queuing, field).into(),
        None => NONE.into(),
    }
}

fn validity(request: &Value) -> Value {
    let seconds = at(request, "spec.expirationSeconds").and_then(Value::as_i64);
    seconds.map_or_else(|| NONE.to_owned(), crate::wire::age::human).into()
}

fn condition(request: &Value) -> Value {
    let has = |type_: &str| {
        list(request, "status.conditions").iter().any(|condition| text(condition, "type") == type_)
    };
    let mut out = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        out.push_str(",Failed");
    }
    if !text(request, "status.certificate").is_empty() {
        out.push_str(",Issued");
    }
    out.into()
}

fn served_by(service: &Value) -> Value {
    match at(service, "spec.service").filter(|service| !service.is_null()) {
        Some(service) => format!("{}/{}", text(service, "namespace"), text(service, "name")).into(),
        None => "Local".into(),
    }
}

fn available(service: &Value) -> Value {
    let mut conditions = list(service, "status.conditions").iter();
    let Some(found) = conditions.find(|condition| text(condition, "type") == "Available") else {
        return "Unknown".into();
    };
    match (text(found, "status"), text(found, "reason")) {
        (status @ "True", _) | (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}
