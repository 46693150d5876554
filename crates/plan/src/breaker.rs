//! Breakers: many nodes that fall ill together have one cause, and rebooting them does not cure it.
//!
//! A wave is a number of nodes that fell ill within a window and hang on the same leaf, power
//! distribution unit or rack, run the same image, or, with nothing in common, show the same symptom.
//! The most particular explanation is named. A wave opens a [`Breaker`], and repairs of the nodes
//! that it speaks for wait until a person has acknowledged it.
//!
//! A breaker opens once per wave: new nodes of a wave that is still open join it, and nodes that fell
//! ill before a person acknowledged never open it again.

use crate::deed::{Because, Deed, Event, Fence, Plan};
use crate::machine::later;
use crate::rules::Rules;
use api::Breaker;
use api::breaker::{BreakerSpec, BreakerStatus, Common};
use api::names::manager;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A node that fell ill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sick {
    /// Its name.
    pub node: String,
    /// The row of the fault catalogue.
    pub symptom: String,
    /// When its fault was first seen.
    pub since: Timestamp,
    /// The leaf it hangs on.
    pub leaf: Option<String>,
    /// The power distribution unit it hangs on.
    pub pdu: Option<String>,
    /// The rack it stands in.
    pub rack: Option<String>,
    /// The image it runs.
    pub image: Option<String>,
}

impl Sick {
    /// What it has of this.
    pub fn value(&self, common: Common) -> Option<&str> {
        match common {
            Common::Leaf => self.leaf.as_deref(),
            Common::Pdu => self.pdu.as_deref(),
            Common::Rack => self.rack.as_deref(),
            Common::Image => self.image.as_deref(),
            Common::Symptom => Some(&self.symptom),
        }
    }
}

/// Everything that the watch over waves rests on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The time, from the controller's clock.
    pub now: Timestamp,
    /// Every node with a fault that calls for a repair.
    pub sick: &'a [Sick],
    /// How many nodes there are of each leaf, rack, unit and image: on an image that all run, only
    /// a share of them is a wave.
    pub sizes: &'a BTreeMap<(Common, String), usize>,
    /// Every breaker.
    pub breakers: &'a [Breaker],
    /// Times and bounds.
    pub rules: &'a Rules,
}

/// What is done about waves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Make a breaker. One that is there already is left as it is.
    Create {
        /// Its name.
        name: String,
        /// What it watches.
        spec: BreakerSpec,
    },
    /// Write the status of a breaker, where its resource version is the one observed.
    Write {
        /// Its name.
        name: String,
        /// The status.
        status: BreakerStatus,
    },
}

/// Nodes that fell ill together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// What they have in common.
    pub common: Common,
    /// Which one.
    pub value: String,
    /// The nodes, in the order of their names.
    pub nodes: Vec<String>,
    /// When the first of them fell ill.
    pub since: Timestamp,
}

/// The name of the breaker for this cause.
pub fn name(common: Common, value: &str) -> String {
    let clean: String = value
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .take(200)
        .collect();
    format!("{common}-{}", clean.trim_matches(['-', '.']))
}

/// The waves that are running, each node in one of them only: the most particular.
pub fn waves(observed: &Observed<'_>) -> Vec<Wave> {
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for common in Common::ALL {
        let mut groups: BTreeMap<&str, Vec<&Sick>> = BTreeMap::new();
        for sick in observed.sick.iter().filter(|sick| !taken.contains(sick.node.as_str())) {
            if let Some(value) = sick.value(common) {
                groups.entry(value).or_default().push(sick);
            }
        }
        for (value, mut group) in groups {
            group.sort_by_key(|sick| sick.since);
            let need = needed(observed, common, value);
            let run = latest(&group, observed.rules.wave_window, need);
            let Some(first) = run.first() else { continue };
            let nodes: BTreeSet<&str> = run.iter().map(|sick| sick.node.as_str()).collect();
            found.push(Wave {
                common,
                value: value.to_owned(),
                nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
                since: first.since,
            });
            taken.extend(nodes);
        }
    }
    found
}

/// The latest run of faults within the window that befell so many nodes; none if there were never so
/// many. They come in the order of their times.
fn latest<'a, 'b>(sick: &'b [&'a Sick], window: Duration, need: usize) -> &'b [&'a Sick] {
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    let mut from = sick.len();
    for (end, last) in sick.iter().enumerate().rev() {
        // Back by one fault, and as far back as the window then reaches.
        let reached = sick[..from].partition_point(|one| later(one.since, window) < last.since);
        for one in &sick[reached..from] {
            *faults.entry(&one.node).or_default() += 1;
        }
        from = reached;
        if faults.len() >= need {
            return &sick[from..=end];
        }
        if let Some(left) = faults.get_mut(last.node.as_str()) {
            *left -= 1;
            if *left == 0 {
                faults.remove(last.node.as_str());
            }
        }
    }
    &[]
}

