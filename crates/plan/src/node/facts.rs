//! What a node and its pods say, read once and in our own words.

use crate::breaker::Sick;
use crate::catalogue::{
    Catalogue, Condition as Kind, Drain, Part, PartKind, Row, Rung, Sighting, Step,
};
use api::condition::{self, Phase};
use api::evidence::Evidence;
use api::treatment::Treatment;
use api::{Incident, Machine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the kubelet, or the absence of its Lease, says about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// It takes pods.
    Yes,
    /// It says that it does not.
    No,
    /// It says nothing.
    #[default]
    Unknown,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The boot that its kubelet reported last.
    pub boot: Option<String>,
    /// Whether it is ready.
    pub ready: Ready,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The incident that our cordon is for; a cordon without it is a person's.
    pub cordoned_for: Option<String>,
    /// Why a person forbade automatic repair.
    pub hands_off: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Which labels and taints its pool gave it, as far as we have written down.
    pub from_pool: FromPool,
    /// Its conditions.
    pub conditions: Vec<Reported>,
}

/// Labels and taints that a node has because its pool wants them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromPool {
    /// Keys of labels.
    pub labels: BTreeSet<String>,
    /// Taints, as `key:effect`.
    pub taints: BTreeSet<String>,
}

impl FromPool {
    /// Reads the annotation [`names::FROM_POOL`](api::names::FROM_POOL). What a person has broken in it
    /// counts as nothing.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let (labels, taints) = text.split_once(';').unwrap_or((text, ""));
        let words = |list: &str| {
            list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Self { labels: words(labels), taints: words(taints) }
    }

    /// The annotation; none if nothing came from a pool. No key has a comma or a semicolon.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        let empty = self.labels.is_empty() && self.taints.is_empty();
        (!empty).then(|| format!("{};{}", list(&self.labels), list(&self.taints)))
    }
}

impl NodeSeen {
    /// Whether a person cordoned it.
    pub fn cordoned_by_person(&self) -> bool {
        self.unschedulable && self.cordoned_for.is_none()
    }

    /// A condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Reported> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// A condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Its type.
    pub kind: String,
    /// Whether it is `True`.
    pub holds: bool,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Who wrote it, from the managed fields.
    pub by: String,
    /// Since when it holds, as its writer's clock had it.
    pub since: Timestamp,
}

/// A pod on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// How it asks to be treated.
    pub treatment: Treatment,
    /// Whether it holds the node: not of a DaemonSet, no mirror, not ended, not a test of ours.
    pub holds: bool,
    /// Its grace period.
    pub grace: Duration,
    /// Since when it has been ending, if it is.
    pub ending: Option<Timestamp>,
}

/// A fault that the node shows now, with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault<'c> {
    /// The row of the catalogue.
    pub row: &'c Row,
    /// How work ends first.
    pub drain: Drain,
    /// The ladder.
    pub ladder: &'c [Rung],
    /// With which rung to begin, repeats counted.
    pub start: usize,
    /// The part it is on.
    pub part: Option<String>,
    /// The boot during which it was seen.
    pub boot: Option<String>,
    /// Since when it holds.
    pub since: Timestamp,
    /// What was seen, as one sentence.
    pub text: String,
    /// Who saw it.
    pub by: String,
}

impl Fault<'_> {
    /// Whether anything is to be done about it beside counting.
    pub fn acts(&self) -> bool {
        self.ladder.get(self.start).is_some_and(|rung| rung.step != Step::RestartApp)
    }

    /// Whether its evidence is of the boot that runs. A silence is of every boot.
    pub fn is_of(&self, boot: Option<&str>) -> bool {
        self.boot.is_some() && self.boot.as_deref() == boot
    }
}

/// Every fault that a node shows with evidence of the boot that runs, the worst first.
pub fn faults<'c>(node: &NodeSeen, catalogue: &'c Catalogue) -> Vec<Fault<'c>> {
    faults_with(node, catalogue, &[])
}

