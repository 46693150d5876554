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

/// Whether the pod's containers run, and do so during this boot of its node.
pub fn runs_in(pod: &Pod, boot: &str) -> bool {
    let first = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first());
    first.is_some_and(|first| {
        let running = first.state.as_ref().is_some_and(|state| state.running.is_some());
        running && began_in(first) == Some(boot)
    })
}

/// The boot that a container was started in.
fn began_in(container: &ContainerStatus) -> Option<&str> {
    let id = container.container_id.as_deref()?.strip_prefix(SCHEME)?;
    id.split_once('/').map(|(boot, _)| boot)
}

fn containers(facts: &Facts) -> Containers {
    let first = facts.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first());
    let Some(first) = first else { return Containers::None };
    let restarts = first.restart_count;
    let state = first.state.clone().unwrap_or_default();
    if let Some(since) = state.running.and_then(|running| running.started_at) {
        return if began_in(first) == Some(&facts.boot) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(START + seconds).unwrap()
    }

    /// A pod with these annotations and this restart policy, on a kubelet that saw it at second 0.
    struct World {
        facts: Facts,
    }

    impl World {
        fn new(policy: &str, annotations: &[(&str, &str)]) -> Self {
            let annotations: std::collections::BTreeMap<_, _> =
                annotations.iter().copied().collect();
            let pod = serde_json::from_value(json!({
                "metadata": {"name": "p", "uid": "u", "annotations": annotations},
                "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
            }));
            let facts = Facts {
                pod: Arc::new(pod.unwrap()),
                boot: "b1".to_owned(),
                index: 3,
                memory: Memory { seen: at(0), ending: None },
                taken: BTreeSet::from(["10.128.3.2".to_owned()]),
                now: at(0),
            };
            Self { facts }
        }

        /// Looks at the given second, writes what the kubelet says, and tells it in short.
        fn at(&mut self, seconds: i64) -> String {
            self.facts.now = at(seconds);
            let plan = plan(&self.facts);
            let mut told = match plan.status {
                None => "nothing".to_owned(),
                Some(status) => {
                    let mut pod = serde_json::to_value(&*self.facts.pod).unwrap();
                    for (field, value) in status.as_object().unwrap() {
                        pod["status"][field] = value.clone();
                    }
                    self.facts.pod = Arc::new(serde_json::from_value(pod).unwrap());
                    let status = self.facts.pod.status.as_ref().unwrap();
                    let first = &status.container_statuses.as_ref().unwrap()[0];
                    let state = first.state.as_ref().unwrap();
                    let how = match (&state.running, &state.waiting, &state.terminated) {
                        (Some(_), None, None) => "running".to_owned(),
                        (None, Some(waiting), None) => waiting.reason.clone().unwrap(),
                        (None, None, Some(ended)) => format!("exit {}", ended.exit_code),
                        _ => panic!("{state:?}"),
                    };
                    let ready = if first.ready { "ready" } else { "unready" };
                    let phase = status.phase.as_deref().unwrap();
                    format!("{phase} {ready} {how} x{}", first.restart_count)
                }
            };
            if plan.delete {
                told.push_str(", deleted");
            }
            if let Some(wake) = plan.wake {
                told.push_str(&format!(", again at {}", wake.as_second() - START));
            }
            told
        }

        fn reboot(&mut self, seconds: i64) {
            self.facts.boot = "b2".to_owned();
            self.facts.memory = Memory { seen: at(seconds), ending: None };
        }

        fn delete(&mut self, seconds: i64, grace: i64) {
            let mut pod = (*self.facts.pod).clone();
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            pod.metadata.deletion_grace_period_seconds = Some(grace);
            self.facts.pod = Arc::new(pod);
            self.facts.memory.ending = Some(at(seconds));
        }
    }

    #[test]
    fn a_job_starts_runs_and_ends() {
        let mut pod = World::new("Never", &[(annotations::RUNS_FOR, "90s")]);
        assert_eq!(pod.at(0), "nothing, again at 2");
        assert_eq!(pod.at(2), "Running ready running x0");
        let status = pod.facts.pod.status.clone().unwrap();
        assert_eq!(status.pod_ip.as_deref(), Some("10.128.3.3"));
        assert_eq!(status.host_ip.as_deref(), Some("10.64.0.3"));
        assert_eq!(pod.at(3), "nothing, again at 92");
        assert_eq!(pod.at(92), "Succeeded unready exit 0 x0");
        assert_eq!(pod.at(93), "nothing");
        let mut pod =
            World::new("Never", &[(annotations::RUNS_FOR, "1m"), (annotations::EXIT_CODE, "3")]);
        assert_eq!(pod.at(2), "Running ready running x0");
        assert_eq!(pod.at(62), "Failed unready exit 3 x0");
    }

    #[test]
    fn what_fails_is_started_again_more_and_more_rarely() {
        let mut pod = World::new(
            "OnFailure",
            &[
                (annotations::RUNS_FOR, "10s"),
                (annotations::EXIT_CODE, "1"),
                (annotations::STARTS_IN, "0s"),
            ],
        );
        assert_eq!(pod.at(0), "Running ready running x0");
        assert_eq!(pod.at(10), "Running ready running x1");
        assert_eq!(pod.at(20), "Running unready CrashLoopBackOff x1");
        assert_eq!(pod.at(20), "nothing, again at 30");
        assert_eq!(pod.at(30), "Running ready running x2");
        assert_eq!(pod.at(40), "Running unready CrashLoopBackOff x2");
        assert_eq!(pod.at(41), "nothing, again at 60");
        assert_eq!(backoff(i32::MAX), Duration::from_secs(300));
    }

    #[test]
    fn nothing_survives_a_reboot() {
        for (policy, after) in [
            ("Never", "Failed unready exit 137 x0"),
            ("Always", "nothing, again at 502"),
            ("OnFailure", "nothing, again at 502"),
        ] {
            let mut pod = World::new(policy, &[]);
            assert_eq!(pod.at(2), "Running ready running x0");
            assert_eq!(pod.at(400), "nothing", "it runs for ever");
            pod.reboot(500);
            assert_eq!(pod.at(500), after, "{policy}");
            let then = if policy == "Never" { "nothing" } else { "Running ready running x1" };
            assert_eq!(pod.at(502), then, "{policy}");
        }
    }

    #[test]
    fn a_pod_ends_when_asked_within_its_grace() {
        for (stops_in, grace, due, code) in [
            ("1s", 30, 101, 143),
            ("10s", 30, 110, 143),
            ("10m", 30, 130, 137),
            ("10m", 0, 100, 137),
        ] {
            let mut pod = World::new("Always", &[(annotations::STOPS_IN, stops_in)]);
            assert_eq!(pod.at(2), "Running ready running x0");
            pod.delete(100, grace);
            if due > 100 {
                assert_eq!(pod.at(100), format!("nothing, again at {due}"));
            }
            assert_eq!(pod.at(due), format!("Failed unready exit {code} x0, deleted"));
        }
        let mut pod = World::new("Always", &[]);
        pod.delete(0, 30);
        assert_eq!(pod.at(0), "nothing, deleted", "it never started");
        let mut pod = World::new("Always", &[]);
        assert_eq!(pod.at(2), "Running ready running x0");
        pod.reboot(500);
        pod.delete(510, 30);
        assert_eq!(pod.at(510), "Failed unready exit 137 x0, deleted");
    }

    #[test]
    fn a_deadline_ends_what_would_go_on() {
        let mut pod = World::new("Always", &[]);
        let mut object = (*pod.facts.pod).clone();
        object.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
        pod.facts.pod = Arc::new(object);
        assert_eq!(pod.at(2), "Running ready running x0");
        assert_eq!(pod.at(3), "nothing, again at 60");
        assert_eq!(pod.at(60), "Failed unready exit 137 x0");
        let status = pod.facts.pod.status.as_ref().unwrap();
        assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    }

    #[test]
    fn a_wrong_annotation_is_named_and_said_once() {
        for (name, value) in [
            (annotations::RUNS_FOR, "soon"),
            (annotations::RUNS_FOR, "-5s"),
            (annotations::EXIT_CODE, "256"),
        ] {
            let mut pod = World::new("Never", &[(name, value)]);
            assert_eq!(pod.at(0), "Pending unready CreateContainerConfigError x0");
            let status = pod.facts.pod.status.as_ref().unwrap();
            let first = &status.container_statuses.as_ref().unwrap()[0];
            let waiting = first.state.as_ref().unwrap().waiting.clone().unwrap();
            let message = waiting.message.unwrap();
            assert!(message.contains(name) && message.contains(value), "{message}");
            assert_eq!(pod.at(1), "nothing");
            pod.delete(2, 30);
            assert_eq!(pod.at(2), "nothing, deleted");
        }
    }
}
