//! Sees what anybody with the API sees, and keeps what became of every fault.
//!
//! It is written as a controller that does nothing, so that it hears of each change when the others do.
//! A node counts as in service while its machine is in production, and its node is ready and not
//! cordoned; as a member while it serves a pool besides.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::names::{CORDONED_FOR, MACHINE, manager};
use api::request::Ask;
use api::state::{Role, State};
use api::{Breaker, Incident, Ledger, Machine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::clock::Clock;
use kit::controller::{Change, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::ResourceExt;
use plan::node::Cause;
use tokio::sync::watch;

use super::RunError;
use super::judge;
use crate::replay::findings::{Action, Case, Findings, Span, Verdict, seconds};
use crate::replay::seats::Outage;

/// So long after a fault's end it may still be noticed: more than any detector waits to be sure.
const LATE: Duration = Duration::from_secs(5 * 60);

/// See the module.
pub(super) struct Witness;

impl Controller for Witness {
    type Key = ObjectKey;
    type Settings = Record;
    type Observed = ();
    type Plan = ();
    const NAME: &'static str = "witness";

    fn wire(record: Record, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Keeps what became of every fault of a replay");
        let own = record.clone();
        wiring.read(Watch::<Machine>::all()).on_change(move |change| own.lock().machine(change));
        let own = record.clone();
        wiring.read(Watch::<Node>::all()).on_change(move |change| own.lock().node(change));
        let own = record.clone();
        wiring.read(Watch::<Incident>::all()).on_change(move |change| own.lock().incident(change));
        let own = record.clone();
        wiring.read(Watch::<Breaker>::all()).on_change(move |change| own.lock().breaker(change));
        wiring.read(Watch::<Ledger>::all()).on_change(move |change| record.lock().ledger(change));
        Self
    }

    async fn observe(&self, _: &Context, _: &ObjectKey) -> Result<Option<()>, Error> {
        Ok(None)
    }

    fn plan((): &()) {}

    async fn apply(&self, _: &Context, _: &ObjectKey, (): ()) -> Result<Wake, Error> {
        Ok(Wake::Never)
    }
}

/// What was seen. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct Record(Arc<Mutex<Seen>>);

impl Default for Record {
    fn default() -> Self {
        Self::new(Clock::system(), 0)
    }
}

/// One machine, as it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Stand {
    pub(super) machine: Option<Arc<Machine>>,
    pub(super) node: Option<Arc<Node>>,
    in_service: bool,
    member: bool,
    /// When it last began to serve the pool, if that was after the start.
    serves: Option<Duration>,
    /// Since when it is out, if it served before.
    out: Option<Duration>,
    /// Its outage as a member, while nobody has taken its place.
    seat: Option<usize>,
    /// When the incident was opened that is open, if that is for a fault.
    pub(super) incident: Option<Duration>,
    /// The last request that was seen.
    asked: String,
}

pub(super) struct Seen {
    clock: Clock,
    pub(super) start: Option<Timestamp>,
    pub(super) stands: BTreeMap<String, Stand>,
    /// How many of them serve a pool, and how many are free to, being in service.
    members: usize,
    free: usize,
    /// Machines by their number: seats first.
    numbers: BTreeMap<String, usize>,
    pub(super) cases: Vec<Case>,
    latent: Vec<bool>,
    outages: Vec<Outage>,
    /// Seats that are empty and wait for another machine, the longest first.
    empty: VecDeque<usize>,
    /// Machines that serve without a seat, the longest first: they came before one left, or one that
    /// was replaced has come back.
    extra: VecDeque<String>,
    out: Vec<Span>,
    actions: Vec<Action>,
    pub(super) verdict: Verdict,
    /// What the operator keeps.
    pub(super) kept: BTreeSet<String>,
    spares: usize,
    up: watch::Sender<bool>,
}

impl Record {
    pub(super) fn new(clock: Clock, spares: usize) -> Self {
        Self(Arc::new(Mutex::new(Seen {
            clock,
            start: None,
            stands: BTreeMap::new(),
            members: 0,
            free: 0,
            numbers: BTreeMap::new(),
            cases: Vec::new(),
            latent: Vec::new(),
            outages: Vec::new(),
            empty: VecDeque::new(),
            extra: VecDeque::new(),
            out: Vec::new(),
            actions: Vec::new(),
            verdict: Verdict::default(),
            kept: BTreeSet::new(),
            spares,
            up: watch::Sender::new(false),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every machine is in service.
    pub(super) fn up(&self) -> watch::Receiver<bool> {
        self.lock().up.subscribe()
    }

    /// How far the fleet has come, as an error.
    pub(super) fn not_up(&self) -> RunError {
        let seen = self.lock();
        let (members, spares) = seen.serving();
        let stuck = seen.stands.iter().find(|(_, stand)| !stand.in_service);
        let why = stuck.and_then(|(name, stand)| {
            let status = stand.machine.as_ref()?.status.as_ref()?;
            Some(format!("{name} is in {}: {}", status.state, status.why))
        });
        let servers = seen.stands.len().saturating_sub(seen.spares);
        let why = why.unwrap_or_else(|| "no machine says why".to_owned());
        RunError::NotUp { members, servers, spares, why }
    }

    /// The trace begins now: the machines whose seats its nodes have.
    pub(super) fn begin(&self, now: Timestamp, servers: usize) -> Vec<String> {
        let mut seen = self.lock();
        let seen = &mut *seen;
        let of = |member: bool| {
            let chosen = seen.stands.iter().filter(move |(_, stand)| stand.member == member);
            chosen.map(|(name, _)| name.clone())
        };
        let names: Vec<String> = of(true).chain(of(false)).collect();
        seen.numbers = names.iter().cloned().enumerate().map(|(n, name)| (name, n)).collect();
        seen.start = Some(now);
        names.into_iter().take(servers).collect()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.lock().clock.now()
    }

    /// Proven spares that serve nobody, by name.
    pub(super) fn free_spares(&self) -> Vec<String> {
        let seen = self.lock();
        let free = seen.stands.iter().filter(|(_, stand)| stand.in_service && !stand.member);
        free.map(|(name, _)| name.clone()).collect()
    }

    /// From now on the operator keeps a machine; says whether it was free to be taken.
    pub(super) fn keep(&self, name: &str) -> bool {
        self.lock().kept.insert(name.to_owned())
    }

    /// The operator gives a machine back.
    pub(super) fn let_go(&self, name: &str) {
        self.lock().kept.remove(name);
    }

    /// A fault has struck.
    pub(super) fn struck(&self, case: Case, latent: bool) {
        let mut seen = self.lock();
        seen.cases.push(case);
        seen.latent.push(latent);
    }

    /// Everything that was seen until the end.
    pub(super) fn findings(&self, length: Duration) -> Findings {
        let mut seen = self.lock();
        let seen = &mut *seen;
        let open = seen.stands.values().filter_map(|stand| stand.out).map(|from| (from, length));
        let mut out: Vec<Span> = seen.out.iter().copied().chain(open).collect();
        out.sort_unstable();
        for case in &mut seen.cases {
            if case.end == Duration::MAX {
                case.end = case.returned.unwrap_or(length);
            }
        }
        Findings {
            start: seen.start.unwrap_or_default(),
            length,
            cases: std::mem::take(&mut seen.cases),
            outages: std::mem::take(&mut seen.outages),
            out,
            actions: std::mem::take(&mut seen.actions),
            verdict: seen.verdict,
            ..Findings::default()
        }
    }
}

impl Seen {
    /// Since the trace began; none before.
    pub(super) fn time(&self) -> Option<Duration> {
        Duration::try_from(self.clock.now().duration_since(self.start?)).ok()
    }

    fn serving(&self) -> (usize, usize) {
        (self.members, self.free)
    }

    fn machine(&mut self, change: &Change<Machine>) {
        let name = change.key.name.clone();
        let stand = self.stands.entry(name.clone()).or_default();
        stand.machine.clone_from(&change.new);
        let left = |machine: &Option<Arc<Machine>>| {
            machine.as_ref().is_some_and(|machine| machine.state() == State::Triage)
        };
        judge::operation(self, change);
        let triaged = left(&change.new) && !left(&change.old);
        if let (true, Some(now)) = (triaged, self.time()) {
            for case in self.open(&name, now) {
                case.handed_over.get_or_insert(now);
            }
        }
        self.asked(&name);
        self.assigned(change);
        self.settle(&name);
    }

    fn node(&mut self, change: &Change<Node>) {
        let Some(node) = change.latest() else { return };
        let name = node.labels().get(MACHINE).cloned().unwrap_or_else(|| node.name_any());
        if let (Some(old), Some(new)) = (&change.old, &change.new) {
            judge::cordons(self, &name, old, new);
            let ours = |node: &Node| node.annotations().contains_key(CORDONED_FOR);
            if ours(new) && !ours(old) {
                self.cordoned(&name, new);
            }
        }
        self.stands.entry(name.clone()).or_default().node.clone_from(&change.new);
        self.settle(&name);
    }

    fn cordoned(&mut self, name: &str, node: &Node) {
        let reason = node.annotations().get(api::names::CORDON_REASON).cloned();
        let incident = node.annotations().get(CORDONED_FOR).cloned();
        let reason = reason.unwrap_or_else(|| "an incident takes the node out".to_owned());
        self.act(name, "Cordon", &reason, incident.into_iter().collect());
        // A pool that gives a node back, and a person who asks, need no fault.
        if self.stands.get(name).is_some_and(|stand| stand.incident.is_some()) {
            judge::evidence(self, name);
        }
    }

    fn incident(&mut self, change: &Change<Incident>) {
        let Some(incident) = change.latest() else { return };
        let Some(now) = self.time() else { return };
        let name = incident.spec.machine.clone();
        let closed =
            |incident: &Incident| incident.status.as_ref().is_some_and(|s| s.closed.is_some());
        let stand = self.stands.entry(name.clone()).or_default();
        if change.old.is_none() {
            // A phase that was asked for is no fault, nor is a node that its pool gives back.
            if matches!(plan::node::cause(&incident.spec.cause), Cause::Fault(_)) {
                stand.incident = Some(now);
                for case in self.open(&name, now) {
                    case.noticed.get_or_insert(now);
                }
            }
        } else if change.new.as_deref().is_none_or(closed) {
            stand.incident = None;
        }
        self.settle(&name);
    }

    fn breaker(&mut self, change: &Change<Breaker>) {
        let openings =
            |b: &Option<Arc<Breaker>>| b.as_ref().and_then(|b| Some(b.status.as_ref()?.openings));
        let Some(breaker) = change.new.as_ref() else { return };
        if openings(&change.new) > openings(&change.old)
            && let Some(status) = &breaker.status
        {
            self.act(&change.key.name, "OpenBreaker", &status.why, status.nodes.clone());
        }
    }

    fn ledger(&mut self, change: &Change<Ledger>) {
        if let Some(ledger) = &change.new {
            judge::budget(self, change.old.as_deref(), ledger);
        }
    }

    /// The faults of a machine that struck before and whose machine is not back.
    fn open(&mut self, name: &str, now: Duration) -> impl Iterator<Item = &mut Case> {
        self.cases.iter_mut().filter(move |case| case.node == name && concerns(case, now))
    }

    fn act(&mut self, node: &str, action: &str, reason: &str, evidence: Vec<String>) {
        let Some(now) = self.time() else { return };
        self.actions.push(Action {
            t: seconds(now),
            node: node.to_owned(),
            action: action.to_owned(),
            reason: reason.to_owned(),
            evidence,
        });
    }

    /// What is asked of a machine now, by one of ours.
    fn asked(&mut self, name: &str) {
        let Some(now) = self.time() else { return };
        let Some(stand) = self.stands.get_mut(name) else { return };
        let Some(machine) = stand.machine.clone() else { return };
        let Some(request) = &machine.spec.request else { return };
        if stand.asked == request.id {
            return;
        }
        stand.asked.clone_from(&request.id);
        if !manager::ALL.contains(&request.by.as_str()) {
            return;
        }
        // Idle nodes are tested as a matter of course, and give way to work at once.
        if request.ask == Ask::Test && request.evidence.is_empty() {
            return judge::asked(self, name);
        }
        let ask = format!("{:?}", request.ask);
        self.act(name, &ask, &request.why, request.evidence.clone());
        if !request.ask.leaves() && request.ask != Ask::Test {
            for case in self.open(name, now).filter(|case| case.handed_over.is_none()) {
                case.steps.push(ask.clone());
            }
        }
        judge::asked(self, name);
        if request.ask.disrupts() && request.ask != Ask::Zap {
            judge::evidence(self, name);
        }
    }

    /// Which pool a machine is given to, or taken from.
    fn assigned(&mut self, change: &Change<Machine>) {
        let pool = |machine: &Option<Arc<Machine>>| {
            machine.as_ref().and_then(|m| m.spec.assignment.as_ref().map(|a| a.pool.clone()))
        };
        let (old, new) = (pool(&change.old), pool(&change.new));
        let name = change.key.name.clone();
        match (old, new) {
            (None, Some(pool)) => {
                let why = format!("pool {pool} wants one more node than serve it");
                let (members, spares) = self.serving();
                let evidence = format!("{members} nodes serve, {spares} proven spares are free");
                self.act(&name, "Assign", &why, vec![evidence]);
            }
            (Some(pool), None) => {
                let why = format!("pool {pool} has another in its place");
                let state = change.latest().map(|machine| machine.state());
                let evidence = format!("the machine is in {}", state.unwrap_or_default());
                self.act(&name, "Release", &why, vec![evidence]);
            }
            _ => {}
        }
    }

    /// Whether the machine is in service, and what follows if that has changed.
    fn settle(&mut self, name: &str) {
        let Some(stand) = self.stands.get_mut(name) else { return };
        let status = stand.machine.as_ref().and_then(|machine| machine.status.as_ref());
        let produces = status.is_some_and(|status| status.state == State::Production);
        let takes_work = stand.node.as_deref().is_some_and(|node| {
            let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
            !cordoned && is_ready(node)
        });
        let in_service = produces && takes_work;
        let member = status.is_some_and(|status| status.role == Role::Member);
        let (was_in, was_member) = (stand.in_service, stand.member);
        (stand.in_service, stand.member) = (in_service, member);
        if was_in {
            *(if was_member { &mut self.members } else { &mut self.free }) -= 1;
        }
        if in_service {
            *(if member { &mut self.members } else { &mut self.free }) += 1;
        }
        if self.start.is_none() {
            let (members, spares) = self.serving();
            let up = members + spares == self.stands.len() && spares == self.spares && members > 0;
            self.up.send_if_modified(|was| std::mem::replace(was, up) != up);
            return;
        }
        let Some(now) = self.time() else { return };
        match (was_in, in_service) {
            (true, false) => self.leaves(name, was_member, now),
            (false, true) => self.returns(name, now),
            _ => {}
        }
        if in_service && member && !(was_in && was_member) {
            if let Some(stand) = self.stands.get_mut(name) {
                stand.serves = Some(now);
            }
            self.serves(name, now);
        }
    }

    fn leaves(&mut self, name: &str, member: bool, now: Duration) {
        // Those that went before have the first claim.
        let warm = self.serving().1 > self.empty.len();
        let mut stops = now;
        for (case, latent) in self.cases.iter_mut().zip(&self.latent) {
            if case.node == name && case.out.is_none() && concerns(case, now) {
                case.out = Some(now);
                case.warm = warm && member;
                if !latent {
                    // What ran on it felt the fault, and not its discovery.
                    stops = stops.min(case.at);
                }
            }
        }
        if let Some(stand) = self.stands.get_mut(name) {
            stand.out = Some(now);
        }
        if member {
            self.vacates(name, stops, now);
        }
    }

    /// A member is lost to the pool: its seat goes to one that serves without, or is empty.
    fn vacates(&mut self, name: &str, stops: Duration, now: Duration) {
        if let Some(place) = self.extra.iter().position(|extra| extra == name) {
            self.extra.remove(place);
            return;
        }
        let machine = self.number(name);
        let stand = self.stands.get(name);
        let planned = stand.is_none_or(|stand| stand.incident.is_none());
        // What struck before it served cost nobody a seat.
        let stops = stops.max(stand.and_then(|stand| stand.serves).unwrap_or_default());
        let index = self.outages.len();
        self.outages.push(Outage {
            machine,
            from: if planned { now } else { stops },
            replaced: None,
            returned: None,
            planned: planned && !self.extra.is_empty(),
        });
        match self.extra.pop_front() {
            Some(extra) => self.replaces(&extra, index, now),
            None => {
                self.empty.push_back(index);
                if let Some(stand) = self.stands.get_mut(name) {
                    stand.seat = Some(index);
                }
            }
        }
    }

    fn returns(&mut self, name: &str, now: Duration) {
        for case in self.open(name, now) {
            // What is not over will take the machine out again.
            if case.end <= now || case.end == Duration::MAX {
                case.returned = Some(now);
            }
        }
        let Some(stand) = self.stands.get_mut(name) else { return };
        self.out.extend(stand.out.take().map(|from| (from, now)));
    }

    /// A machine serves the pool: in its own seat, or in the one that is empty for longest.
    fn serves(&mut self, name: &str, now: Duration) {
        let own = self.stands.get_mut(name).and_then(|stand| stand.seat.take());
        if let Some(index) = own.filter(|index| self.empty.contains(index)) {
            self.empty.retain(|other| *other != index);
            if let Some(outage) = self.outages.get_mut(index) {
                outage.returned = Some(now);
            }
            return;
        }
        match self.empty.pop_front() {
            Some(index) => self.replaces(name, index, now),
            None => self.extra.push_back(name.to_owned()),
        }
    }

    /// A machine takes the seat of an outage.
    fn replaces(&mut self, name: &str, index: usize, now: Duration) {
        let number = self.number(name);
        let Some(outage) = self.outages.get_mut(index) else { return };
        outage.replaced = Some((now, number));
        let machine = outage.machine;
        let lost = self.numbers.iter().find(|(_, number)| **number == machine);
        let Some(lost) = lost.map(|(name, _)| name.clone()) else { return };
        for case in self.open(&lost, now).filter(|case| case.out.is_some()) {
            case.replaced.get_or_insert(now);
        }
    }

    fn number(&self, name: &str) -> usize {
        self.numbers.get(name).copied().unwrap_or(usize::MAX)
    }
}

/// Whether what is done to a machine now may be for this fault: it lasts or was noticed, and the
/// machine is not back. What ended unnoticed explains nothing later.
fn concerns(case: &Case, now: Duration) -> bool {
    let lasts = case.end.saturating_add(LATE) >= now;
    case.at <= now && case.returned.is_none() && (lasts || case.noticed.is_some())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    { conditions }.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
