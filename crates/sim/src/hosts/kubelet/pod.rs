//! The life of a pod on a simulated node: it starts, runs for as long as it says, ends, and is started
//! again where its policy asks for that.
//!
//! A pod's containers live and end together. What a real kubelet knows of its containers, this one
//! reads from what it has written: which boot a container belongs to stands in its ID, so that nothing
//! survives a reboot. Times are the kubelet's own; those of the server decide nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::node::host_address;
use crate::hosts::fleet::Memory;

/// Annotations that say how a simulated pod behaves. Durations are written as `90s`, `5m` or `1h 30m`
/// and are those of the clock that the simulation runs on.
pub mod annotations {
    /// From being bound to running: images, volumes. 2 s unless said otherwise.
    pub const STARTS_IN: &str = "sim.seatrial.dev/starts-in";
    /// How long it runs. For ever unless said otherwise.
    pub const RUNS_FOR: &str = "sim.seatrial.dev/runs-for";
    /// With which code it exits then. 0 unless said otherwise.
    pub const EXIT_CODE: &str = "sim.seatrial.dev/exit-code";
    /// How long it takes to end when it is asked to; after its grace period it is killed. 1 s unless
    /// said otherwise.
    pub const STOPS_IN: &str = "sim.seatrial.dev/stops-in";
}

const STARTS_IN: Duration = Duration::from_secs(2);
const STOPS_IN: Duration = Duration::from_secs(1);

/// Upstream's default grace period.
const GRACE: i64 = 30;

/// Upstream's first and longest wait before a container is started again.
const RESTART: (u64, u64) = (10, 300);

/// The code of a process that a signal has ended: SIGTERM, SIGKILL.
const ENDED: i32 = 143;
const KILLED: i32 = 137;

/// How a container's ID begins, by which nobody takes it for a real one.
const SCHEME: &str = "simulated://";

/// What a kubelet knows of a pod.
#[derive(Clone, Debug)]
pub(in crate::hosts) struct Facts {
    pub(in crate::hosts) pod: Arc<Pod>,
    /// The boot that runs.
    pub(in crate::hosts) boot: String,
    /// Which machine of the site it is on.
    pub(in crate::hosts) index: usize,
    pub(in crate::hosts) memory: Memory,
    /// The addresses of pods on the node.
    pub(in crate::hosts) taken: BTreeSet<String>,
    pub(in crate::hosts) now: Timestamp,
}

/// What a kubelet does about a pod.
#[derive(Debug, Default, PartialEq)]
pub(in crate::hosts) struct Plan {
    /// What it says of the pod.
    pub(in crate::hosts) status: Option<Value>,
    /// The pod has ended and may go.
    pub(in crate::hosts) delete: bool,
    /// When to look again.
    pub(in crate::hosts) wake: Option<Timestamp>,
}

impl Plan {
    fn say(status: Value) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    fn wait(until: Timestamp) -> Self {
        Self { wake: Some(until), ..Self::default() }
    }
}

/// How a pod behaves.
struct Script {
    starts_in: Duration,
    runs_for: Option<Duration>,
    exit: i32,
    stops_in: Duration,
}

/// What is known of the pod's containers.
enum Containers {
    None,
    Running {
        since: Timestamp,
        restarts: i32,
    },
    /// They ran during an earlier boot.
    Lost {
        since: Timestamp,
        restarts: i32,
    },
    Waiting {
        ended: Timestamp,
        restarts: i32,
    },
}

