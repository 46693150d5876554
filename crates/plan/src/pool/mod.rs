//! Which machines serve a pool, and why there are not as many as wanted.
//!
//! A machine is assigned and released by its object alone; the machine's own lifecycle makes it
//! serve, the node's empties it. A sick member is replaced before it leaves (prefill): it stays
//! assigned until its incident ends, and the pool holds one more until then. What is one too many
//! afterwards leaves when it is idle. The replacement is the spare nearest to the sick one.

mod admit;
mod near;
mod rates;
mod size;

use crate::capacity::{self, Outages};
use crate::deed::{Because, Deed, Event, Fence, Plan};
use crate::machine::later;
use crate::node::{Cause, cause};
use api::condition::{AtTarget, Pool as Kind, Valid};
use api::incident::Stage;
use api::machine::Assignment;
use api::names::manager;
use api::node_pool::{NodePoolStatus, ScaleDown};
use api::state::{Role, State};
use api::{Incident, InstanceType, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::time::Duration;

pub use admit::{Refusal, admit};
pub use near::{near, nearest};
pub use rates::{Outage, WINDOW, bring_up, brought_up, mean_out, outage};
pub use size::availability;

/// A machine as a pool sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Whether its node takes work: ready, not cordoned, no incident.
    pub in_service: bool,
    /// Whether an incident is open that takes it out of service, or no incident can be: it is not
    /// ready, and a person forbade automatic action. Another may take its place meanwhile.
    pub sick: bool,
    /// Whether a person cordoned it or forbade automatic action.
    pub kept: bool,
    /// Whether nothing of a user runs on it.
    pub idle: bool,
}

/// Everything that a decision about a pool rests on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The time, from the controller's clock.
    pub now: Timestamp,
    /// The pool.
    pub pool: &'a NodePool,
    /// Every instance type.
    pub kinds: &'a [InstanceType],
    /// Every machine of the pool's type, and every machine assigned to it.
    pub seats: &'a [Seat<'a>],
    /// Mean number of nodes of the type that are out at one time, from measured failures and
    /// repairs: failures a day, times nodes, times mean days out.
    pub mean_out: f64,
    /// How long a machine takes from power-on to production, for promises.
    pub bring_up: Duration,
}

/// What is done about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write the assignment into the machine's spec. Refused if another stands there.
    Assign {
        /// The machine.
        machine: String,
        /// The assignment.
        assignment: Assignment,
    },
    /// Take the pool's assignment out of the machine's spec.
    Release {
        /// The machine.
        machine: String,
    },
}

/// The share of time in which a pool's spares are to suffice.
pub const PROMISE: f64 = 0.999;

/// What is to be done about a pool now.
pub fn plan(observed: &Observed<'_>) -> Plan<Act, NodePoolStatus> {
    let mut plan = Plan::default();
    let pool = observed.pool;
    let old = pool.status.clone().unwrap_or_default();
    let mut status = NodePoolStatus {
        observed_generation: pool.metadata.generation,
        conditions: old.conditions.clone(),
        ..NodePoolStatus::default()
    };
    let members: Vec<&Seat<'_>> =
        observed.seats.iter().filter(|seat| is_member(pool, seat)).collect();
    let healthy = members.iter().filter(|seat| seat.in_service && serves(pool, seat)).count();
    let sick: Vec<&Seat<'_>> =
        members.iter().copied().filter(|seat| seat.sick || left(seat)).collect();
    let coming = members.len() - healthy - sick.len();
    status.current = count(healthy);
    status.in_progress = count(coming);
    let verdict = admit(pool, observed.kinds);
    let wanted = match &verdict {
        Ok(()) => target(pool),
        Err(_) => members.len() - sick.len(),
    };
    status.target = count(wanted);
    let mut free: Vec<&Seat<'_>> = observed.seats.iter().filter(|seat| fits(pool, seat)).collect();
    status.spares_wanted = pool.spec.spares.unwrap_or_else(|| sized(observed.mean_out));
    let have = healthy + coming;
    let room = pool.spec.quota.map_or(usize::MAX, |quota| as_size(quota).saturating_sub(have));
    let missing = wanted.saturating_sub(have);
    let takes = missing.min(room);
    let mut taken = 0;
    for seat in sick.iter().take(takes) {
        let Some(index) = nearest(Some(seat.machine), &free) else { break };
        assign(&mut plan, observed, free.swap_remove(index).machine, seat.sick.then_some(*seat));
        taken += 1;
    }
    // The rest stand beside the first, ranked once however many they are.
    near::farthest_first(members.first().map(|seat| seat.machine), &mut free);
    while taken < takes {
        let Some(seat) = free.pop() else { break };
        assign(&mut plan, observed, seat.machine, None);
        taken += 1;
    }
    for seat in members.iter().filter(|seat| left(seat)) {
        let why =
            format!("the machine is in {}, and will return as anybody's", seat.machine.state());
        let act = Act::Release { machine: seat.machine.name().to_owned() };
        plan.deeds.push(deed(observed, seat.machine, act, why));
    }
    if have > wanted {
        release(&mut plan, observed, &members, have - wanted);
    }
    // Those that leave serve until their nodes are empty.
    status.in_progress = count(coming + taken);
    status.spares = count(free.len());
    status.prefill = count(sick.len().min((have + taken + sick.len()).saturating_sub(wanted)));
    status.queued = count(missing - taken);
    explain(
        &mut status,
        observed,
        &verdict,
        Numbers { wanted, healthy, taken, missing, room, sick: sick.len() },
    );
    if old != status {
        plan.status = Some(status);
    }
    plan
}

