//! A lint over plans: what must hold of every plan, whatever was observed.
//!
//! Tests, the schedule explorer and the simulator run it over each plan they make. A finding is a
//! bug of the planner, never of the world.

use crate::deed::{Deed, Plan};
use crate::{machine, node};
use api::incident::{IncidentStatus, Stage};
use api::machine::MachineStatus;
use api::names::manager;
use api::request::{Effect, Outcome};
use api::state::State;
use jiff::Timestamp;

/// What is wrong with a plan for a machine.
pub fn machine(
    observed: &machine::Observed<'_>,
    plan: &Plan<machine::Act, MachineStatus>,
) -> Vec<String> {
    let mut wrong = common(observed.now, plan.wake, &plan.deeds);
    let old = observed.machine.status.clone().unwrap_or_default();
    let new = plan.status.as_ref().unwrap_or(&old);
    if new.state != old.state {
        let by_person = observed.machine.spec.request.as_ref().is_some_and(|request| {
            request.ask.leaves() && machine::may_be_sent(old.state, new.state)
        });
        if !by_person && !machine::may_follow(old.state, new.state) {
            wrong.push(format!("no arrow leads from {} to {}", old.state, new.state));
        }
        if new.operation.is_some() {
            wrong.push(format!("{} was entered with an operation under way", new.state));
        }
    }
    let bounded =
        new.deadline.is_some() || new.state.waits_for_people() || new.state == State::Production;
    if !bounded {
        wrong.push(format!("{} has no deadline", new.state));
    }
    if new.why.is_empty() {
        wrong.push(format!("nothing is said about {}", new.state));
    }
    if new.task.as_ref().map(|task| &task.id)
        != new.operation.as_ref().filter(|o| matches!(o.effect, Effect::Chore(_))).map(|o| &o.id)
    {
        wrong.push("task and operation differ".to_owned());
    }
    for deed in &plan.deeds {
        let machine::Act::Power { power, operation } = &deed.act else { continue };
        let recorded = new
            .operation
            .as_ref()
            .is_some_and(|there| there.id == *operation && there.effect == Effect::Power(*power));
        if !recorded {
            wrong.push(format!("{power:?} is done and not written down"));
        }
        if observed.machine.hands_off().is_some() {
            wrong.push(format!("{power:?} against a person's hands-off"));
        }
        if deed.fence.machine_uid.is_none() || deed.fence.generation.is_none() {
            wrong.push(format!("{power:?} without a fence"));
        }
    }
    let tenants = (&old.tenant, &new.tenant);
    if let (Some(before), Some(after)) = tenants
        && before != after
    {
        wrong.push(format!("passes from tenant {before} to {after} without a wipe"));
    }
    let moves =
        new.state != old.state || new.state == State::Production || new.state.waits_for_people();
    let stuck = plan.is_idle() && plan.wake.is_none() && !moves;
    if stuck && observed.kind.is_some() {
        wrong.push(format!("{} waits for nothing", new.state));
    }
    let running = old.answer.as_ref().filter(|answer| answer.outcome == Outcome::Running);
    if let (Some(running), Some(now)) = (running, &new.answer)
        && running.id != now.id
        && now.outcome == Outcome::Running
        && old.operation.is_some()
        && new.operation == old.operation
    {
        wrong.push(format!("{} takes over the operation of {}", now.id, running.id));
    }
    wrong
}

/// What is wrong with a plan for a node.
pub fn node(observed: &node::Observed<'_>, plan: &Plan<node::Act, IncidentStatus>) -> Vec<String> {
    use node::Act;
    let mut wrong = common(observed.now, plan.wake, &plan.deeds);
    let seen = observed.node;
    let person = seen.is_some_and(node::NodeSeen::cordoned_by_person);
    let held = |uid: &str| {
        let grants = observed.ledger.status.iter().flat_map(|status| &status.grants);
        grants.into_iter().any(|grant| grant.node_uid == uid)
    };
    for deed in &plan.deeds {
        match &deed.act {
            Act::Uncordon { incident }
                if seen.and_then(|node| node.cordoned_for.as_ref()) != Some(incident) =>
            {
                wrong.push("takes a cordon back that is not ours".to_owned());
            }
            Act::Cordon { .. } if person => {
                wrong.push("cordons over a person's cordon".to_owned());
            }
            // A test of an idle node disturbs nobody and needs neither grant nor incident.
            Act::Ask(request) if observed.incident.is_none() => {
                let busy = observed.pods.iter().any(|pod| pod.holds);
                if request.ask.disrupts() || busy || person {
                    wrong.push(format!("{} without an incident", request.id));
                }
            }
            Act::Evict { .. } | Act::Ask(_) => {
                if seen.is_none_or(|node| !held(&node.uid)) {
                    wrong.push(format!("{:?} without a grant", deed.act));
                }
                if seen.is_some_and(|node| node.hands_off.is_some()) {
                    wrong.push(format!("{:?} against a person's hands-off", deed.act));
                }
                if deed.fence.incident.is_none() || deed.fence.node_uid.is_none() {
                    wrong.push(format!("{:?} without a fence", deed.act));
                }
                if seen.is_some_and(|node| !node.unschedulable) {
                    wrong.push(format!("{:?} on a node that takes new work", deed.act));
                }
                let fault = observed.incident.is_some_and(|i| {
                    !i.spec.cause.contains("phase") && !i.spec.cause.starts_with("pool/")
                });
                if person && fault {
                    wrong.push(format!("{:?} against a person's cordon", deed.act));
                }
            }
            _ => {}
        }
        if let (Act::Ask(request), Some(_)) = (&deed.act, observed.incident) {
            let status = plan.status.as_ref().or(observed.incident.and_then(|i| i.status.as_ref()));
            if status.and_then(|status| status.request.as_ref()) != Some(&request.id) {
                wrong.push(format!("{} is asked and not written down", request.id));
            }
            if request.by != manager::NODE {
                wrong.push(format!("{} is asked in another's name", request.id));
            }
        }
    }
    if let Some(status) = &plan.status {
        if status.stage == Stage::Closed && (status.end.is_none() || status.closed.is_none()) {
            wrong.push("closed without an end".to_owned());
        }
        if status.why.is_empty() {
            wrong.push(format!("nothing is said about {:?}", status.stage));
        }
    }
    wrong
}

/// What must hold of every plan.
fn common<A: std::fmt::Debug>(
    now: Timestamp,
    wake: Option<Timestamp>,
    deeds: &[Deed<A>],
) -> Vec<String> {
    let mut wrong = Vec::new();
    if wake.is_some_and(|wake| wake <= now) {
        wrong.push("wakes in the past".to_owned());
    }
    for deed in deeds {
        if deed.because.who.is_empty() || deed.because.why.is_empty() {
            wrong.push(format!("{:?} without who or why", deed.act));
        }
    }
    for (index, deed) in deeds.iter().enumerate() {
        let again = deeds
            .iter()
            .skip(index + 1)
            .any(|other| format!("{:?}", other.act) == format!("{:?}", deed.act));
        if again {
            wrong.push(format!("{:?} twice in one plan", deed.act));
        }
    }
    wrong
}
