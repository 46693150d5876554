//! Why a node is as it is: the incident that holds it, else the machine below, else the node itself.

use super::{Why, ago, blast, count, left, open_ended, span, step_words, treatment_words, wave};
use crate::catalogue::{Catalogue, Rung, Step};
use crate::node::{Cause, cause};
use crate::pod;
use api::condition::Node as Kind;
use api::evidence::Evidence;
use api::incident::{End, IncidentStatus, Stage};
use api::names;
use api::state::{Role, State};
use api::{Breaker, Incident, Ledger, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use std::time::Duration;

/// What the objects say about a node, and about what surrounds it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The time.
    pub now: Timestamp,
    /// What it is called.
    pub name: &'a str,
    /// The node, if it exists.
    pub node: Option<&'a Node>,
    /// The machine below it, if it is known.
    pub machine: Option<&'a Machine>,
    /// Every machine.
    pub machines: &'a [Machine],
    /// Every incident.
    pub incidents: &'a [Incident],
    /// The pods on the node.
    pub pods: &'a [Pod],
    /// The pool it serves.
    pub pool: Option<&'a NodePool>,
    /// Every breaker.
    pub breakers: &'a [Breaker],
    /// The account of disruptions.
    pub ledger: Option<&'a Ledger>,
    /// What was told about machines: when, about which, and what.
    pub told: &'a [(Timestamp, String, String)],
    /// What faults mean.
    pub catalogue: &'a Catalogue,
}

/// As few like it say nothing about how long it takes.
const ENOUGH: usize = 3;

/// Tells about a node.
pub fn why(facts: &Facts<'_>) -> Why {
    let mine = facts.incidents.iter().filter(|incident| facts.is_mine(incident));
    let open = mine.filter(|i| stage(i) != Stage::Closed).max_by_key(|i| i.spec.opened);
    if let Some(incident) = open {
        return facts.incident(incident);
    }
    match (facts.machine, facts.node) {
        (Some(machine), _) if machine.state() != State::Production => facts.lifecycle(machine),
        (Some(machine), None) => {
            let mut why = Why::new(format!("{} has no node in the cluster.", facts.name));
            facts.below(&mut why, machine);
            why
        }
        (machine, node) => facts.standing(machine, node),
    }
}

fn stage(incident: &Incident) -> Stage {
    incident.status.as_ref().map(|status| status.stage).unwrap_or_default()
}

fn annotation<'a>(node: Option<&'a Node>, name: &str) -> Option<&'a str> {
    node?.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

impl<'a> Facts<'a> {
    fn is_mine(&self, incident: &Incident) -> bool {
        let machine = self.machine.map(Machine::name);
        Some(incident.spec.machine.as_str()) == machine || incident.spec.node == self.node_name()
    }

    fn node_name(&self) -> &str {
        self.node.and_then(|node| node.metadata.name.as_deref()).unwrap_or(self.name)
    }

