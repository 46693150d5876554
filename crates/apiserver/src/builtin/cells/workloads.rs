//! What runs pods: deployments, sets, jobs, and what scales and protects them.

use jiff::Timestamp;
use serde_json::Value;

use super::recipe::{Recipe, at, given, has, list, number, text};
use super::{Kind, NONE, UNKNOWN, UNSET};
use crate::wire::age;

use Recipe::{
    Age, Code, Count, Given, JoinField, Labels, Number, Pair, Ratio, Selector, Text, Timed,
};

const CONTAINERS: &str = "Names of the containers of its pods.";
const IMAGES: &str = "Images of the containers of its pods.";
const SELECTED: &str = "Labels by which it knows its pods.";
const POD: &str = "spec.template.spec.containers";
const JOB: &str = "spec.jobTemplate.spec.template.spec.containers";

pub(super) const KINDS: &[Kind] = &[
    (
        "apps/v1 Deployment",
        &[
            (
                "Ready",
                Ratio("status.readyReplicas", "spec.replicas"),
                "Pods ready, of those wanted.",
            ),
            ("Up-to-date", Number("status.updatedReplicas"), "Pods of the newest template."),
            ("Available", Number("status.availableReplicas"), "Pods ready for long enough."),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
            ("Selector", Selector("spec.selector"), SELECTED),
        ],
    ),
    (
        "apps/v1 ReplicaSet",
        &[
            ("Desired", Number("spec.replicas"), "Pods wanted."),
            ("Current", Number("status.replicas"), "Pods there."),
            ("Ready", Number("status.readyReplicas"), "Pods ready."),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
            ("Selector", Selector("spec.selector"), SELECTED),
        ],
    ),
    (
        "v1 ReplicationController",
        &[
            ("Desired", Number("spec.replicas"), "Pods wanted."),
            ("Current", Number("status.replicas"), "Pods there."),
            ("Ready", Number("status.readyReplicas"), "Pods ready."),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
            ("Selector", Labels("spec.selector"), SELECTED),
        ],
    ),
    (
        "apps/v1 StatefulSet",
        &[
            (
                "Ready",
                Ratio("status.readyReplicas", "spec.replicas"),
                "Pods ready, of those wanted.",
            ),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
        ],
    ),
    (
        "apps/v1 DaemonSet",
        &[
            ("Desired", Number("status.desiredNumberScheduled"), "Nodes that should run its pod."),
            ("Current", Number("status.currentNumberScheduled"), "Nodes that do."),
            ("Ready", Number("status.numberReady"), "Nodes on which the pod is ready."),
            (
                "Up-to-date",
                Number("status.updatedNumberScheduled"),
                "Nodes with the newest template.",
            ),
            ("Available", Number("status.numberAvailable"), "Nodes ready for long enough."),
            ("Node Selector", Labels("spec.template.spec.nodeSelector"), "Labels of its nodes."),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
            ("Selector", Selector("spec.selector"), SELECTED),
        ],
    ),
    (
        "apps/v1 ControllerRevision",
        &[
            (
                "Controller",
                Code(controller, &["metadata.ownerReferences"]),
                "What it is a past of.",
            ),
            ("Revision", Number("revision"), "Its number among the revisions."),
        ],
    ),
    (
        "batch/v1 Job",
        &[
            (
                "Status",
                Code(job_status, &["metadata.deletionTimestamp", "status.conditions"]),
                "How far it is.",
            ),
            (
                "Completions",
                Code(completions, &["spec.completions", "spec.parallelism", "status.succeeded"]),
                "Pods that succeeded, of those that must.",
            ),
            (
                "Duration",
                Timed(duration, &["status.startTime", "status.completionTime"]),
                "How long it ran, or runs so far.",
            ),
            ("Containers", JoinField(POD, "name"), CONTAINERS),
            ("Images", JoinField(POD, "image"), IMAGES),
            ("Selector", Selector("spec.selector"), SELECTED),
        ],
    ),
    (
        "batch/v1 CronJob",
        &[
            ("Schedule", Text("spec.schedule"), "When it runs, in cron's notation."),
            ("Timezone", Given("spec.timeZone", NONE), "Where the schedule's hours are counted."),
            ("Suspend", Code(suspended, &["spec.suspend"]), "Whether it pauses."),
            ("Active", Count(&["status.active"]), "Jobs that run now."),
            ("Last Schedule", Age("status.lastScheduleTime", NONE), "Time since it last ran."),
            ("Containers", JoinField(JOB, "name"), CONTAINERS),
            ("Images", JoinField(JOB, "image"), IMAGES),
            ("Selector", Selector("spec.jobTemplate.spec.selector"), SELECTED),
        ],
    ),
    (
        "v1 PodTemplate",
        &[
            ("Containers", JoinField("template.spec.containers", "name"), CONTAINERS),
            ("Images", JoinField("template.spec.containers", "image"), IMAGES),
            ("Pod Labels", Labels("template.metadata.labels"), "Labels of its pods."),
        ],
    ),
    (
        "autoscaling/v2 HorizontalPodAutoscaler",
        &[
            SCALED,
            ("Targets", Code(targets, &["spec.metrics", "status.currentMetrics"]), MEASURED),
            LEAST,
            MOST,
            REPLICAS,
        ],
    ),
    (
        "autoscaling/v1 HorizontalPodAutoscaler",
        &[
            SCALED,
            (
                "Targets",
                Code(
                    cpu_target,
                    &[
                        "spec.targetCPUUtilizationPercentage",
                        "status.currentCPUUtilizationPercentage",
                    ],
                ),
                MEASURED,
            ),
            LEAST,
            MOST,
            REPLICAS,
        ],
    ),
    (
        "policy/v1 PodDisruptionBudget",
        &[
            (
                "Min Available",
                Given("spec.minAvailable", "N/A"),
                "Pods that must stay, or their share.",
            ),
            (
                "Max Unavailable",
                Given("spec.maxUnavailable", "N/A"),
                "Pods that may go, or their share.",
            ),
            ("Allowed Disruptions", Number("status.disruptionsAllowed"), "Pods that may go now."),
        ],
    ),
];

