//! The year itself: a simulated site with the shipped controllers, and the faults at their times.
//!
//! Everything runs in one thread on a held clock: the API server over memory, each controller as its own
//! user with the role that it declares, agents and kubelets over simulated hardware, and people. The
//! fleet is met in production; controllers take it over, and then the faults strike as symptoms at the
//! source. Who watches ([`witness`]) sees what anybody with the API sees, and knows what struck when;
//! nobody else does.
//!
//! With repairs as recorded nothing ends a fault but its time; what else is known of the trace stays in
//! here.

mod bring_up;
mod desk;
mod judge;
mod witness;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plan::catalogue::{Catalogue, RowId, Rung, Step, TraceMap, TraceWords};
use tokio::time::Instant;

use super::findings::{Case, Findings, Repairs};
use super::show::{Shown, show};
use super::trace::{Fault as Recorded, Trace};
use crate::admin::Refused;
use crate::datacentre::{Cure, Fault, Hardware};
use crate::people::Hands;
use desk::Takes;
use world::{Fleet, Met, World};

pub use bring_up::{BringUp, BroughtUp, bring_up};

/// How long a whole site may take from power-off to production before something is wrong with it.
const BRING_UP: Duration = Duration::from_secs(7 * 86_400);
/// The longest time between two moments at which old history is forgotten.
const FORGET: Duration = Duration::from_secs(86_400);
/// Machines in a rack: four of eight GPUs are usual, eight where power allows.
const PER_RACK: u32 = 8;
/// A history of fewer changes is no burden.
const MANY: u64 = 2_000;

/// What is replayed, and on what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The faults.
    pub trace: Trace,
    /// Nodes that the pool promises; no fewer than the trace names.
    pub servers: usize,
    /// Nodes beside them.
    pub spares: usize,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// How repairs go.
    pub repairs: Repairs,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The trace has more nodes than the fleet.
    #[error("the trace names {named} servers; --servers must be at least that, not {servers}")]
    TooFew {
        /// How many the trace names.
        named: usize,
        /// How many the fleet has.
        servers: usize,
    },
    /// The site cannot be made.
    #[error("cannot prepare the simulated site: {0}")]
    Prepare(String),
    /// The API did not take what every site needs.
    #[error("cannot {what}")]
    Write {
        /// What was being written.
        what: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// The fleet did not come up.
    #[error(
        "the simulated fleet did not come up: {members} of {servers} nodes serve and {spares} spares are proven; {why}"
    )]
    NotUp {
        /// Nodes that serve.
        members: usize,
        /// Nodes that shall.
        servers: usize,
        /// Proven spares.
        spares: usize,
        /// What one of the others waits for.
        why: String,
    },
}

impl From<Refused> for RunError {
    fn from(Refused { what, source }: Refused) -> Self {
        Self::Write { what, source }
    }
}

/// Replays a trace in virtual time, as fast as this machine can.
///
/// # Errors
/// The trace does not fit the fleet, or the fleet does not come up.
pub fn run(options: Options) -> Result<Findings, RunError> {
    held()?.block_on(replay(options))
}

/// A runtime of one thread on a held clock.
fn held() -> Result<tokio::runtime::Runtime, RunError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let held = builder.enable_time().start_paused(true).build();
    held.map_err(|error| RunError::Prepare(error.to_string()))
}

async fn replay(options: Options) -> Result<Findings, RunError> {
    let named = options.trace.nodes.len();
    if named > options.servers {
        return Err(RunError::TooFew { named, servers: options.servers });
    }
    let catalogue = Catalogue::built_in();
    let map = TraceMap::load(&catalogue, &[])
        .map_err(|errors| RunError::Prepare(format!("{errors:?}")))?;
    let (shown, mut warnings) = show(&options.trace, &map, options.seed);
    warnings.extend(options.trace.warnings.iter().cloned());
    warnings.sort();

    let fleet = Fleet {
        met: Met::InService,
        servers: options.servers,
        spares: options.spares,
        per_rack: PER_RACK,
        seed: options.seed,
        cures: options.repairs == Repairs::Ladder,
        hands: Hands::default(),
    };
    let mut world = World::start(&fleet, Arc::clone(&catalogue)).await?;
    world.until_up(BRING_UP).await?;
    let record = world.record.clone();
    let machines = record.begin(world.now(), options.servers);
    let began = Instant::now();
    let length = options.trace.length;
    let mut taken = BTreeMap::new();
    for (at, turn) in agenda(&options.trace, &shown) {
        world.rest_until(began + at).await;
        match turn {
            Turn::Strikes(fault, shown) => {
                let Some(name) = machines.get(fault.node) else { continue };
                let Some(words) = options.trace.words(fault).cloned() else { continue };
                let repairs = repairs(options.repairs, &catalogue, &shown.row);
                let Some((case, latent)) =
                    struck(&world, repairs, words, name, fault, shown, began)
                else {
                    continue;
                };
                record.struck(case, latent);
            }
            Turn::Takes(visit, takes) => {
                taken.extend(world.desk.take(takes, &machines).await?.map(|name| (visit, name)));
            }
            Turn::GivesBack(visit, takes) => {
                if let Some(name) = taken.remove(&visit) {
                    world.desk.give_back(&name, takes).await?;
                }
            }
        }
    }
    world.rest_until(began + length).await;
    let mut findings = record.findings(length);
    findings.seed = options.seed;
    findings.servers = options.servers;
    findings.spares = options.spares;
    findings.repairs = options.repairs;
    findings.read = options.trace.faults.len();
    findings.warnings = warnings;
    findings.recorded = options.trace.outages();
    findings.delays = world.figures();
    let start = findings.start;
    findings.people = world.people.acts.all();
    findings.people.retain(|act| act.at >= start);
    Ok(findings)
}