    fn condition(&self, kind: &str) -> Option<&'a NodeCondition> {
        let conditions = self.node?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == kind)
    }

    fn is_cordoned(&self) -> bool {
        let spec = self.node.and_then(|node| node.spec.as_ref());
        spec.and_then(|spec| spec.unschedulable).unwrap_or_default()
    }

    /// A node with an open incident.
    fn incident(&self, incident: &Incident) -> Why {
        let (name, spec) = (self.name, &incident.spec);
        let since = ago(self.now, spec.opened);
        let seen = open_ended(spec.evidence.first().map_or(spec.cause.as_str(), String::as_str));
        let out = self.is_cordoned() || stage(incident) != Stage::Open;
        let cause = cause(&spec.cause);
        let mut why = Why::new(match &cause {
            Cause::Fault(_) if out => format!("{name} is out of service: {seen} {since} ago."),
            Cause::Fault(_) => format!("{name} is about to leave service: {seen} {since} ago."),
            Cause::Phase { phase, .. } if out => {
                let by = &spec.by;
                format!("{name} is out of service for {phase}, which {by} asked for {since} ago.")
            }
            Cause::Phase { phase, .. } => {
                let by = &spec.by;
                format!("{name} serves until its turn for {phase}, asked by {by} {since} ago.")
            }
            Cause::Release => format!("{name} leaves its pool, which gave it back {since} ago."),
        });
        why.remarks("evidence", self.evidence(incident));
        let status = incident.status.clone().unwrap_or_default();
        why.remarks("doing", self.doing(&status));
        for breaker in self.breakers.iter().filter(|breaker| breaker.is_open()) {
            let nodes = breaker.status.as_ref().map(|status| status.nodes.as_slice());
            if nodes.unwrap_or_default().contains(&spec.node) {
                why.line("wave", wave(self.now, breaker, self.incidents));
            }
        }
        why.line("cover", self.cover(incident));
        why.remarks("next", self.next(incident, &status, &cause));
        why.remarks("asked by", self.asked(incident, &cause));
        why
    }

    fn evidence(&self, incident: &Incident) -> Vec<String> {
        let spec = &incident.spec;
        let mut all: Vec<String> =
            spec.evidence.iter().skip(1).map(|seen| open_ended(seen).to_owned()).collect();
        if let Some(count) = self.count_now(incident) {
            all.push(format!("seen {count} times"));
        }
        if !matches!(cause(&spec.cause), Cause::Fault(_)) {
            return all;
        }
        let month = Duration::from_secs(30 * 86_400);
        let before = self
            .incidents
            .iter()
            .filter(|other| self.is_mine(other) && other.metadata.name != incident.metadata.name)
            .filter(|other| other.spec.cause == spec.cause && other.spec.part == spec.part)
            .filter(|other| crate::machine::later(other.spec.opened, month) > self.now)
            .count();
        let on = spec.part.as_deref().unwrap_or("this node");
        all.push(match before {
            0 => format!("the first such on {on} in 30 days"),
            n => format!("{n} such on {on} before in 30 days"),
        });
        all
    }

    /// How often its fault was counted, as the node's condition says now.
    fn count_now(&self, incident: &Incident) -> Option<u32> {
        let row = self.catalogue.row(&incident.spec.cause)?;
        let condition = self.condition(row.condition.as_str()).filter(|c| c.status == "True")?;
        let evidence = Evidence::read(condition.message.as_deref()?);
        evidence.count.filter(|count| *count > 1 && evidence.part == incident.spec.part)
    }

    fn doing(&self, status: &IncidentStatus) -> Vec<String> {
        let mut all = Vec::new();
        let held: Vec<&Pod> = self.pods.iter().filter(|pod| pod::holds(pod)).collect();
        if status.stage == Stage::Draining && !held.is_empty() {
            let pods: Vec<String> = held.iter().take(5).map(|pod| self.pod(pod)).collect();
            let more = held.len() - pods.len();
            let more = if more > 0 { format!("; {more} more") } else { String::new() };
            let (number, pods) = (count(held.len(), "pod"), pods.join("; "));
            all.push(format!("draining {number} ({pods}{more})"));
        } else if !status.why.is_empty() {
            all.push(open_ended(&status.why).to_owned());
        }
        let machine = self.machine.and_then(|machine| machine.status.as_ref());
        if let Some(operation) = machine.and_then(|machine| machine.operation.as_ref())
            && operation.why != status.why
        {
            let since = ago(self.now, operation.since);
            all.push(format!("the machine: {}, for {since}", open_ended(&operation.why)));
        }
        all
    }

    fn pod(&self, pod: &Pod) -> String {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match &pod.metadata.deletion_timestamp {
            Some(end) => match left(self.now, end.0) {
                Some(left) => format!("{name}, ends within {left}"),
                None => format!("{name}, is overdue to end"),
            },
            None => format!("{name}, {}", treatment_words(pod::treatment(pod))),
        }
    }

    /// Who took the node's place in its pool.
    fn cover(&self, incident: &Incident) -> String {
        let spec = &incident.spec;
        let place = format!("takes the place of {},", spec.machine);
        let taken = self.told.iter().find(|(at, _, note)| {
            // Events are kept in whole seconds.
            note.starts_with(&place) && at.as_second() >= spec.opened.as_second()
        });
        let Some(pool) = self.pool else { return String::new() };
        let pool_name = pool.metadata.name.as_deref().unwrap_or_default();
        let Some((at, spare, _)) = taken else {
            return match pool.status.as_ref().map(|status| status.why.as_str()) {
                Some(why) if !why.is_empty() => format!("none yet; pool {pool_name}: {why}"),
                _ => String::new(),
            };
        };
        let after = span(Duration::try_from(at.duration_since(spec.opened)).unwrap_or_default());
        let near = self.near(spare).map_or(String::new(), |near| format!(" ({near})"));
        format!("spare {spare}{near} took its place in pool {pool_name} {after} after the fault")
    }

    /// What a machine has in common with this one.
    fn near(&self, other: &str) -> Option<&'static str> {
        let other = self.machines.iter().find(|machine| machine.name() == other)?;
        crate::pool::near(self.machine?, other)
    }

    fn next(&self, incident: &Incident, status: &IncidentStatus, cause: &Cause) -> Vec<String> {
        let mut all = Vec::new();
        match cause {
            Cause::Release => {
                all.push("once it is empty it is wiped and tested, and anybody's".to_owned());
            }
            Cause::Phase { phase, .. } => {
                all.push(format!("{phase}, a test, and back in service"));
            }
            Cause::Fault(_) => all.push(self.expected(incident)),
        }
        let policy = status.policy.as_deref().and_then(|name| self.catalogue.policy(name));
        let ladder: &[Rung] = policy.map(|policy| policy.ladder.as_slice()).unwrap_or_default();
        let rung = usize::try_from(status.rung).unwrap_or(usize::MAX);
        let (now, then) = (ladder.get(rung), ladder.get(rung.saturating_add(1)));
        let by = status.deadline.and_then(|at| left(self.now, at));
        let by = by.map_or(String::new(), |left| format!(" within {left}"));
        match (now.map(|rung| rung.step), then.map(|rung| rung.step)) {
            (Some(Step::Triage | Step::Rma), _) | (None, _) => {}
            (Some(step), Some(then)) => {
                let (step, then) = (step_words(step), step_words(then));
                all.push(format!("if {step} does not help{by}: {then}"));
            }
            (Some(step), None) => {
                all.push(format!("if {} does not help{by}: a person must look", step_words(step)));
            }
        }
        all
    }

    /// When it will be back, where enough like it were measured.
    fn expected(&self, incident: &Incident) -> String {
        let mut took: Vec<Duration> = self
            .incidents
            .iter()
            .filter(|other| other.spec.cause == incident.spec.cause)
            .filter_map(|other| {
                let status = other.status.as_ref().filter(|s| s.end == Some(End::Solved))?;
                Duration::try_from(status.closed?.duration_since(other.spec.opened)).ok()
            })
            .collect();
        took.sort_unstable();
        let Some(median) = took.get(took.len() / 2).filter(|_| took.len() >= ENOUGH) else {
            return "back in service once a test has proven the cure".to_owned();
        };
        let like = format!("the {} like it that were cured", took.len());
        match left(self.now, crate::machine::later(incident.spec.opened, *median)) {
            Some(left) => format!("back in service in about {left}, as the median of {like}"),
            None => format!("it takes longer than the median of {like}, {}", span(*median)),
        }
    }

    fn asked(&self, incident: &Incident, cause: &Cause) -> Vec<String> {
        let spec = &incident.spec;
        let mut all = vec![match cause {
            Cause::Fault(row) => format!("fault catalogue row {row}, reported by {}", spec.by),
            Cause::Phase { .. } => {
                format!("{}, by the condition {}", spec.by, cause.condition().unwrap_or_default())
            }
            Cause::Release => format!("{}, by the machine's assignment", spec.by),
        }];
        if let (Some(ledger), Some(machine)) = (self.ledger, self.machine)
            && let Some(budget) = blast::budget(ledger, machine, self.machines, self.pool)
        {
            all.push(format!("budget {budget}"));
        }
        let name = incident.metadata.name.as_deref().unwrap_or_default();
        all.push(format!("incident {name}"));
        all
    }

    /// A machine that is not in production.
    fn lifecycle(&self, machine: &Machine) -> Why {
        let status = machine.status.clone().unwrap_or_default();
        let since = status.since.map_or(String::new(), |at| format!(" for {}", ago(self.now, at)));
        let because = match open_ended(&status.why) {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let mut why = Why::new(format!(
            "{} is not in service; its machine has been in {}{since}{because}.",
            self.name, status.state
        ));
        self.below(&mut why, machine);
        why
    }

    /// What is known of the machine's way.
    fn below(&self, why: &mut Why, machine: &Machine) {
        let Some(status) = &machine.status else { return };
        let entered = status.history.iter().find(|entry| entry.what == status.state.name());
        if let Some(entered) = entered.filter(|entered| entered.why != status.why) {
            let since = ago(self.now, entered.at);
            let reason = open_ended(&entered.why);
            why.line("evidence", format!("entered {} {since} ago: {reason}", status.state));
        }
        let mut doing = Vec::new();
        if let Some(operation) = &status.operation {
            let remaining = left(self.now, operation.deadline);
            let bound = remaining.map_or(", overdue".to_owned(), |l| format!(", {l} left"));
            let what = open_ended(&operation.why);
            doing.push(format!("{what}, for {}{bound}", ago(self.now, operation.since)));
        }
        if status.attempts > 1 {
            doing.push(format!("try {}", status.attempts));
        }
        if let Some(retry) = status.retry_at.and_then(|at| left(self.now, at)) {
            doing.push(format!("tries again in {retry}"));
        }
        if let Some(lost) = status.bmc_lost {
            doing.push(format!("its BMC has not answered for {}", ago(self.now, lost)));
        }
        why.remarks("doing", doing);
        let next = match (status.state.waits_for_people(), status.deadline) {
            (true, _) => "a person must act".to_owned(),
            (false, Some(deadline)) => match left(self.now, deadline) {
                Some(left) => format!("overdue in {left}, if it has not moved on by then"),
                None => format!("overdue for {}", ago(self.now, deadline)),
            },
            (false, None) => String::new(),
        };
        why.line("next", next);
        if let Some(hands_off) = machine.hands_off() {
            why.line("hands off", hands_off);
        }
        if let Some(request) = &machine.spec.request {
            let since = ago(self.now, request.at);
            let asked = open_ended(&request.why);
            why.line(
                "asked by",
                format!("{} asked for {:?} {since} ago: {asked}", request.by, request.ask),
            );
        }
    }

    /// A node without an incident, on a machine in production or on none that is known.
    fn standing(&self, machine: Option<&Machine>, node: Option<&Node>) -> Why {
        let name = self.name;
        let ready = self.condition("Ready");
        let hands_off =
            annotation(node, names::HANDS_OFF).or_else(|| machine.and_then(Machine::hands_off));
        let sentence = if let Some(hands_off) = hands_off {
            let reason = open_ended(hands_off);
            format!("{name} is not repaired automatically: a person forbade it ({reason}).")
        } else if self.is_cordoned() {
            let reason = annotation(node, names::CORDON_REASON);
            let reason = reason.map_or(String::new(), |why| format!(" ({})", open_ended(why)));
            match annotation(node, names::CORDONED_FOR) {
                Some(of) => format!("{name} is cordoned for incident {of}, which is over."),
                None => format!("{name} takes no new work: a person cordoned it{reason}."),
            }
        } else if ready.is_none_or(|ready| ready.status != "True") {
            let message = ready.and_then(|ready| ready.message.as_deref()).unwrap_or_default();
            let since = ready.and_then(|ready| ready.last_transition_time.as_ref());
            let since = since.map_or(String::new(), |at| format!(" for {}", ago(self.now, at.0)));
            let said = match open_ended(message) {
                "" => String::new(),
                said => format!(": {said}"),
            };
            format!("{name} has not been ready{since}{said}.")
        } else {
            self.serving(machine)
        };
        let mut why = Why::new(sentence);
        let mut seen = Vec::new();
        let held = self.pods.iter().filter(|pod| pod::holds(pod)).count();
        seen.push(match held {
            0 => "idle".to_owned(),
            1 => "1 pod runs".to_owned(),
            held => format!("{held} pods run"),
        });
        let status = machine.and_then(|machine| machine.status.as_ref());
        if let Some(test) = status.and_then(|status| status.tests.first()) {
            let verdict = if test.passed { "passed" } else { "failed" };
            seen.push(format!("test {} {verdict} {} ago", test.test, ago(self.now, test.at)));
        }
        if let Some(lemon) = status.and_then(|s| s.lemon.as_ref()).filter(|l| l.score > 0) {
            seen.push(format!("lemon score {} of 100 ({})", lemon.score, lemon.signals.join(", ")));
        }
        why.remarks("evidence", seen);
        let mine = self.incidents.iter().filter(|incident| self.is_mine(incident));
        if let Some(last) = mine.max_by_key(|incident| incident.spec.opened) {
            let end = last.status.as_ref().and_then(|status| status.end);
            let end = end.map_or(String::new(), |end| format!(", {end:?}"));
            let since = ago(self.now, last.spec.opened);
            why.line("last", format!("{} {since} ago{end}", last.spec.cause));
        }
        for kind in [Kind::ImmediatePhase, Kind::PendingPhase] {
            if let Some(asked) = self.condition(kind.name()).filter(|c| c.status == "True") {
                let phase = asked.reason.as_deref().unwrap_or_default();
                let when = if kind == Kind::PendingPhase { "once it is idle" } else { "now" };
                let message = asked.message.as_deref().unwrap_or_default();
                let said = Evidence::read(message).text;
                why.line("next", format!("{phase} {when}: {}", open_ended(&said)));
            }
        }
        why
    }

    fn serving(&self, machine: Option<&Machine>) -> String {
        let name = self.name;
        let Some(status) = machine.and_then(|machine| machine.status.as_ref()) else {
            return format!("{name} is ready; no machine of the fleet is known below it.");
        };
        match (status.role, &status.pool) {
            (Role::Member, Some(pool)) => {
                let tenant = status.tenant.as_deref().unwrap_or_default();
                format!("{name} is in service: it serves pool {pool} of tenant {tenant}.")
            }
            (Role::Spare, _) => format!("{name} is in service as a spare: proven and kept free."),
            _ => format!("{name} is ready; its machine is in {}.", status.state),
        }
    }
}