/// Gives back the machines that serve a pool which no longer exists.
pub fn disband(pool: &str, members: &[&Machine]) -> Plan<Act, NodePoolStatus> {
    let mut plan = Plan::default();
    for machine in members {
        let why = format!("pool {pool} is gone");
        let act = Act::Release { machine: machine.name().to_owned() };
        plan.deeds.push(because(pool, machine, act, why));
    }
    plan
}

/// Whether an open incident takes its node out of service: a fault does, a phase once its turn has
/// come, and a node that its pool gives back is no longer the pool's.
pub fn takes_out(incident: &Incident, cordoned: bool) -> bool {
    let stage = incident.status.as_ref().map(|status| status.stage).unwrap_or_default();
    match cause(&incident.spec.cause) {
        _ if stage == Stage::Closed => false,
        Cause::Release => false,
        Cause::Fault(_) => true,
        Cause::Phase { .. } => cordoned || stage != Stage::Open,
    }
}

struct Numbers {
    wanted: usize,
    healthy: usize,
    taken: usize,
    missing: usize,
    room: usize,
    sick: usize,
}

/// The spares that keep the promise by the formula; none where nothing was measured yet.
fn sized(mean_out: f64) -> u32 {
    let causes = [Outages { mean: mean_out, size: 1 }];
    capacity::spares(&causes, PROMISE).map_or(0, count)
}

/// How many nodes are wanted, bounds applied.
fn target(pool: &NodePool) -> usize {
    let spec = &pool.spec;
    let wanted = spec.target_nodes.unwrap_or_default();
    let wanted = wanted.min(spec.max_nodes.unwrap_or(u32::MAX)).max(spec.min_nodes.unwrap_or(0));
    as_size(wanted)
}

