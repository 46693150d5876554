//! A node without an open incident: is there a cause to open one?
//!
//! Requests come first, then the worst fault. What an incident that is over left behind is taken
//! back. A request that was carried out is only marked as done, however often it is read; a fault
//! whose evidence is older than its proven cure is stale.

use super::Act;
use super::facts::{Cause, Fault, Ready};
use super::look::Look;
use crate::verify;
use api::condition::{InService, Node, Phase};
use api::evidence::Evidence;
use api::incident::{End, IncidentSpec};
use api::names::manager;
use api::request::{Ask, Outcome, Request};
use api::state::State;
use jiff::Timestamp;

pub(super) fn plan(look: &mut Look<'_>) {
    take_back(look);
    let Some(node) = look.observed.node else { return };
    if let Some(left) = node.cordoned_for.clone() {
        let why = format!("incident {left} is over");
        look.deed(Act::Uncordon { incident: left }, why);
    }
    if look.observed.machine.state() != State::Production || node.hands_off.is_some() {
        return;
    }
    if phase(look, Node::ImmediatePhase) || phase(look, Node::PendingPhase) || release(look) {
        return;
    }
    if node.cordoned_by_person() {
        return;
    }
    let worst = look.faults.iter().find(|fault| fault.acts() && !cured(look, fault));
    if let Some(fault) = worst.cloned() {
        let seen = match &fault.part {
            Some(part) => format!("{} ({part})", fault.text),
            None => fault.text.clone(),
        };
        let spec = Case {
            cause: Cause::Fault(fault.row.id.as_str().to_owned()),
            by: fault.by.clone(),
            boot: fault.boot.clone(),
            part: fault.part.clone(),
            evidence: vec![seen, fault.row.meaning.clone()],
        };
        return open(look, spec, fault.since);
    }
    idle_test(look);
}

/// Tests a node that nobody uses, and takes the test back as soon as somebody does.
fn idle_test(look: &mut Look<'_>) {
    let (Some(node), machine) = (look.observed.node, look.observed.machine) else { return };
    let busy = look.observed.pods.iter().any(|pod| pod.holds);
    if let Some(there) = &machine.spec.request
        && look.answer(&there.id).is_none_or(|answer| answer.outcome == Outcome::Running)
    {
        if busy && is_idle_test(there) {
            let act = Act::Withdraw { id: there.id.clone() };
            look.deed(act, "work has arrived; it goes before the test".to_owned());
        }
        return;
    }
    let idle = node.condition(Node::Active.name()).filter(|active| !active.holds);
    let tests = machine.status.as_ref().map(|status| status.tests.as_slice()).unwrap_or_default();
    let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
    let tried = answer.filter(|answer| answer.id.starts_with(IDLE)).map(|answer| answer.at);
    let rules = look.observed.rules;
    let due = idle.and_then(|idle| verify::idle_test_due(idle.since, tests, tried, rules));
    let Some(due) = due.filter(|_| !busy && node.ready == Ready::Yes) else { return };
    if due > look.now() {
        return look.plan.wake_at(due);
    }
    let why = "the node is idle and due for its test".to_owned();
    let request = Request {
        id: format!("{IDLE}{}-{:x}", node.name, look.now().as_millisecond()),
        ask: Ask::Test,
        target: Some("idle".to_owned()),
        by: manager::NODE.to_owned(),
        why: why.clone(),
        evidence: Vec::new(),
        incident: None,
        node_uid: Some(node.uid.clone()),
        boot: node.boot.clone(),
        shown: None,
        at: look.now(),
    };
    look.deed(Act::Ask(Box::new(request)), why);
}

/// How the requests of idle tests begin.
const IDLE: &str = "idle-";

/// Whether a request is a test of idle time of ours, for which nothing waits.
pub fn is_idle_test(request: &Request) -> bool {
    request.by == manager::NODE && request.id.starts_with(IDLE)
}

/// Takes back the grants and the request of incidents that are over, also where their node is gone:
/// whoever closed them may have died before.
fn take_back(look: &mut Look<'_>) {
    let observed = look.observed;
    let over = |incident: &str| {
        observed.past.iter().any(|past| past.metadata.name.as_deref() == Some(incident))
    };
    for grant in observed.ledger.status.iter().flat_map(|status| &status.grants) {
        let here = observed.node.is_some_and(|node| node.uid == grant.node_uid);
        if here || over(&grant.incident) {
            let node_uid = grant.node_uid.clone();
            let left_by = Some(grant.incident.clone());
            let act = Act::ReturnGrant { node_uid, left_by };
            look.deed(act, "no incident needs it".to_owned());
        }
    }
    let Some(request) = &observed.machine.spec.request else { return };
    let answered = look.answer(&request.id).is_some_and(|a| a.outcome != Outcome::Running);
    if !answered && request.incident.as_deref().is_some_and(over) {
        let id = request.id.clone();
        look.deed(Act::Withdraw { id }, "its incident is over".to_owned());
    }
}

