//! Whether a node lives, and what keeps pods from one that does not.
//!
//! [`plan`] judges one node: silence makes its conditions unknown, conditions make taints that keep
//! new pods away. [`zones`] weighs all nodes, and sets the taints that drive pods away: a few at a
//! time, and none while everything seems gone, which is then more likely our own blindness.
//! Reasons, messages, taints and durations are kube-controller-manager's.

pub mod zones;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long a node may be silent.
pub const GRACE: SignedDuration = SignedDuration::from_secs(40);

/// How long a node that has never said that it is ready may be silent.
pub const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// Set while the node says that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Set while nothing is heard of the node.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

const READY: &str = "Ready";

/// The conditions that silence makes unknown.
const HEARD: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Conditions, the status that is a reason to keep pods away, and the taint that does.
const TAINTS: [(&str, &str, &str); 6] = [
    (READY, "False", NOT_READY),
    (READY, "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// All that the decision about a node rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// When the node was made.
    pub created: Timestamp,
    /// When something was last heard of it, by our clock; `None` if nothing was since it was made.
    pub heard: Option<Timestamp>,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Somebody has cordoned it.
    pub unschedulable: bool,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done about a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Set these conditions.
    pub conditions: Vec<NodeCondition>,
    /// Give it exactly these taints.
    pub taints: Option<Vec<Taint>>,
    /// Nobody vouches for its pods: they are not ready.
    pub lost: bool,
    /// When its silence will have lasted too long.
    pub next: Option<Timestamp>,
}

/// Decides about a node.
pub fn plan(observed: &Observed) -> Plan {
    let known = |type_: &str| observed.conditions.iter().find(|known| known.type_ == type_);
    let ready = known(READY);
    let grace = if ready.is_some() { GRACE } else { STARTUP_GRACE };
    let deadline = later(observed.heard.unwrap_or(observed.created), grace);
    let silent = observed.now >= deadline;
    let mut plan = Plan { next: (!silent).then_some(deadline), ..Plan::default() };
    if silent {
        let unknown = |type_: &&str| match known(type_) {
            Some(known) if known.status == "Unknown" => None,
            known => Some(silence(type_, known, observed)),
        };
        plan.conditions = HEARD.iter().filter_map(unknown).collect();
    }
    let status = |type_: &str| {
        let set = plan.conditions.iter().find(|set| set.type_ == type_);
        set.or(known(type_)).map(|condition| condition.status.as_str())
    };
    plan.lost = silent && status(READY) == Some("Unknown");
    let mut wanted: Vec<&str> =
        TAINTS.iter().filter(|(type_, is, _)| status(type_) == Some(is)).map(|row| row.2).collect();
    wanted.extend(observed.unschedulable.then_some(UNSCHEDULABLE));
    plan.taints = no_schedule(&observed.taints, &wanted);
    plan
}

/// The condition of a node of which nothing is heard.
fn silence(type_: &str, known: Option<&NodeCondition>, observed: &Observed) -> NodeCondition {
    let (reason, message) = match known {
        Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
        None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
    };
    let heartbeat = known.and_then(|known| known.last_heartbeat_time.clone());
    NodeCondition {
        type_: type_.to_owned(),
        status: "Unknown".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: heartbeat.or(Some(Time(whole(observed.created)))),
        last_transition_time: Some(Time(whole(observed.now))),
    }
}

/// The taints with exactly the wanted ones of ours; `None` if they are so already.
fn no_schedule(taints: &[Taint], wanted: &[&str]) -> Option<Vec<Taint>> {
    let ours = |taint: &Taint| {
        let known = TAINTS.iter().any(|row| row.2 == taint.key) || taint.key == UNSCHEDULABLE;
        known && taint.effect == "NoSchedule"
    };
    let stays = |taint: &&Taint| !ours(taint) || wanted.contains(&taint.key.as_str());
    let mut all: Vec<Taint> = taints.iter().filter(stays).cloned().collect();
    for key in wanted {
        if !all.iter().any(|taint| ours(taint) && taint.key == *key) {
            all.push(Taint {
                key: (*key).to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            });
        }
    }
    (all != taints).then_some(all)
}

fn later(from: Timestamp, by: SignedDuration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Whole seconds, the finest that the API keeps.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn condition(type_: &str, status: &str) -> NodeCondition {
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            ..NodeCondition::default()
        }
    }

    fn node(conditions: &[(&str, &str)], heard: Option<i64>, now: i64) -> Observed {
        Observed {
            created: at(0),
            heard: heard.map(at),
            conditions: conditions.iter().map(|(t, s)| condition(t, s)).collect(),
            taints: Vec::new(),
            unschedulable: false,
            now: at(now),
        }
    }

    fn keys(plan: &Plan) -> Vec<&str> {
        plan.taints.iter().flatten().map(|taint| taint.key.as_str()).collect()
    }

    #[test]
    fn a_node_is_looked_at_again_when_its_silence_is_too_long() {
        let good = plan(&node(&[("Ready", "True")], Some(100), 139));
        assert_eq!(good, Plan { next: Some(at(140)), ..Plan::default() });
        let silent = plan(&node(&[("Ready", "True")], Some(100), 140));
        assert_eq!(silent.next, None);
        assert!(silent.lost);
        assert_eq!(keys(&silent), [UNREACHABLE]);
        let reasons: Vec<_> = silent.conditions.iter().map(|c| c.reason.as_deref()).collect();
        let (was, never) = (Some("NodeStatusUnknown"), Some("NodeStatusNeverUpdated"));
        assert_eq!(reasons, [was, never, never, never]);
        let new = plan(&node(&[], None, 59));
        assert_eq!(new, Plan { next: Some(at(60)), ..Plan::default() });
    }

    #[test]
    fn conditions_make_taints_and_what_others_set_stays() {
        let mut observed = node(&[("Ready", "False"), ("DiskPressure", "True")], Some(100), 100);
        let taint = |key: &str, effect: &str| Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        observed.unschedulable = true;
        observed.taints = vec![taint("mine", "NoSchedule"), taint(UNREACHABLE, "NoSchedule")];
        let made = plan(&observed);
        let disk = "node.kubernetes.io/disk-pressure";
        assert_eq!(keys(&made), ["mine", NOT_READY, disk, UNSCHEDULABLE]);
        observed.taints = made.taints.unwrap();
        assert_eq!(plan(&observed).taints, None, "a fixed point");
    }
}