pub(in crate::hosts) fn plan(facts: &Facts) -> Plan {
    let pod = &*facts.pod;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let over = matches!(phase, Some("Succeeded" | "Failed"));
    if over {
        return Plan { delete: facts.memory.ending.is_some(), ..Plan::default() };
    }
    let script = match Script::read(pod) {
        Ok(script) => script,
        Err(why) if facts.memory.ending.is_none() => return refused(facts, &why),
        Err(_) => Script::default(),
    };
    let containers = containers(facts);
    if let Some(ending) = facts.memory.ending {
        return end(facts, &script, &containers, ending);
    }
    match containers {
        Containers::None => start(facts, after(facts.memory.seen, script.starts_in), 0, None),
        Containers::Running { since, restarts } => run(facts, &script, since, restarts),
        Containers::Lost { since, restarts } => {
            let ended = terminated(KILLED, "ContainerStatusUnknown", since, facts.memory.seen);
            if policy(pod) == "Never" {
                return Plan::say(finished(facts, "Failed", &ended, restarts));
            }
            let at = after(facts.memory.seen, script.starts_in);
            start(facts, at, restarts.saturating_add(1), Some(ended))
        }
        Containers::Waiting { ended, restarts } => {
            let at = after(ended, backoff(restarts));
            start(facts, at, restarts.saturating_add(1), last(facts))
        }
    }
}

/// Starts the containers once their time has come.
fn start(
    facts: &Facts,
    at: Timestamp,
    restarts: i32,
    last: Option<ContainerStateTerminated>,
) -> Plan {
    if at > facts.now {
        return Plan::wait(at);
    }
    let state = ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(second(facts.now)) }),
        ..ContainerState::default()
    };
    let last = ContainerState { terminated: last, ..ContainerState::default() };
    let mut status = json!({
        "phase": "Running",
        "conditions": conditions(facts, true, None),
        "containerStatuses": statuses(facts, &state, &last, restarts, true),
    });
    let there = facts.pod.status.as_ref();
    if there.is_none_or(|status| status.start_time.is_none()) {
        status["startTime"] = json!(second(facts.memory.seen));
    }
    let host = host_address(facts.index);
    status["hostIP"] = json!(host);
    status["hostIPs"] = json!([{"ip": host}]);
    if there.is_none_or(|status| status.pod_ip.is_none()) {
        let spec = facts.pod.spec.as_ref();
        let shares = spec.and_then(|spec| spec.host_network).unwrap_or_default();
        let address = if shares { Some(host) } else { pod_address(facts) };
        if let Some(address) = address {
            status["podIP"] = json!(address);
            status["podIPs"] = json!([{"ip": address}]);
        }
    }
    // What is written brings the pod back, and its end is looked for then.
    Plan::say(status)
}

/// Follows containers that run, to their end.
fn run(facts: &Facts, script: &Script, since: Timestamp, restarts: i32) -> Plan {
    let spec = facts.pod.spec.as_ref();
    let limit = spec.and_then(|spec| spec.active_deadline_seconds);
    let started = facts.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let deadline = limit.zip(started).map(|(limit, started)| {
        after(started.0, Duration::from_secs(limit.try_into().unwrap_or_default()))
    });
    let ends = script.runs_for.map(|runs_for| after(since, runs_for));
    if deadline.is_some_and(|deadline| deadline <= facts.now) {
        let ended = terminated(KILLED, "Error", since, facts.now);
        let mut status = finished(facts, "Failed", &ended, restarts);
        status["reason"] = json!("DeadlineExceeded");
        status["message"] = json!("Pod was active on the node longer than the specified deadline");
        return Plan::say(status);
    }
    if ends.is_none_or(|ends| ends > facts.now) {
        return Plan { wake: ends.into_iter().chain(deadline).min(), ..Plan::default() };
    }
    let reason = if script.exit == 0 { "Completed" } else { "Error" };
    let ended = terminated(script.exit, reason, since, facts.now);
    let phase = match (policy(&facts.pod), script.exit) {
        ("Never" | "OnFailure", 0) => "Succeeded",
        ("Never", _) => "Failed",
        _ if backoff(restarts).is_zero() => {
            return start(facts, facts.now, restarts.saturating_add(1), Some(ended));
        }
        _ => return Plan::say(waiting(facts, &ended, restarts)),
    };
    Plan::say(finished(facts, phase, &ended, restarts))
}

