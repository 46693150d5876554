//! What was written and done, as it happened, beside the hidden truth.
//!
//! Every write of every client is noted where it is done, every reset where it happens; the judges
//! ([`super::judge`]) look at each as it is noted. Nothing here is seen by a controller.

use super::super::tale::Tale;
use super::judge::Sent;
use crate::datacentre::{Cure, Datacentre, Hardware};
use api::incident::Stage;
use api::request::Operation;
use api::state::State;
use api::{Breaker, Incident, Ledger, Machine};
use http::{Method, Uri};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::Clock;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The user as whom a simulated person acts, and as whom they cordon and uncordon.
pub(super) const PERSON: &str = "ada";
pub(super) const CORDONER: &str = "ada:cordon";
/// More than this of what is wrong tells nobody more.
const ENOUGH: usize = 8;

/// The user of a controller.
pub(super) fn controller(folder: &str) -> String {
    format!("system:seatrial:controller:{folder}")
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Record(Arc<Mutex<Seen>>);

/// What is true of one machine, whatever objects say.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Something about it does not do what it is told, or did not: whatever is done to it has a
    /// reason.
    pub(super) flaw: bool,
    /// A person asked for something.
    pub(super) asked: bool,
    /// The process in which its kubelet runs died, and that has not spoken since.
    pub(super) mute: bool,
    /// The power operation that its object named last, and when it no longer did.
    pub(super) ended: Option<(Operation, Timestamp)>,
    /// The boot in which a fault was there; empty while none runs.
    pub(super) ill_boot: Option<String>,
    /// Its node's cordon is a person's.
    pub(super) cordoned: bool,
    /// Since when a person forbids repairs.
    pub(super) hands_off: Option<Timestamp>,
    /// The tenant whose data is on it.
    pub(super) data_of: Option<String>,
    /// Resets that it does by itself, and that nobody has been asked for.
    pub(super) own_resets: u32,
    /// Resets that were looked at.
    pub(super) resets: u64,
    /// What was done, for which operation, and which boot it ended.
    pub(super) done: Vec<(String, crate::datacentre::Reset)>,
    /// The request that an operation serves.
    pub(super) requests: BTreeMap<String, Option<String>>,
}

/// Everything that was seen.
pub(super) struct Seen {
    pub(super) clock: Clock,
    pub(super) start: Timestamp,
    pub(super) datacentre: Datacentre,
    pub(super) tale: Tale,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) incidents: BTreeMap<String, Incident>,
    pub(super) breakers: BTreeMap<String, Breaker>,
    pub(super) ledger: Option<Ledger>,
    /// The nodes of pods, by namespace and name.
    pub(super) pods: BTreeMap<(String, String), String>,
    /// When an Event of this reason was last told of this object.
    pub(super) told: BTreeMap<(String, String), Timestamp>,
    /// When the audit log last told of this operation.
    pub(super) audited: BTreeMap<String, Timestamp>,
    pub(super) truth: BTreeMap<String, Truth>,
}

#[derive(Deserialize)]
struct Head {
    kind: String,
}

/// The part of an Event that is judged.
#[derive(Deserialize)]
struct Told {
    reason: String,
    regarding: About,
}

#[derive(Deserialize)]
struct About {
    name: String,
}

impl Record {
    pub(super) fn new(datacentre: &Datacentre, told: bool) -> Self {
        let clock = datacentre.settings().clock.clone();
        let names = datacentre.machines().map(|machine| machine.name().to_owned());
        let truth = |hardware: Hardware| Truth { resets: hardware.resets(), ..Truth::default() };
        let truths = datacentre.machines().map(truth);
        Self(Arc::new(Mutex::new(Seen {
            start: clock.now(),
            truth: names.zip(truths).collect(),
            clock,
            datacentre: datacentre.clone(),
            tale: Tale { lines: told.then(Vec::new), ..Tale::default() },
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            incidents: BTreeMap::new(),
            breakers: BTreeMap::new(),
            ledger: None,
            pods: BTreeMap::new(),
            told: BTreeMap::new(),
            audited: BTreeMap::new(),
        })))
    }

    /// What was seen until now.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write was answered.
    pub(super) fn wrote(&self, user: &str, method: &Method, uri: &Uri, code: u16, body: &[u8]) {
        self.seen().wrote(user, method, uri, code, body);
    }

    /// A BMC is about to be told; says for which operation.
    pub(super) fn commanded(&self, machine: &str, sent: Sent) -> Option<String> {
        self.seen().commanded(machine, sent)
    }
}