fn name(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

fn is_member(pool: &NodePool, seat: &Seat<'_>) -> bool {
    seat.machine.spec.assignment.as_ref().is_some_and(|assigned| assigned.pool == name(pool))
}

fn serves(pool: &NodePool, seat: &Seat<'_>) -> bool {
    let status = seat.machine.status.as_ref();
    status.and_then(|status| status.pool.as_deref()) == Some(name(pool))
}

/// A member that has left production: for triage, or by a person.
fn left(seat: &Seat<'_>) -> bool {
    seat.machine.state() != State::Production
}

/// A proven spare that may serve the pool at once.
fn fits(pool: &NodePool, seat: &Seat<'_>) -> bool {
    let spec = &seat.machine.spec;
    let Some(status) = &seat.machine.status else { return false };
    let tenant = &pool.spec.tenant;
    seat.in_service
        && !seat.sick
        && !seat.kept
        && status.state == State::Production
        && status.role == Role::Spare
        && spec.assignment.is_none()
        && spec.instance_type == pool.spec.instance_type
        && spec.reservation.as_ref().is_none_or(|reserved| reserved == tenant)
        && status.tenant.as_ref().is_none_or(|holds| holds == tenant)
}

fn assign(
    plan: &mut Plan<Act, NodePoolStatus>,
    observed: &Observed<'_>,
    machine: &Machine,
    instead: Option<&Seat<'_>>,
) {
    let pool = name(observed.pool);
    let assignment = Assignment {
        pool: pool.to_owned(),
        tenant: observed.pool.spec.tenant.clone(),
        since: observed.now,
    };
    let why = match instead {
        Some(sick) => format!(
            "takes the place of {}, which is sick; the nearest spare: {}",
            sick.machine.name(),
            near(sick.machine, machine).unwrap_or("another site")
        ),
        None => format!("pool {pool} wants one more node"),
    };
    plan.events.push(Event::normal("Assigned", format!("{}: {why}", machine.name())));
    let act = Act::Assign { machine: machine.name().to_owned(), assignment };
    plan.deeds.push(deed(observed, machine, act, why));
}

/// Releases what is too many: idle nodes first, of those the ones that fail most. A node that a
/// person keeps is left, and a busy one too unless the pool allows it.
fn release(
    plan: &mut Plan<Act, NodePoolStatus>,
    observed: &Observed<'_>,
    members: &[&Seat<'_>],
    surplus: usize,
) {
    let strategy = observed.pool.spec.scale_down;
    let mut leaving: Vec<&&Seat<'_>> = members
        .iter()
        .filter(|seat| !seat.sick && !seat.kept && !left(seat))
        .filter(|seat| seat.idle || strategy == ScaleDown::PreferIdle)
        .collect();
    leaving.sort_by_key(|seat| {
        let lemon =
            seat.machine.status.as_ref().and_then(|s| s.lemon.as_ref()).map_or(0, |l| l.score);
        (!seat.idle, std::cmp::Reverse(lemon), std::cmp::Reverse(seat.machine.name().to_owned()))
    });
    for seat in leaving.into_iter().take(surplus) {
        let why = format!("pool {} has {surplus} too many", name(observed.pool));
        plan.events.push(Event::normal("Released", format!("{}: {why}", seat.machine.name())));
        let act = Act::Release { machine: seat.machine.name().to_owned() };
        plan.deeds.push(deed(observed, seat.machine, act, why));
    }
}

fn deed(observed: &Observed<'_>, machine: &Machine, act: Act, why: String) -> Deed<Act> {
    because(name(observed.pool), machine, act, why)
}

fn because(pool: &str, machine: &Machine, act: Act, why: String) -> Deed<Act> {
    let because = Because {
        who: manager::POOL.to_owned(),
        why,
        evidence: Vec::new(),
        origin: format!("pool/{pool}"),
    };
    let fence = Fence {
        machine_uid: machine.metadata.uid.clone(),
        generation: machine.metadata.generation,
        ..Fence::default()
    };
    Deed { act, fence, because }
}

/// Says why the pool is not at target, and until when.
fn explain(
    status: &mut NodePoolStatus,
    observed: &Observed<'_>,
    verdict: &Result<(), Refusal>,
    n: Numbers,
) {
    let spare = |n: usize| if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") };
    let (reason, why, until) = if let Err(refusal) = verdict {
        (AtTarget::NotValid, refusal.to_string(), None)
    } else if n.healthy > n.wanted {
        let over = spare(n.healthy - n.wanted);
        (AtTarget::Shrinking, format!("{over} too many; they leave once they are idle"), None)
    } else if n.healthy == n.wanted {
        (AtTarget::Reached, String::new(), None)
    } else if n.missing > n.taken && n.room <= n.taken {
        let quota = observed.pool.spec.quota.unwrap_or_default();
        (AtTarget::OverQuota, format!("the quota of {quota} nodes is used up"), None)
    } else if n.missing > n.taken {
        let lacking = spare(n.missing - n.taken);
        let coming = coming(observed);
        let until = (coming > 0).then(|| later(observed.now, observed.bring_up));
        let why = format!("no proven spare for {lacking}; {coming} machines are on their way");
        (AtTarget::NoCapacity, why, until)
    } else if n.sick > 0 {
        (AtTarget::Replacing, format!("{} sick; replaced as spares join", spare(n.sick)), None)
    } else {
        let why = format!("{} on the way in", spare(n.wanted - n.healthy));
        (AtTarget::InProgress, why, None)
    };
    // A promise is made once and kept, or it would move with every look.
    let old = observed.pool.status.as_ref();
    status.until =
        old.and_then(|old| old.until.filter(|_| old.why == why && until.is_some())).or(until);
    status.why.clone_from(&why);
    set(status, observed.now, Kind::AtTarget, reason == AtTarget::Reached, reason.name(), why);
    let (reason, why) = match verdict {
        Ok(()) => (Valid::Accepted, String::new()),
        Err(refusal) => (refusal.reason, refusal.to_string()),
    };
    set(status, observed.now, Kind::Valid, verdict.is_ok(), reason.name(), why);
}

/// Machines of the type that are on their way to production.
fn coming(observed: &Observed<'_>) -> usize {
    let under_way = |seat: &&Seat<'_>| {
        matches!(seat.machine.state(), State::SeaTrial | State::Zap | State::Test)
    };
    observed.seats.iter().filter(under_way).count()
}

fn set(
    status: &mut NodePoolStatus,
    now: Timestamp,
    kind: Kind,
    holds: bool,
    reason: &str,
    message: String,
) {
    let value = if holds { "True" } else { "False" };
    let since = status.conditions.iter().find(|c| c.type_ == kind.name() && c.status == value);
    let last_transition_time = since.map_or(Time(now), |c| c.last_transition_time.clone());
    status.conditions.retain(|condition| condition.type_ != kind.name());
    status.conditions.push(Condition {
        type_: kind.name().to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time,
        observed_generation: None,
    });
}

fn count(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn as_size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