/// Takes down a pod that shall go.
fn end(facts: &Facts, script: &Script, containers: &Containers, ending: Timestamp) -> Plan {
    let gone = Plan { delete: true, ..Plan::default() };
    let (since, restarts) = match containers {
        Containers::Running { since, restarts } => (*since, *restarts),
        Containers::Lost { since, restarts } => {
            let ended = terminated(KILLED, "ContainerStatusUnknown", *since, facts.memory.seen);
            return Plan { status: Some(finished(facts, "Failed", &ended, *restarts)), ..gone };
        }
        Containers::None | Containers::Waiting { .. } => return gone,
    };
    let grace = facts.pod.metadata.deletion_grace_period_seconds.unwrap_or(GRACE);
    let grace = Duration::from_secs(grace.try_into().unwrap_or_default());
    let at = after(ending, script.stops_in.min(grace));
    if at > facts.now {
        return Plan::wait(at);
    }
    let code = if script.stops_in > grace { KILLED } else { ENDED };
    let ended = terminated(code, "Error", since, facts.now);
    Plan { status: Some(finished(facts, "Failed", &ended, restarts)), ..gone }
}

/// A pod whose annotations cannot be read does not start, and says why.
fn refused(facts: &Facts, why: &str) -> Plan {
    let known = facts.pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let said = known.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref()?.message.clone());
    if said.as_deref() == Some(why) {
        return Plan::default();
    }
    let state = waits("CreateContainerConfigError", why);
    Plan::say(json!({
        "phase": "Pending",
        "conditions": conditions(facts, false, Some("ContainersNotReady")),
        "containerStatuses": statuses(facts, &state, &ContainerState::default(), 0, false),
    }))
}

impl Default for Script {
    fn default() -> Self {
        Self { starts_in: STARTS_IN, runs_for: None, exit: 0, stops_in: STOPS_IN }
    }
}

impl Script {
    fn read(pod: &Pod) -> Result<Self, String> {
        let said = |name: &str| {
            pod.metadata.annotations.as_ref().and_then(|all| all.get(name)).map(String::as_str)
        };
        let duration = |name: &str| match said(name) {
            None => Ok(None),
            Some(text) => {
                let read = text.parse::<SignedDuration>().ok();
                let read = read.and_then(|duration| Duration::try_from(duration).ok());
                let wrong = || format!("annotation {name} must be a duration as 90s, not {text:?}");
                read.map(Some).ok_or_else(wrong)
            }
        };
        let exit = said(annotations::EXIT_CODE);
        let read = exit.map_or(Some(0), |text| text.parse::<u8>().ok());
        let exit = read.map(i32::from).ok_or_else(|| {
            let (name, text) = (annotations::EXIT_CODE, exit.unwrap_or_default());
            format!("annotation {name} must be a number from 0 to 255, not {text:?}")
        })?;
        Ok(Self {
            starts_in: duration(annotations::STARTS_IN)?.unwrap_or(STARTS_IN),
            runs_for: duration(annotations::RUNS_FOR)?,
            exit,
            stops_in: duration(annotations::STOPS_IN)?.unwrap_or(STOPS_IN),
        })
    }
}

fn containers(facts: &Facts) -> Containers {
    let first = facts.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first());
    let Some(first) = first else { return Containers::None };
    let restarts = first.restart_count;
    let state = first.state.clone().unwrap_or_default();
    if let Some(since) = state.running.and_then(|running| running.started_at) {
        let id = first.container_id.as_deref().unwrap_or_default();
        let boot = id.strip_prefix(SCHEME).and_then(|id| id.split_once('/')).map(|(boot, _)| boot);
        return if boot == Some(&facts.boot) {
            Containers::Running { since: since.0, restarts }
        } else {
            Containers::Lost { since: since.0, restarts }
        };
    }
    match last(facts).and_then(|last| last.finished_at) {
        Some(ended) => Containers::Waiting { ended: ended.0, restarts },
        None => Containers::None,
    }
}

/// How the containers last ended.
fn last(facts: &Facts) -> Option<ContainerStateTerminated> {
    let status = facts.pod.status.as_ref()?;
    status.container_statuses.as_ref()?.first()?.last_state.as_ref()?.terminated.clone()
}

