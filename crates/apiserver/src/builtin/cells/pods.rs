//! Pods: what their containers come to.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::recipe::{Recipe, at, flag, has, list, number, text};
use super::{Kind, NONE};
use crate::wire::age;

use Recipe::{Code, TextOr, Timed};

/// What the summary of a pod is made of.
const STATE: &[&str] = &[
    "metadata.deletionTimestamp",
    "spec.containers.name",
    "spec.initContainers.name",
    "spec.initContainers.restartPolicy",
    "status.phase",
    "status.reason",
    "status.conditions.type",
    "status.conditions.status",
    "status.conditions.reason",
    "status.initContainerStatuses",
    "status.containerStatuses",
];

pub(super) const KINDS: &[Kind] = &[(
    "v1 Pod",
    &[
        ("Ready", Code(ready, STATE), "How many containers are ready, of how many."),
        ("Status", Code(status, STATE), "The phase, or what keeps the containers from it."),
        ("Restarts", Timed(restarts, STATE), "How often containers were restarted, and when last."),
        ("IP", Code(ip, &["status.podIPs.ip"]), "The pod's first address."),
        ("Node", TextOr("spec.nodeName", NONE), "The node that runs it."),
        (
            "Nominated Node",
            TextOr("status.nominatedNodeName", NONE),
            "The node where room is being made for it.",
        ),
        (
            "Readiness Gates",
            Code(
                gates,
                &[
                    "spec.readinessGates.conditionType",
                    "status.conditions.type",
                    "status.conditions.status",
                ],
            ),
            "How many of the extra conditions for readiness hold, of how many.",
        ),
    ],
)];

/// The conditions of a table's row: whether the pod has run to its end. Its phase must be read.
pub(crate) fn finished(pod: &Value) -> Option<Value> {
    let phase = text(pod, "status.phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

fn ready(pod: &Value) -> Value {
    let Summary { ready, containers, .. } = Summary::of(pod);
    format!("{ready}/{containers}").into()
}

fn status(pod: &Value) -> Value {
    Summary::of(pod).reason.into()
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let Restarts { count, last } = Summary::of(pod).restarts;
    match last {
        Some(last) if count != 0 => format!("{count} ({} ago)", age::since(last, now)),
        _ => count.to_string(),
    }
    .into()
}

fn ip(pod: &Value) -> Value {
    let first = list(pod, "status.podIPs").first();
    first.map(|first| text(first, "ip")).filter(|ip| !ip.is_empty()).unwrap_or(NONE).into()
}

fn gates(pod: &Value) -> Value {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let holds = |gate: &&Value| is_true(pod, text(gate, "conditionType"));
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len()).into()
}

/// Whether the first condition of this type holds.
fn is_true(pod: &Value, type_: &str) -> bool {
    let conditions = list(pod, "status.conditions").iter();
    let mut found = conditions.filter(|condition| text(condition, "type") == type_);
    found.next().is_some_and(|condition| text(condition, "status") == "True")
}

/// What the containers of a pod come to.
struct Summary {
    ready: usize,
    containers: usize,
    reason: String,
    restarts: Restarts,
}

#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        // Whoever writes a status may name any number.
        self.count = self.count.saturating_add(number(container, "restartCount"));
        let finished = text(container, "lastState.terminated.finishedAt").parse().ok();
        self.last = self.last.max(finished);
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let own = list(pod, "spec.initContainers").iter();
        let sidecars: Vec<&str> = own
            .filter(|container| text(container, "restartPolicy") == "Always")
            .map(|container| text(container, "name"))
            .collect();
        let mut summary = Self {
            ready: 0,
            containers: list(pod, "spec.containers").len() + sidecars.len(),
            reason: phase(pod),
            restarts: Restarts::default(),
        };
        let waits = summary.initialise(pod, &sidecars);
        if !waits || is_true(pod, "Initialized") {
            summary.run(pod);
        }
        if has(pod, "metadata.deletionTimestamp") {
            if text(pod, "status.reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(text(pod, "status.phase"), "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Looks at the init containers up to the first that is not done; whether there is one.
    /// Afterwards only the restarts of sidecars count where the pod's containers run.
    fn initialise(&mut self, pod: &Value, sidecars: &[&str]) -> bool {
        let total = list(pod, "spec.initContainers").len();
        let mut of_sidecars = Restarts::default();
        for (n, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let sidecar = sidecars.contains(&text(container, "name"));
            self.restarts.add(container);
            if sidecar {
                of_sidecars.add(container);
            }
            let terminated = at(container, "state.terminated").filter(|state| !state.is_null());
            if terminated.is_some_and(|state| number(state, "exitCode") == 0) {
                continue;
            }
            if sidecar && flag(container, "started", false) {
                self.ready += usize::from(flag(container, "ready", false));
                continue;
            }
            self.reason = match (terminated, text(container, "state.waiting.reason")) {
                (Some(state), _) => format!("Init:{}", ended(state)),
                (None, "" | "PodInitializing") => format!("Init:{n}/{total}"),
                (None, reason) => format!("Init:{reason}"),
            };
            if is_true(pod, "Initialized") {
                self.restarts = of_sidecars;
            }
            return true;
        }
        self.restarts = of_sidecars;
        false
    }

    /// Looks at the containers, the last first, so that the first one's reason stays.
    fn run(&mut self, pod: &Value) {
        let (mut runs, mut failure) = (false, None);
        for container in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let waiting = text(container, "state.waiting.reason");
            let terminated = at(container, "state.terminated").filter(|state| !state.is_null());
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(state) = terminated {
                self.reason = ended(state);
                if number(state, "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag(container, "ready", false) && has(container, "state.running") {
                runs = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        // One of several containers is done.
        if runs && has_ready(pod) {
            "Running".clone_into(&mut self.reason);
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if runs {
            "NotReady".clone_into(&mut self.reason);
        }
    }
}

/// Whether any condition says that the pod is ready.
fn has_ready(pod: &Value) -> bool {
    let mut conditions = list(pod, "status.conditions").iter();
    conditions.any(|c| text(c, "type") == "Ready" && text(c, "status") == "True")
}

/// What the pod is before one looks at its containers.
fn phase(pod: &Value) -> String {
    let gated = |condition: &Value| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    };
    if list(pod, "status.conditions").iter().any(gated) {
        return "SchedulingGated".to_owned();
    }
    super::recipe::or(text(pod, "status.reason"), text(pod, "status.phase")).to_owned()
}

/// How a container ended.
fn ended(state: &Value) -> String {
    match (text(state, "reason"), number(state, "signal"), number(state, "exitCode")) {
        ("", 0, code) => format!("ExitCode:{code}"),
        ("", signal, _) => format!("Signal:{signal}"),
        (reason, ..) => reason.to_owned(),
    }
}