const SCALED: super::Column =
    ("Reference", Pair("spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"), "What it scales.");
const MEASURED: &str = "What is measured, and what it should be.";
const LEAST: super::Column = ("MinPods", Given("spec.minReplicas", UNSET), "Never fewer pods.");
const MOST: super::Column = ("MaxPods", Number("spec.maxReplicas"), "Never more pods.");
const REPLICAS: super::Column = ("Replicas", Number("status.currentReplicas"), "Pods there.");

/// The owner that controls an object, as `kind.group/name`.
fn controller(object: &Value) -> Value {
    let owners = list(object, "metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|o| o.get("controller") == Some(&Value::Bool(true)))
    else {
        return NONE.into();
    };
    let kind = text(owner, "kind").to_lowercase();
    let name = text(owner, "name");
    match text(owner, "apiVersion").rsplit_once('/') {
        Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()).into(),
        None => format!("{kind}/{name}").into(),
    }
}

fn job_status(job: &Value) -> Value {
    let conditions = list(job, "status.conditions");
    let holds = |type_: &str| {
        let first = conditions.iter().find(|condition| text(condition, "type") == type_);
        first.is_some_and(|condition| text(condition, "status") == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if has(job, "metadata.deletionTimestamp") {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
    .into()
}

fn completions(job: &Value) -> Value {
    let done = number(job, "status.succeeded");
    if has(job, "spec.completions") {
        return format!("{done}/{}", number(job, "spec.completions")).into();
    }
    match number(job, "spec.parallelism") {
        parallel @ 2.. => format!("{done}/1 of {parallel}").into(),
        _ => format!("{done}/1").into(),
    }
}

fn duration(job: &Value, now: Timestamp) -> Value {
    let Ok(start) = text(job, "status.startTime").parse() else { return "".into() };
    let end = text(job, "status.completionTime").parse().unwrap_or(now);
    age::since(start, end).into()
}

fn suspended(job: &Value) -> Value {
    match at(job, "spec.suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    }
    .into()
}

/// What is measured and what it should be: two of the metrics, and how many more there are.
fn targets(autoscaler: &Value) -> Value {
    const SHOWN: usize = 2;
    let statuses = list(autoscaler, "status.currentMetrics");
    let specs = list(autoscaler, "spec.metrics").iter().enumerate();
    let metrics: Vec<String> = specs.map(|(n, spec)| metric(spec, statuses.get(n))).collect();
    if metrics.is_empty() {
        return NONE.into();
    }
    super::recipe::first_of(SHOWN, &metrics, ", ").into()
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (field, of_pods) = match text(spec, "type") {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", true),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let Some(spec) = spec.get(field) else { return String::new() };
    let current = status.and_then(|status| status.get(field)).and_then(|s| s.get("current"));
    let now = |what: &str, unknown: &str| {
        current.map_or_else(|| UNKNOWN.to_owned(), |current| given(current, what, unknown))
    };
    // What upstream prints for a quantity that is not there.
    const NIL: &str = "<nil>";
    let average = has(spec, "target.averageValue") || field == "pods";
    let target = |what: &str| given(spec, &format!("target.{what}"), NIL);
    match (average, of_pods) {
        (true, false) => {
            format!("{}/{} (avg)", now("averageValue", UNKNOWN), target("averageValue"))
        }
        (false, false) => format!("{}/{}", now("value", NIL), target("value")),
        (true, true) if field == "pods" => {
            format!("{}/{}", now("averageValue", NIL), target("averageValue"))
        }
        (true, true) => {
            let name = text(spec, "name");
            format!("{name}: {}/{}", now("averageValue", NIL), target("averageValue"))
        }
        (false, true) => {
            let percent = |value: Option<&Value>, path: &str, absent: &str| {
                let number = value.and_then(|value| at(value, path)).and_then(Value::as_i64);
                number.map_or_else(|| absent.to_owned(), |number| format!("{number}%"))
            };
            let now = percent(current, "averageUtilization", UNKNOWN);
            let target = percent(Some(spec), "target.averageUtilization", "<auto>");
            format!("{}: {now}/{target}", text(spec, "name"))
        }
    }
}

/// The one metric of the older version.
fn cpu_target(autoscaler: &Value) -> Value {
    let percent = |path: &str| {
        let number = at(autoscaler, path).and_then(Value::as_i64);
        number.map(|number| format!("{number}%"))
    };
    let Some(target) = percent("spec.targetCPUUtilizationPercentage") else { return NONE.into() };
    let now = percent("status.currentCPUUtilizationPercentage");
    format!("cpu: {}/{target}", now.as_deref().unwrap_or(UNKNOWN)).into()
}
