//! Rules that both explorers judge by, as functions of objects: over tables in memory and over the
//! embedded server the same things are wrong.

use api::Machine;
use api::ledger::{Grant, LedgerSpec, Limit};
use api::request::Outcome;
use api::state::State;

/// Whether more is granted than a scope of the ledger allows. Limits in percent are not looked at:
/// whoever explores sets numbers.
pub(super) fn over_budget(spec: &LedgerSpec, grants: &[Grant]) -> bool {
    let limit =
        |limit: Limit| usize::try_from(limit.nodes.unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
    let over = |grant: &Grant| {
        let pool = grants.iter().filter(|g| g.pool.is_some() && g.pool == grant.pool).count();
        let tenant =
            grants.iter().filter(|g| g.tenant.is_some() && g.tenant == grant.tenant).count();
        let rack = grants.iter().filter(|g| g.rack == grant.rack).count();
        pool > limit(spec.pool) || tenant > limit(spec.tenant) || rack > limit(spec.rack)
    };
    grants.len() > limit(spec.fleet) || grants.iter().any(over)
}

/// Whether a machine with one tenant's data is given to another.
pub(super) fn mixed(data: Option<&str>, tenant: Option<&str>) -> bool {
    data.zip(tenant).is_some_and(|(data, tenant)| data != tenant)
}

/// How a machine has not ended, though faults have stopped and there was time.
pub(super) fn unended(machine: &Machine) -> Option<String> {
    let (name, state) = (machine.name(), machine.state());
    let status = machine.status.clone().unwrap_or_default();
    let certified = machine.spec.certified >= status.onboardings;
    let ended = matches!(state, State::Production | State::Debug | State::Rma)
        || state == State::Onboard && !certified;
    (!ended).then(|| format!("{name} is left in {state}: {}", status.why))
}

/// Whether what was asked of a machine has had no answer.
pub(super) fn unanswered(machine: &Machine) -> bool {
    let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
    machine.spec.request.as_ref().is_some_and(|request| {
        !answer.is_some_and(|a| a.id == request.id && a.outcome != Outcome::Running)
    })
}