fn policy(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

fn backoff(restarts: i32) -> Duration {
    let Some(doublings) = u32::try_from(restarts).ok().and_then(|n| n.checked_sub(1)) else {
        return Duration::ZERO;
    };
    Duration::from_secs((RESTART.0 << doublings.min(8)).min(RESTART.1))
}

/// The status of a pod that has ended for good.
fn finished(facts: &Facts, phase: &str, ended: &ContainerStateTerminated, restarts: i32) -> Value {
    let state = ContainerState { terminated: Some(ended.clone()), ..ContainerState::default() };
    let reason = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
    json!({
        "phase": phase,
        "conditions": conditions(facts, false, Some(reason)),
        "containerStatuses":
            statuses(facts, &state, &ContainerState::default(), restarts, false),
    })
}

/// The status of a pod whose containers will be started again.
fn waiting(facts: &Facts, ended: &ContainerStateTerminated, restarts: i32) -> Value {
    let seconds = backoff(restarts).as_secs();
    let state = waits("CrashLoopBackOff", &format!("back-off {seconds}s restarting the container"));
    let last = ContainerState { terminated: Some(ended.clone()), ..ContainerState::default() };
    json!({
        "phase": "Running",
        "conditions": conditions(facts, false, Some("ContainersNotReady")),
        "containerStatuses": statuses(facts, &state, &last, restarts, false),
    })
}

fn waits(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(
    code: i32,
    reason: &str,
    since: Timestamp,
    at: Timestamp,
) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: code,
        reason: Some(reason.to_owned()),
        message: None,
        started_at: Some(second(since)),
        finished_at: Some(second(at)),
        ..ContainerStateTerminated::default()
    }
}

fn conditions(facts: &Facts, ready: bool, reason: Option<&str>) -> Value {
    let there = facts.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let word = |holds: bool| if holds { "True" } else { "False" };
    let condition = |type_: &str, holds: bool| {
        let known = there.into_iter().flatten().find(|c| c.type_ == type_);
        let since = known.filter(|c| c.status == word(holds));
        let since = since.and_then(|c| c.last_transition_time.clone());
        json!({
            "type": type_,
            "status": word(holds),
            "reason": reason.filter(|_| !holds),
            "lastTransitionTime": since.unwrap_or_else(|| second(facts.now)),
        })
    };
    json!([
        condition("PodReadyToStartContainers", ready),
        condition("Initialized", true),
        condition("Ready", ready),
        condition("ContainersReady", ready),
    ])
}

fn statuses(
    facts: &Facts,
    state: &ContainerState,
    last: &ContainerState,
    restarts: i32,
    ready: bool,
) -> Vec<ContainerStatus> {
    let containers = facts.pod.spec.iter().flat_map(|spec| &spec.containers);
    let uid = facts.pod.metadata.uid.as_deref().unwrap_or_default();
    let ran = state.waiting.is_none();
    containers
        .map(|container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            image_id: format!("{SCHEME}{}", container.image.as_deref().unwrap_or_default()),
            container_id: ran
                .then(|| format!("{SCHEME}{}/{uid}/{}/{restarts}", facts.boot, container.name)),
            ready,
            started: Some(ready),
            restart_count: restarts,
            state: Some(state.clone()),
            last_state: Some(last.clone()),
            ..ContainerStatus::default()
        })
        .collect()
}

/// The lowest address of the node's pods that is free: each node has a /24 of 10.128.0.0/9.
fn pod_address(facts: &Facts) -> Option<String> {
    let index = facts.index % (128 << 8);
    let address = |last: u8| format!("10.{}.{}.{last}", 128 + (index >> 8), index & 255);
    (2..=254).map(address).find(|address| !facts.taken.contains(address))
}

fn after(from: Timestamp, duration: Duration) -> Timestamp {
    from.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn second(at: Timestamp) -> Time {
    // The API knows whole seconds only.
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
