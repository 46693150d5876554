//! Draining: pods leave as they ask to. One that asks to be waited for is waited for, unless the
//! fault's policy sets a bound or a person asked for at once; one that does not end in time, or that a
//! disruption budget keeps beyond the bound, is killed. Without pods the first step is taken.

use super::facts::Cause;
use super::look::Look;
use super::open;
use super::{Act, PodSeen};
use crate::catalogue::Drain;
use crate::machine::{later, words};
use api::condition::{InService, Phase};
use api::incident::{End, Stage};
use api::treatment::Treatment;
use jiff::Timestamp;

pub(super) fn plan(look: &mut Look<'_>) {
    if let Some((end @ End::Withdrawn, why)) = open::no_longer(look) {
        return look.close(end, why);
    }
    if !look.cordoned() {
        return look.wait(InService::Cordoned, "cordons the node again".to_owned());
    }
    if !look.granted() {
        return look.enter(Stage::Open, None, "the grant is gone; asks anew".to_owned());
    }
    let pods: Vec<&PodSeen> = look.observed.pods.iter().filter(|pod| pod.holds).collect();
    if pods.is_empty() {
        return look.enter(Stage::Acting, None, "no work is left on the node".to_owned());
    }
    let drain = mode(look);
    let patience = later(look.status.since.unwrap_or(look.now()), look.observed.rules.patience);
    let mut waited = Vec::new();
    for pod in pods {
        match treat(look, pod, drain, patience) {
            Treat::Wait => waited.push(format!("{}/{}", pod.namespace, pod.name)),
            Treat::Evict { now } => evict(look, pod, now),
            Treat::Ending(until) => look.plan.wake_at(until),
        }
    }
    let kept = kept_until(look, patience);
    // Not when it is past: then what ends is waited for, and that is later.
    if drain == Drain::Graceful && kept > look.now() {
        look.plan.wake_at(kept);
    }
    if waited.is_empty() {
        return look.wait(InService::Draining, "ends the pods on the node".to_owned());
    }
    let bound = match drain {
        Drain::Graceful => {
            look.plan.wake_at(patience);
            format!(", for {} at most", words(look.observed.rules.patience))
        }
        Drain::Now | Drain::WhenIdle => String::new(),
    };
    let why = format!("waits for {} to end{bound}", waited.join(", "));
    look.wait(InService::WaitingForPods, why);
}

enum Treat {
    Wait,
    Evict { now: bool },
    Ending(Timestamp),
}

fn treat(look: &Look<'_>, pod: &PodSeen, drain: Drain, patience: Timestamp) -> Treat {
    if let Some(ending) = pod.ending {
        let late = later(later(ending, pod.grace), look.observed.rules.eviction);
        return if late <= look.now() { Treat::Evict { now: true } } else { Treat::Ending(late) };
    }
    match (drain, pod.treatment) {
        (Drain::Now, _) | (_, Treatment::Now) => Treat::Evict { now: true },
        (Drain::Graceful, _) if kept_until(look, patience) <= look.now() => {
            Treat::Evict { now: true }
        }
        (_, Treatment::Graceful) => Treat::Evict { now: false },
        (Drain::Graceful, Treatment::Wait) if patience <= look.now() => Treat::Evict { now: false },
        (_, Treatment::Wait) => Treat::Wait,
    }
}

/// How long the eviction of a pod may be refused, as by a disruption budget that nothing ever fits: a
/// sick node is not kept in service by what would never let it go.
fn kept_until(look: &Look<'_>, patience: Timestamp) -> Timestamp {
    later(patience, look.observed.rules.eviction)
}

fn evict(look: &mut Look<'_>, pod: &PodSeen, now: bool) {
    let why = look.headline();
    let act = Act::Evict {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        now,
    };
    look.deed(act, why);
}

/// How work ends: as the fault's policy says; at once if a person asked so; else when it is done.
fn mode(look: &Look<'_>) -> Drain {
    match &look.cause {
        Some(Cause::Phase { now: true, phase }) => {
            if *phase == Phase::Test {
                Drain::Graceful
            } else {
                Drain::Now
            }
        }
        Some(Cause::Phase { now: false, .. } | Cause::Release) | None => Drain::WhenIdle,
        Some(Cause::Fault(row)) => {
            let known = look.observed.catalogue.row(row);
            let policy = known.and_then(|row| look.observed.catalogue.policy(&row.policy));
            look.fault().map(|f| f.drain).or(policy.map(|p| p.drain)).unwrap_or(Drain::WhenIdle)
        }
    }
}
