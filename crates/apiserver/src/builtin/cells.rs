//! The cells of the table form for built-in kinds.
//!
//! Cells that are a field of the object come from a path; a few are worked out here. A column that
//! is in neither table is not shown.

use jiff::Timestamp;
use serde_json::Value;

use super::selector;
use crate::resource::Cell;
use crate::schema::jsonpath::JsonPath;
use crate::wire::table::age;

/// Columns of one kind that a path answers.
const PATHS: &[(&str, &str, &str)] = &[
    ("v1 Namespace", "Status", ".status.phase"),
    ("v1 Secret", "Type", ".type"),
    ("v1 Node", "Version", ".status.nodeInfo.kubeletVersion"),
    ("v1 Node", "OS-Image", ".status.nodeInfo.osImage"),
    ("v1 Node", "Kernel-Version", ".status.nodeInfo.kernelVersion"),
    ("v1 Node", "Container-Runtime", ".status.nodeInfo.containerRuntimeVersion"),
    ("v1 ReplicationController", "Desired", ".spec.replicas"),
    ("v1 ReplicationController", "Current", ".status.replicas"),
    ("apps/v1 ReplicaSet", "Desired", ".spec.replicas"),
    ("apps/v1 ReplicaSet", "Current", ".status.replicas"),
    ("apps/v1 DaemonSet", "Desired", ".status.desiredNumberScheduled"),
    ("apps/v1 DaemonSet", "Current", ".status.currentNumberScheduled"),
    ("apps/v1 DaemonSet", "Ready", ".status.numberReady"),
    ("batch/v1 CronJob", "Schedule", ".spec.schedule"),
    ("batch/v1 CronJob", "Suspend", ".spec.suspend"),
    ("coordination.k8s.io/v1 Lease", "Holder", ".spec.holderIdentity"),
    ("networking.k8s.io/v1 IngressClass", "Controller", ".spec.controller"),
    ("node.k8s.io/v1 RuntimeClass", "Handler", ".handler"),
    ("resource.k8s.io/v1 ResourceSlice", "Driver", ".spec.driver"),
    ("resource.k8s.io/v1 ResourceSlice", "Pool", ".spec.pool.name"),
    ("scheduling.k8s.io/v1 PriorityClass", "Value", ".value"),
    ("scheduling.k8s.io/v1 PriorityClass", "PreemptionPolicy", ".preemptionPolicy"),
    ("storage.k8s.io/v1 StorageClass", "Provisioner", ".provisioner"),
    ("storage.k8s.io/v1 StorageClass", "VolumeBindingMode", ".volumeBindingMode"),
    ("storage.k8s.io/v1 VolumeAttributesClass", "DriverName", ".driverName"),
];

type Code = fn(&Value, Timestamp) -> Value;

/// Columns of one kind that are worked out.
const CODE: &[(&str, &str, Code)] = &[
    ("v1 ConfigMap", "Data", |object, _| {
        (count(object, "/data") + count(object, "/binaryData")).into()
    }),
    ("v1 Secret", "Data", |object, _| count(object, "/data").into()),
    ("v1 Node", "Status", |object, _| node_status(object).into()),
    ("v1 Node", "Roles", |object, _| node_roles(object).into()),
    ("v1 Node", "Internal-IP", |object, _| node_address(object, "InternalIP").into()),
    ("v1 Node", "External-IP", |object, _| node_address(object, "ExternalIP").into()),
    ("apps/v1 Deployment", "Ready", |object, _| {
        let ready = number(object, "/status/readyReplicas");
        format!("{ready}/{}", number(object, "/spec/replicas")).into()
    }),
    ("apps/v1 Deployment", "Up-to-date", |object, _| {
        number(object, "/status/updatedReplicas").into()
    }),
    ("apps/v1 Deployment", "Available", |object, _| {
        number(object, "/status/availableReplicas").into()
    }),
    ("apps/v1 StatefulSet", "Ready", |object, _| {
        let ready = number(object, "/status/readyReplicas");
        format!("{ready}/{}", number(object, "/spec/replicas")).into()
    }),
    ("apps/v1 ReplicaSet", "Ready", |object, _| number(object, "/status/readyReplicas").into()),
    ("v1 ReplicationController", "Ready", |object, _| {
        number(object, "/status/readyReplicas").into()
    }),
    ("apps/v1 DaemonSet", "Up-to-date", |object, _| {
        number(object, "/status/updatedNumberScheduled").into()
    }),
    ("apps/v1 DaemonSet", "Available", |object, _| {
        number(object, "/status/numberAvailable").into()
    }),
];

/// Columns that mean the same in every kind.
const COMMON: &[(&str, Code)] = &[
    ("Age", |object, now| {
        let created = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        created.map_or_else(|| "<unknown>".to_owned(), |time| age(time, now)).into()
    }),
    ("Created At", |object, _| {
        object.pointer("/metadata/creationTimestamp").cloned().unwrap_or_default()
    }),
    ("Containers", |object, _| containers(object, "name").into()),
    ("Images", |object, _| containers(object, "image").into()),
    ("Selector", |object, _| {
        let selector = object.pointer("/spec/selector").and_then(selector::text);
        selector.filter(|s| !s.is_empty()).unwrap_or_else(|| "<none>".to_owned()).into()
    }),
];

/// How the cells of a column come about.
pub(super) fn cell(kind: &str, column: &str) -> Option<Cell> {
    if let Some((_, _, path)) = PATHS.iter().find(|(k, c, _)| *k == kind && *c == column) {
        return JsonPath::parse(path).ok().map(Cell::Path);
    }
    let own = CODE.iter().find(|(k, c, _)| *k == kind && *c == column).map(|(_, _, code)| code);
    own.or_else(|| COMMON.iter().find(|(c, _)| *c == column).map(|(_, code)| code))
        .map(|code| Cell::Code(*code))
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

fn count(object: &Value, path: &str) -> usize {
    object.pointer(path).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// One field of every container, behind commas.
fn containers(object: &Value, field: &str) -> String {
    let spec = object.pointer("/spec/template/spec/containers");
    let job = object.pointer("/spec/jobTemplate/spec/template/spec/containers");
    let found = spec.or(job).or_else(|| object.pointer("/template/spec/containers"));
    let found = found.and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = found.map(|c| c[field].as_str().unwrap_or_default()).collect();
    texts.join(",")
}

fn node_status(node: &Value) -> String {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| c["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(key, value)| {
        if key == "kubernetes.io/role" {
            return value.as_str();
        }
        key.strip_prefix("node-role.kubernetes.io/")
    });
    let mut roles: Vec<&str> = roles.filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn node_address(node: &Value, wanted: &str) -> String {
    let addresses = node.pointer("/status/addresses").and_then(Value::as_array);
    let found = addresses.into_iter().flatten().find(|a| a["type"] == wanted);
    found.and_then(|a| a["address"].as_str()).unwrap_or("<none>").to_owned()
}
