//! Production: the machine serves a pool, or is a proven spare. Nothing is done to it here but what
//! is asked; each request is a short sequence of effects, and its answer says how it went.

use super::look::{Look, later};
use super::request::{answer, is_routine};
use super::{Failure, Next};
use crate::deed::Event;
use api::machine::Progress;
use api::request::{Ask, Chore, Effect, Outcome, Power, Request};
use api::state::{Role, State};

/// Tries of one effect on request; whoever asked knows what to do next.
const TRIES: u32 = 2;

/// The request that is being carried out.
pub(super) fn request<'a>(look: &Look<'a>) -> Option<&'a Request> {
    let request = look.observed.machine.spec.request.as_ref()?;
    let answer = look.status.answer.as_ref()?;
    (answer.id == request.id && answer.outcome == Outcome::Running).then_some(request)
}

pub(super) fn next(look: &mut Look<'_>) -> Next {
    serve(look);
    if let Some(request) = request(look) {
        if let Some((effect, target)) = step(look, request) {
            let why = request.why.clone();
            return Next::Do { stage: stage(request.ask), effect, target, why };
        }
        let what = format!("{:?} for {}", request.ask, request.by);
        if !is_routine(request) {
            look.plan.events.push(Event::normal("RequestDone", format!("{what} is done")));
            look.record(&format!("{:?}", request.ask), &request.why);
        }
        answer(look, request, Outcome::Succeeded, format!("{what} is done"));
        settle(look);
    }
    if look.status.node.is_none() {
        return join(look);
    }
    Next::Rest { why: serving(look) }
}

/// A failed effect fails its request after a second try; what the lifecycle itself did in vain
/// (make the node join) sends the machine to Triage.
pub(super) fn failed(look: &mut Look<'_>, failure: &Failure) {
    look.status.attempts = look.status.attempts.saturating_add(1);
    let spent = look.status.attempts >= TRIES;
    let Some(request) = request(look) else {
        if spent {
            return look.go(State::Triage, format!("no node joins: {}", failure.why));
        }
        return look.retry(&failure.why);
    };
    if !spent && !failure.verdict {
        return look.retry(&failure.why);
    }
    look.plan.events.push(Event::warning(
        "RequestFailed",
        format!("{:?} for {} failed: {}", request.ask, request.by, failure.why),
    ));
    look.record(&format!("{:?} failed", request.ask), &failure.why);
    answer(look, request, Outcome::Failed, failure.why.clone());
    settle(look);
    look.wait("", serving(look), None);
}

/// Forgets the last request's progress.
pub(super) fn settle(look: &mut Look<'_>) {
    look.status.progress = Progress::default();
    look.status.attempts = 0;
    look.status.retry_at = None;
}

/// Role, pool and tenant, as assigned. A machine that still holds a tenant's data never takes
/// another's assignment: it must pass through Zap first, which the node controller asks for.
fn serve(look: &mut Look<'_>) {
    let Some(assigned) = &look.observed.machine.spec.assignment else {
        if look.status.pool.is_none() {
            look.status.role = Role::Spare;
        }
        return;
    };
    let clean = look.status.tenant.as_ref().is_none_or(|tenant| *tenant == assigned.tenant);
    let free = look.status.pool.as_ref().is_none_or(|pool| *pool == assigned.pool);
    if clean && free && look.status.pool.is_none() {
        look.plan.events.push(Event::normal(
            "JoinedPool",
            format!("serves pool {} of tenant {}", assigned.pool, assigned.tenant),
        ));
        look.record("pool", &format!("serves pool {} of {}", assigned.pool, assigned.tenant));
        look.status.role = Role::Member;
        look.status.pool = Some(assigned.pool.clone());
        look.status.tenant = Some(assigned.tenant.clone());
    }
}

fn serving(look: &Look<'_>) -> String {
    let assigned = look.observed.machine.spec.assignment.as_ref();
    match (&look.status.pool, assigned) {
        (Some(pool), Some(assigned)) if *pool == assigned.pool => format!("serves pool {pool}"),
        (Some(pool), _) => format!("leaves pool {pool} once its node is empty"),
        (None, Some(assigned)) => {
            format!("must be wiped before it can serve pool {}", assigned.pool)
        }
        (None, None) => "kept free as a spare".to_owned(),
    }
}

/// Sees to it that a node joins.
fn join(look: &Look<'_>) -> Next {
    let boot = look.status.agent.as_ref().map(|agent| agent.since);
    let from = boot.max(look.status.since).unwrap_or_else(|| look.now());
    let until = later(from, look.observed.rules.join);
    if until > look.now() {
        let why = "waits for the node to join the cluster".to_owned();
        return Next::Wait { stage: "joining", why, until: Some(until) };
    }
    if look.status.progress.booted.is_some() {
        return Next::Fail { why: "the node did not join after a reboot".to_owned() };
    }
    let why = "no node has joined; boot anew".to_owned();
    Next::Do { stage: "joining", effect: Effect::Power(Power::Cycle), target: None, why }
}

/// The next effect of a request; none when all are done.
fn step(look: &Look<'_>, request: &Request) -> Option<(Effect, Option<String>)> {
    let progress = &look.status.progress;
    let restart =
        if look.status.attempts == 0 { Power::GracefulRestart } else { Power::ForceRestart };
    let part = || request.target.clone();
    match request.ask {
        Ask::ResetGpu if progress.mended.is_none() => {
            Some((Effect::Chore(Chore::ResetGpu), part()))
        }
        Ask::RestartService if progress.mended.is_none() => {
            Some((Effect::Chore(Chore::RestartService), part()))
        }
        Ask::Reboot if progress.booted.is_none() => Some((Effect::Power(restart), None)),
        Ask::PowerCycle if progress.cycled.is_none() => Some((Effect::Power(Power::Cycle), None)),
        Ask::Reconfigure if progress.flashed.is_none() => {
            Some((Effect::Chore(Chore::Firmware), None))
        }
        Ask::Reconfigure if progress.cycled.is_none() => Some((Effect::Power(Power::Cycle), None)),
        Ask::Test if progress.tested.is_none() && progress.diagnosed.is_none() => {
            Some((Effect::Chore(level(request)), None))
        }
        _ => None,
    }
}

fn level(request: &Request) -> Chore {
    match request.target.as_deref() {
        Some("readiness") => Chore::TestReadiness,
        Some("idle") => Chore::TestIdle,
        Some("full") => Chore::TestFull,
        Some("diagnose") => Chore::Diagnose,
        _ => Chore::TestQuick,
    }
}

const fn stage(ask: Ask) -> &'static str {
    match ask {
        Ask::ResetGpu => "GPU reset",
        Ask::RestartService => "service restart",
        Ask::Reboot => "reboot",
        Ask::PowerCycle => "power cycle",
        Ask::Reconfigure => "reconfigure",
        _ => "test",
    }
}