/// What happens at a time of the trace.
enum Turn<'a> {
    /// A server breaks.
    Strikes(&'a Recorded, &'a Shown),
    /// The operator takes a server, in this visit.
    Takes(usize, Takes),
    /// The operator gives it back.
    GivesBack(usize, Takes),
}

/// Everything that happens, by its time.
fn agenda<'a>(trace: &'a Trace, shown: &'a [Shown]) -> Vec<(Duration, Turn<'a>)> {
    let strikes = trace.faults.iter().zip(shown);
    let mut agenda: Vec<(Duration, Turn<'a>)> =
        strikes.map(|(fault, shown)| (fault.from, Turn::Strikes(fault, shown))).collect();
    for (number, visit) in desk::visits(trace).into_iter().enumerate() {
        agenda.push((visit.from, Turn::Takes(number, visit.takes)));
        agenda.push((visit.to, Turn::GivesBack(number, visit.takes)));
    }
    agenda.sort_by_key(|(at, _)| *at);
    agenda
}

/// How a fault ends. What no ladder is for, as a server that a person took out, ends as it did.
fn repairs(asked: Repairs, catalogue: &Catalogue, row: &RowId) -> Repairs {
    let policy = catalogue.row(row.as_str()).and_then(|row| catalogue.policy(&row.policy));
    let acts = |ladder: &[Rung]| ladder.iter().any(|rung| rung.step != Step::RestartApp);
    if policy.is_some_and(|policy| acts(&policy.ladder)) { asked } else { Repairs::Recorded }
}

/// Breaks a machine as the trace says: the case that is opened for it, and whether nothing shows until
/// a test finds it.
fn struck(
    world: &World,
    repairs: Repairs,
    words: TraceWords,
    name: &str,
    fault: &Recorded,
    shown: &Shown,
    began: Instant,
) -> Option<(Case, bool)> {
    let hardware = world.datacentre.machine(name)?;
    let end = match repairs {
        Repairs::Recorded => fault.to,
        // Nobody knows when somebody will cure it.
        Repairs::Ladder => Duration::MAX,
    };
    let latent = strike(world, &hardware, shown, repairs, end, began);
    let case = Case {
        node: name.to_owned(),
        words,
        basis: shown.basis,
        at: fault.from,
        end,
        noticed: None,
        out: None,
        replaced: None,
        warm: false,
        handed_over: None,
        returned: None,
        steps: Vec::new(),
    };
    Some((case, latent))
}

/// Breaks a machine as the trace says, and tells whether nothing shows until a test finds it.
fn strike(
    world: &World,
    hardware: &Hardware,
    shown: &Shown,
    repairs: Repairs,
    end: Duration,
    began: Instant,
) -> bool {
    let Ok(fault) = world.datacentre.faults().named(shown.row.as_str()) else { return false };
    let latent = fault.latent;
    let fault = match repairs {
        Repairs::Recorded => {
            let left = (began + end).saturating_duration_since(Instant::now());
            let until = world.now().checked_add(left).ok();
            Fault { cure: Cure::Domain, until, ..fault }
        }
        Repairs::Ladder => Fault { cure: cure(shown.cure), ..fault },
    };
    hardware.strike(fault);
    latent
}

/// The least that cures a fault which this step ends.
const fn cure(step: Step) -> Cure {
    match step {
        Step::RestartApp => Cure::App,
        Step::RestartService => Cure::Service,
        Step::ResetGpu => Cure::ResetGpu,
        Step::Reboot => Cure::Boot,
        Step::PowerCycle | Step::PowerOff => Cure::PowerCycle,
        Step::Diagnose | Step::Triage | Step::Rma => Cure::Parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_step_could_cure_ends_by_itself() {
        let catalogue = Catalogue::built_in();
        let of = |row: &str| {
            let row = &catalogue.row(row).unwrap().id;
            repairs(Repairs::Ladder, &catalogue, row)
        };
        assert_eq!(of("ops/out-of-service"), Repairs::Recorded);
        assert_eq!(of("xid/48"), Repairs::Ladder);
        assert_eq!(of("bmc/fan"), Repairs::Ladder);
    }
}