impl Seen {
    /// Adds a line for whoever reads the schedule.
    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        let seconds = self.clock.now().duration_since(self.start).as_millis();
        if let Some(lines) = &mut self.tale.lines {
            let line = line();
            lines.push(format!("{:>10}.{:03}s {line}", seconds / 1_000, seconds % 1_000));
        }
    }

    pub(super) fn wrong(&mut self, what: String) {
        self.say(|| format!("!! {what}"));
        if self.tale.wrong.len() < ENOUGH {
            self.tale.wrong.push(what);
        }
    }

    /// One step, and everything by which it differs from another.
    pub(super) fn step(&mut self, counts: bool, parts: &[&str]) {
        self.tale.steps += u32::from(counts);
        let at = self.clock.now().as_millisecond().to_le_bytes();
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0])).chain(at);
        for byte in bytes {
            self.tale.hash = (self.tale.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    pub(super) fn state(&self, machine: &str) -> State {
        self.machines.get(machine).map(Machine::state).unwrap_or_default()
    }

    /// The incident on a machine that is not closed.
    pub(super) fn open_incident(&self, machine: &str) -> Option<&Incident> {
        let open = |i: &&Incident| i.spec.machine == machine && stage(i) != Stage::Closed;
        self.incidents.values().find(open)
    }

    pub(super) fn stage(&self, machine: &str) -> Option<Stage> {
        self.open_incident(machine).map(stage)
    }

    pub(super) fn truth(&mut self, machine: &str) -> &mut Truth {
        self.truth.entry(machine.to_owned()).or_default()
    }

    pub(super) fn hardware(&self, machine: &str) -> Option<Hardware> {
        self.datacentre.machine(machine)
    }

    /// Whether there is a reason in truth for what takes this machine out of service.
    pub(super) fn has_cause(&self, machine: &str) -> bool {
        let Some(truth) = self.truth.get(machine) else { return true };
        let Some(hardware) = self.hardware(machine) else { return true };
        let ill = hardware.faults().iter().any(|(_, fault)| fault.cure != Cure::App);
        let boot = hardware.running().borrow().as_ref().map(|running| running.boot.clone());
        let was = truth.ill_boot.as_ref().is_some_and(|of| boot.is_none_or(|boot| boot == *of));
        truth.flaw || truth.asked || truth.mute || ill || was
    }

    /// The process of all agents and kubelets has died.
    pub(super) fn muted(&mut self) {
        for name in self.names() {
            self.truth(&name).mute = true;
        }
    }

    /// A fault is about to strike.
    pub(super) fn struck(&mut self, machine: &str, flaw: bool) {
        let running = self.hardware(machine).and_then(|h| h.running().borrow().clone());
        let boot = running.map(|running| running.boot).unwrap_or_default();
        let truth = self.truth(machine);
        truth.flaw |= flaw;
        truth.ill_boot = Some(boot);
    }

    /// The audit log tells of an operation.
    pub(super) fn audited(&mut self, operation: &str) {
        self.audited.insert(operation.to_owned(), self.clock.now());
    }

    fn wrote(&mut self, user: &str, method: &Method, uri: &Uri, code: u16, body: &[u8]) {
        let path = uri.path();
        let ours = user.starts_with("system:seatrial:controller:");
        if let Some(node) = user.strip_prefix("system:node:").filter(|_| code < 300) {
            self.truth(node).mute = false;
        }
        if uri.query().is_some_and(|query| query.contains("dryRun")) {
            return;
        }
        self.step(ours, &[user, method.as_str(), path, &code.to_string()]);
        let short = user.rsplit(':').next().unwrap_or(user).to_owned();
        self.say(|| format!("{short}> {method} {path} {code}"));
        if code >= 300 {
            return;
        }
        if path.ends_with("/eviction") || *method == Method::DELETE {
            self.removed(user, path);
            return;
        }
        let Some(kind) = read::<Head>(body).map(|head| head.kind) else { return };
        match kind.as_str() {
            "Machine" => read(body).into_iter().for_each(|m| self.machine(user, m)),
            "Node" => read(body).into_iter().for_each(|node| self.node(user, node)),
            "Ledger" => read(body).into_iter().for_each(|ledger| self.ledger(ledger)),
            "Incident" => read(body).into_iter().for_each(|incident| self.incident(incident)),
            "Breaker" => read(body).into_iter().for_each(|breaker| self.breaker(breaker)),
            "Pod" => read(body).into_iter().for_each(|pod| self.pod(pod)),
            "Event" => {
                if let Some(Told { reason, regarding }) = read::<Told>(body) {
                    let now = self.clock.now();
                    self.told.insert((regarding.name, reason), now);
                }
            }
            _ => {}
        }
    }

    fn removed(&mut self, user: &str, path: &str) {
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            [.., "nodes", name] => self.node_deleted(user, name),
            [.., "namespaces", namespace, "pods", name]
            | [.., "namespaces", namespace, "pods", name, "eviction"]
                if user == controller("node") =>
            {
                let pod = ((*namespace).to_owned(), (*name).to_owned());
                if let Some(node) = self.pods.get(&pod).cloned() {
                    self.needs_grant(&node, "ends pods");
                }
            }
            _ => {}
        }
    }

    pub(super) fn incident(&mut self, incident: Incident) {
        let status = incident.status.clone().unwrap_or_default();
        let node = incident.spec.node.clone();
        self.say(|| format!("   incident of {node} {:?}: {}", status.stage, status.why));
        let name = incident.metadata.name.clone().unwrap_or_default();
        self.incidents.insert(name, incident);
    }

    pub(super) fn breaker(&mut self, breaker: Breaker) {
        let name = breaker.metadata.name.clone().unwrap_or_default();
        let why = breaker.status.clone().unwrap_or_default().why;
        self.say(|| format!("   breaker {name} open {}: {why}", breaker.is_open()));
        self.breakers.insert(name, breaker);
    }

    fn pod(&mut self, pod: Pod) {
        let node = pod.spec.and_then(|spec| spec.node_name);
        let (namespace, name) = (pod.metadata.namespace, pod.metadata.name);
        if let (Some(node), Some(namespace), Some(name)) = (node, namespace, name) {
            self.pods.insert((namespace, name), node);
        }
    }

    /// Names of all machines.
    pub(super) fn names(&self) -> Vec<String> {
        self.truth.keys().cloned().collect()
    }

    /// Machines whose nodes carry a person's cordon.
    pub(super) fn cordoned(&self) -> BTreeSet<String> {
        let theirs = self.truth.iter().filter(|(_, truth)| truth.cordoned);
        theirs.map(|(name, _)| name.clone()).collect()
    }
}

pub(super) fn stage(incident: &Incident) -> Stage {
    incident.status.as_ref().map(|status| status.stage).unwrap_or(Stage::Open)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}