/// How many nodes make a wave. Faults of one image or symptom come by chance in a large fleet, so
/// those need more, and an image also a share of the nodes that run it.
fn needed(observed: &Observed<'_>, common: Common, value: &str) -> usize {
    let rules = observed.rules;
    let size = observed.sizes.get(&(common, value.to_owned())).copied().unwrap_or_default();
    match common {
        Common::Leaf | Common::Pdu | Common::Rack => rules.wave_common,
        Common::Image => rules.wave_symptom.max(size.div_ceil(50)),
        Common::Symptom => rules.wave_symptom,
    }
}

/// The open breaker that speaks for a node, if one does.
pub fn holding<'b>(breakers: &'b [Breaker], sick: &Sick) -> Option<&'b Breaker> {
    breakers.iter().filter(|breaker| breaker.is_open()).find(|breaker| {
        let named = breaker.status.as_ref().is_some_and(|status| status.nodes.contains(&sick.node));
        named || sick.value(breaker.spec.common) == Some(&breaker.spec.value)
    })
}

/// What is to be done about waves now.
pub fn plan(observed: &Observed<'_>) -> Plan<Act, ()> {
    let mut plan = Plan::default();
    for wave in waves(observed) {
        let name = name(wave.common, &wave.value);
        let known = observed.breakers.iter().find(|b| b.metadata.name.as_deref() == Some(&name));
        let Some(known) = known else {
            let spec = BreakerSpec {
                common: wave.common,
                value: wave.value.clone(),
                ..BreakerSpec::default()
            };
            plan.deeds.push(deed(Act::Create { name, spec }, &wave));
            continue;
        };
        if let Some(status) = opened(known, &wave, observed.now) {
            if status.openings > known.status.as_ref().map_or(0, |s| s.openings) {
                plan.events.push(Event::warning("BreakerOpened", status.why.clone()));
            }
            plan.deeds.push(deed(Act::Write { name, status }, &wave));
        }
    }
    for breaker in observed.breakers {
        let Some(status) = &breaker.status else { continue };
        let written = plan.deeds.iter().any(|deed| {
            matches!(&deed.act, Act::Write { name, .. } if Some(name) == breaker.metadata.name.as_ref())
        });
        if written || status.open == breaker.is_open() {
            continue;
        }
        let name = breaker.metadata.name.clone().unwrap_or_default();
        let by = breaker.spec.by.as_deref().unwrap_or("a person");
        let why = format!("acknowledged by {by}");
        plan.events.push(Event::normal("BreakerReset", why.clone()));
        let status = BreakerStatus {
            open: breaker.is_open(),
            nodes: Vec::new(),
            why: why.clone(),
            ..status.clone()
        };
        let because = Because {
            who: by.to_owned(),
            why,
            evidence: Vec::new(),
            origin: format!("breaker/{name}"),
        };
        plan.deeds.push(Deed {
            act: Act::Write { name, status },
            fence: Fence::default(),
            because,
        });
    }
    plan
}

/// The status after a wave: another opening, more nodes, or nothing new.
fn opened(breaker: &Breaker, wave: &Wave, now: Timestamp) -> Option<BreakerStatus> {
    let old = breaker.status.clone().unwrap_or_default();
    if breaker.is_open() {
        let mut nodes = old.nodes.clone();
        nodes.extend(wave.nodes.iter().cloned());
        nodes.sort();
        nodes.dedup();
        nodes.truncate(1_024);
        return (nodes != old.nodes || !old.open).then(|| {
            let why = why(wave, nodes.len());
            BreakerStatus { nodes, why, open: true, ..old }
        });
    }
    // Whoever acknowledged knew of everything up to then.
    if old.since.is_some_and(|since| wave.since <= since) {
        return None;
    }
    Some(BreakerStatus {
        openings: old.openings.saturating_add(1),
        open: true,
        since: Some(now),
        why: why(wave, wave.nodes.len()),
        nodes: wave.nodes.iter().take(1_024).cloned().collect(),
    })
}

fn why(wave: &Wave, count: usize) -> String {
    format!("{count} {}", together(wave.common, &wave.value))
}

/// What a breaker stopped, in words that stay the same however many nodes join it.
pub fn wave(spec: &BreakerSpec) -> String {
    together(spec.common, &spec.value)
}

fn together(common: Common, value: &str) -> String {
    match common {
        Common::Symptom => {
            format!("nodes show {value} within minutes, with nothing else in common")
        }
        common => format!("nodes of {common} {value} fell ill within minutes"),
    }
}

fn deed(act: Act, wave: &Wave) -> Deed<Act> {
    let because = Because {
        who: manager::BREAKER.to_owned(),
        why: why(wave, wave.nodes.len()),
        evidence: vec![format!("since {}: {}", wave.since, wave.nodes.join(", "))],
        origin: format!("wave/{}/{}", wave.common, wave.value),
    };
    Deed { act, fence: Fence::default(), because }
}
