//! Open: the node is cordoned, and what holds a repair back is waited for: the cause may show itself
//! outside the node, a breaker may be open, a budget used up.

use super::Act;
use super::facts::{Cause, Ready};
use super::look::Look;
use super::start;
use crate::budget::{self, Denied};
use crate::machine::later;
use api::condition::InService;
use api::incident::{End, Stage};
use api::ledger::{Grant, Kind};

pub(super) fn plan(look: &mut Look<'_>) {
    if let Some((end, why)) = no_longer(look) {
        return look.close(end, why);
    }
    if look.status.since.is_none() {
        let headline = look.headline();
        look.enter(Stage::Open, None, headline);
    }
    if let Some(fault) = look.fault() {
        let (start, policy) = (fault.start, look.observed.catalogue.row(fault.row.id.as_str()));
        let policy = policy.map(|row| row.policy.clone());
        look.status.rung = u32::try_from(start).unwrap_or(u32::MAX);
        look.status.policy = policy;
    }
    // A node that is well serves until its turn has come: two that were cordoned first and are
    // counted as out would wait for each other for ever.
    let ill = matches!(look.cause, Some(Cause::Fault(_)));
    if (ill || look.granted()) && !look.cordoned() {
        let headline = look.headline();
        return look.wait(InService::Cordoned, headline);
    }
    let settled = match (&look.cause, look.observed.incident) {
        (Some(Cause::Fault(_)), Some(incident)) => {
            later(incident.spec.opened, look.observed.rules.settle)
        }
        _ => look.now(),
    };
    if settled > look.now() {
        let headline = look.headline();
        look.plan.wake_at(settled);
        return look.wait(InService::WaitingForSettling, headline);
    }
    if look.held_by_breaker() {
        return;
    }
    if look.granted() && unproven(look) {
        // Another test than the one that was broken off, if one was.
        look.status.tries = look.status.tries.saturating_add(1);
        let (limit, why) =
            (look.observed.rules.verify, "its repair is still to be proven".to_owned());
        look.say(InService::Verifying, why.clone());
        return look.enter(Stage::Verifying, Some(limit), why);
    }
    if look.granted() {
        let why = "pods leave as they ask to".to_owned();
        look.say(InService::Draining, why.clone());
        return look.enter(Stage::Draining, None, why);
    }
    let Some(grant) = wanted(look) else { return };
    let observed = look.observed;
    match budget::grant(observed.ledger, observed.census, &grant, observed.pool_limit()) {
        Ok(_) => {
            let why = look.headline();
            look.deed(Act::TakeGrant { grant }, why.clone());
            look.wait(InService::WaitingForBudget, "takes its turn".to_owned());
        }
        Err(denied) => look.wait(InService::WaitingForBudget, denied.to_string()),
    }
}

/// What kind of grant the incident lacks, and why it is not given now.
pub(super) fn denied(look: &Look<'_>) -> Option<(Kind, Denied)> {
    if look.status.stage != Stage::Open || look.granted() {
        return None;
    }
    let (wanted, observed) = (wanted(look)?, look.observed);
    let asked = budget::grant(observed.ledger, observed.census, &wanted, observed.pool_limit());
    asked.err().map(|denied| (wanted.kind, denied))
}

/// Whether the fault is gone after a step that was taken against it, and no test has said since that
/// the node is well: a person may have stopped the repair in between.
fn unproven(look: &Look<'_>) -> bool {
    matches!(look.cause, Some(Cause::Fault(_)))
        && look.fault().is_none()
        && look.status.acted.is_some()
}

/// Why the incident's cause no longer holds, if it does not.
pub(super) fn no_longer(look: &Look<'_>) -> Option<(End, String)> {
    match look.cause.as_ref()? {
        Cause::Fault(_) if look.fault().is_none() && !unproven(look) => {
            Some((End::Vanished, "the fault is gone, or was of an earlier boot".to_owned()))
        }
        cause @ Cause::Phase { phase, .. } => {
            let asked = look.observed.node.and_then(|node| node.condition(cause.condition()?));
            let still = asked.is_some_and(|c| c.holds && c.reason == phase.name());
            (!still).then(|| (End::Withdrawn, "it is asked for no longer".to_owned()))
        }
        Cause::Release if !start::leaving(look) => {
            Some((End::Withdrawn, "the machine is assigned to its pool again".to_owned()))
        }
        _ => None,
    }
}

fn wanted(look: &Look<'_>) -> Option<Grant> {
    let (node, machine) = (look.observed.node?, look.observed.machine);
    let status = machine.status.as_ref();
    // One with a fault takes no new work since its incident was opened: it is out already.
    let broken = matches!(look.cause, Some(Cause::Fault(_)));
    let idle_spare = status.is_some_and(|status| status.pool.is_none());
    let kind = if broken || idle_spare || node.ready != Ready::Yes {
        Kind::Repair
    } else {
        Kind::Disruption
    };
    Some(Grant {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        incident: look.incident().to_owned(),
        kind,
        pool: status.and_then(|status| status.pool.clone()),
        rack: machine.spec.place.rack.clone(),
        tenant: status.and_then(|status| status.tenant.clone()),
        since: look.now(),
    })
}