/// What an incident is opened for.
struct Case {
    cause: Cause,
    by: String,
    boot: Option<String>,
    part: Option<String>,
    evidence: Vec<String>,
}

/// Opens an incident for a phase that is asked for.
fn phase(look: &mut Look<'_>, kind: Node) -> bool {
    let Some(node) = look.observed.node else { return false };
    let Some(asked) = node.condition(kind.name()).filter(|condition| condition.holds) else {
        return false;
    };
    let Some(phase) = Phase::read(&asked.reason) else {
        let known: Vec<&str> = Phase::ALL.iter().map(|phase| phase.name()).collect();
        let why = format!("there is no phase {:?}; there are {}", asked.reason, known.join(", "));
        look.deed(Act::ClearPhase { condition: kind.name(), why: why.clone() }, why);
        return false;
    };
    let cause = Cause::Phase { phase, now: kind == Node::ImmediatePhase };
    let word = cause.word();
    let done = look.observed.past.iter().find(|past| {
        past.spec.cause == word
            && past.spec.node_uid == node.uid
            && past.spec.opened >= asked.since
            && past.status.as_ref().is_some_and(|status| status.end != Some(End::Withdrawn))
    });
    if let Some(done) = done {
        let name = done.metadata.name.as_deref().unwrap_or_default();
        let why = format!("done: see incident {name}");
        look.deed(Act::ClearPhase { condition: kind.name(), why: why.clone() }, why);
        return true;
    }
    let busy = look.observed.pods.iter().any(|pod| pod.holds);
    let waits = matches!(phase, Phase::Reboot | Phase::PowerReset | Phase::Test);
    if kind == Node::PendingPhase && waits && busy {
        look.say(InService::Serving, format!("{phase} is carried out once the node is idle"));
        return false;
    }
    let evidence = vec![Evidence::read(&asked.message).text];
    let (by, since) = (asked.by.clone(), asked.since);
    open(look, Case { cause, by, boot: node.boot.clone(), part: None, evidence }, since);
    true
}

/// Opens an incident for a node that its pool gives back.
fn release(look: &mut Look<'_>) -> bool {
    if !leaving(look) {
        return false;
    }
    let status = look.observed.machine.status.as_ref();
    let since = status.and_then(|status| status.since).unwrap_or(look.now());
    let pool = status.and_then(|status| status.pool.clone()).unwrap_or_default();
    let case = Case {
        cause: Cause::Release,
        by: manager::POOL.to_owned(),
        boot: look.observed.node.and_then(|node| node.boot.clone()),
        part: None,
        evidence: vec![format!("the machine is no longer assigned to pool {pool}")],
    };
    open(look, case, since);
    true
}

/// Whether the machine serves a pool that it is no longer assigned to.
pub(super) fn leaving(look: &Look<'_>) -> bool {
    let machine = look.observed.machine;
    let pool = machine.status.as_ref().and_then(|status| status.pool.as_ref());
    let assigned = machine.spec.assignment.as_ref().map(|assigned| &assigned.pool);
    pool.is_some() && pool != assigned
}

/// Whether a proven cure came after the evidence.
fn cured(look: &Look<'_>, fault: &Fault<'_>) -> bool {
    look.observed.past.iter().any(|past| {
        let status = past.status.as_ref();
        past.spec.cause == fault.row.id.as_str()
            && past.spec.part == fault.part
            && status.is_some_and(|s| {
                s.end == Some(End::Solved) && s.acted.is_some_and(|at| at >= fault.since)
            })
    })
}

/// Opens an incident, named after what it is opened for: reading the same cause twice opens one.
fn open(look: &mut Look<'_>, case: Case, since: Timestamp) {
    let Some(node) = look.observed.node else { return };
    let base = format!("{}-{:x}", node.name, since.as_millisecond());
    let before = look
        .observed
        .past
        .iter()
        .filter(|past| past.metadata.name.as_ref().is_some_and(|name| name.starts_with(&base)))
        .count();
    let name = if before == 0 { base } else { format!("{base}-{before}") };
    let spec = IncidentSpec {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        machine: look.observed.machine.name().to_owned(),
        cause: case.cause.word(),
        by: case.by,
        boot: case.boot,
        part: case.part,
        evidence: case.evidence,
        opened: look.now(),
    };
    let why = spec.evidence.first().cloned().unwrap_or_default();
    look.deed(Act::OpenIncident { name, spec }, why);
}