/// [`faults`], with what was seen before counted as repeats.
pub(super) fn faults_with<'c>(
    node: &NodeSeen,
    catalogue: &'c Catalogue,
    past: &[Incident],
) -> Vec<Fault<'c>> {
    let seen: Vec<(&Row, &Reported, Evidence)> = node
        .conditions
        .iter()
        .filter(|condition| condition.holds)
        .filter(|condition| Kind::ALL.iter().any(|kind| kind.as_str() == condition.kind))
        .filter_map(|condition| {
            let says = |row: &&Row| {
                row.condition.as_str() == condition.kind && row.reason == condition.reason
            };
            // Rows may share a reason; evidence may say which of them it is.
            let named = Evidence::row(&condition.message).and_then(|row| catalogue.row(row));
            let row = named.filter(says).or_else(|| catalogue.rows().find(says))?;
            Some((row, condition, Evidence::read(&condition.message)))
        })
        .filter(|(_, _, evidence)| evidence.boot.is_some() && evidence.boot == node.boot)
        .collect();
    let mut sightings: Vec<Sighting> = seen
        .iter()
        .map(|(row, condition, evidence)| Sighting {
            row: row.id.clone(),
            part: part(evidence.part.as_deref()),
            at: condition.since,
        })
        .collect();
    let now: Vec<Sighting> = sightings.clone();
    sightings.extend(past.iter().filter_map(|incident| {
        let row = catalogue.row(&incident.spec.cause)?;
        let part = part(incident.spec.part.as_deref());
        let again =
            now.iter().any(|s| s.row == row.id && s.part == part && s.at == incident.spec.opened);
        (!again).then(|| Sighting { row: row.id.clone(), part, at: incident.spec.opened })
    }));
    let advice = catalogue.advise(&sightings);
    let mut faults: Vec<Fault<'c>> = seen
        .into_iter()
        .filter_map(|(row, condition, evidence)| {
            let part = part(evidence.part.as_deref());
            let advice = advice.iter().find(|a| a.row.id == row.id && a.part == part)?;
            Some(Fault {
                row,
                drain: advice.policy.drain,
                ladder: &advice.policy.ladder,
                start: advice.start,
                part: evidence.part,
                boot: evidence.boot,
                since: condition.since,
                text: evidence.text,
                by: condition.by.clone(),
            })
        })
        .collect();
    faults.sort_by(|a, b| {
        (!a.acts(), a.row.severity, a.since, &a.row.id).cmp(&(
            !b.acts(),
            b.row.severity,
            b.since,
            &b.row.id,
        ))
    });
    faults
}

fn part(name: Option<&str>) -> Part {
    name.map_or_else(Part::node, |name| Part::new(PartKind::Device, name))
}

/// A fault as the breakers see it.
pub fn sick(fault: &Fault<'_>, node: &NodeSeen, machine: &Machine) -> Sick {
    let place = &machine.spec.place;
    Sick {
        node: node.name.clone(),
        symptom: fault.row.id.as_str().to_owned(),
        since: fault.since,
        leaf: place.leaf.clone(),
        pdu: place.pdu.clone(),
        rack: Some(place.rack.clone()),
        image: machine.status.as_ref().and_then(|s| s.agent.as_ref()).map(|a| a.image.clone()),
    }
}

/// Why a node is taken out of service.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A fault, by its row.
    Fault(String),
    /// A phase that was asked for.
    Phase {
        /// Which.
        phase: Phase,
        /// Now, or when the node is idle.
        now: bool,
    },
    /// The pool gives the node back.
    Release,
}

/// The word under which an incident carries its cause.
pub fn cause(word: &str) -> Cause {
    match word.split_once('/') {
        Some(("phase", phase)) => match Phase::read(phase) {
            Some(phase) => Cause::Phase { phase, now: false },
            None => Cause::Fault(word.to_owned()),
        },
        Some(("phase-now", phase)) => match Phase::read(phase) {
            Some(phase) => Cause::Phase { phase, now: true },
            None => Cause::Fault(word.to_owned()),
        },
        Some(("pool", "release")) => Cause::Release,
        _ => Cause::Fault(word.to_owned()),
    }
}

impl Cause {
    /// The word for it.
    pub fn word(&self) -> String {
        match self {
            Self::Fault(row) => row.clone(),
            Self::Phase { phase, now: false } => format!("phase/{phase}"),
            Self::Phase { phase, now: true } => format!("phase-now/{phase}"),
            Self::Release => "pool/release".to_owned(),
        }
    }

    /// The condition that asks for it.
    pub fn condition(&self) -> Option<&'static str> {
        match self {
            Self::Phase { now: false, .. } => Some(condition::Node::PendingPhase.name()),
            Self::Phase { now: true, .. } => Some(condition::Node::ImmediatePhase.name()),
            Self::Fault(_) | Self::Release => None,
        }
    }
}
