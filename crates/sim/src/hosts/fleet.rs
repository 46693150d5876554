//! What the parts of all hosts share: per machine its objects as last seen, its pods, and its kubelet.
//!
//! The caches write here, agents and kubelets read; nothing is decided here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Machine;
use controllers::heartbeats::Listener;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::controller::{Adder, ObjectKey};
use kube::Client;
use plan::catalogue::Metric;
use tokio::sync::watch;

use super::beat::{Life, Whose};
use super::kubelet::Key;
use crate::datacentre::{Hardware, Running};

/// A kubelet that runs.
#[derive(Clone)]
pub(super) struct Kubelet {
    /// The boot that it runs in.
    pub(super) running: Running,
    /// Acts as its node.
    pub(super) client: Client,
    /// It has told the API of this boot. A node that is deleted afterwards is not made again before
    /// the next boot.
    pub(super) registered: bool,
    /// A fault keeps it from speaking.
    pub(super) mute: bool,
    /// Its pods, by UID, as it has come to know them.
    pub(super) pods: BTreeMap<String, Memory>,
}

/// What a kubelet knows of a pod beside its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// When it first saw the pod during this boot.
    pub(super) seen: Timestamp,
    /// When it first saw that the pod shall end.
    pub(super) ending: Option<Timestamp>,
}

/// One machine.
pub(super) struct Seat {
    pub(super) hardware: Hardware,
    pub(super) index: usize,
    pub(super) machine: watch::Sender<Option<Arc<Machine>>>,
    pub(super) node: watch::Sender<Option<Arc<Node>>>,
    pub(super) busy: watch::Sender<bool>,
    /// Pods that are bound to it, and whether they are workloads that run.
    pub(super) pods: BTreeMap<ObjectKey, bool>,
    pub(super) kubelet: Option<Kubelet>,
    /// What the last comparisons with its peers during this boot were.
    pub(super) peers: Compared,
    /// What is known of the kubelet's life.
    pub(super) life: Life,
    /// What is known of the agent's.
    pub(super) agent: Life,
}

/// How a node stood among its peers during one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Compared {
    pub(super) boot: String,
    pub(super) by: BTreeMap<Metric, Comparison>,
}

/// One value among those of its peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    /// When it was measured.
    pub(super) at: Timestamp,
    /// How many were compared, itself included.
    pub(super) peers: u32,
    /// What the others show.
    pub(super) typical: f64,
    /// What it shows.
    pub(super) value: f64,
}

/// Every machine. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Fleet(Arc<Mutex<Inner>>);

#[derive(Default)]
pub(super) struct Inner {
    seats: BTreeMap<String, Seat>,
    work: Option<Adder<Key>>,
    compare: Option<Adder<String>>,
    listeners: Vec<(Whose, Listener)>,
}

impl Fleet {
    pub(super) fn new(machines: impl Iterator<Item = Hardware>) -> Self {
        let seat = |(index, hardware): (usize, Hardware)| {
            let name = hardware.name().to_owned();
            let seat = Seat {
                hardware,
                index,
                machine: watch::Sender::new(None),
                node: watch::Sender::new(None),
                busy: watch::Sender::new(false),
                pods: BTreeMap::new(),
                kubelet: None,
                peers: Compared::default(),
                life: Life::Never,
                agent: Life::Never,
            };
            (name, seat)
        };
        let seats = machines.enumerate().map(seat).collect();
        Self(Arc::new(Mutex::new(Inner { seats, ..Inner::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a machine, or changes what is known of it.
    pub(super) fn with<T>(&self, name: &str, act: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        self.lock().seats.get_mut(name).map(act)
    }

    /// The names of all machines, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().seats.keys().cloned().collect()
    }

    /// Where work for kubelets goes.
    pub(super) fn work_through(&self, adder: Adder<Key>) {
        self.lock().work = Some(adder);
    }

    /// Where comparisons of nodes go.
    pub(super) fn compare_through(&self, adder: Adder<String>) {
        self.lock().compare = Some(adder);
    }

    /// A node was measured beside its peers.
    pub(super) fn compared(&self, name: &str, boot: &str, metric: Metric, found: Comparison) {
        self.with(name, |seat| {
            if seat.peers.boot != boot {
                seat.peers = Compared { boot: boot.to_owned(), by: BTreeMap::new() };
            }
            seat.peers.by.insert(metric, found);
        });
        let compare = self.lock().compare.clone();
        if let Some(compare) = compare {
            compare.add(name.to_owned());
        }
    }

    /// Who is told of kubelets, or of agents, that fall silent or speak again.
    pub(super) fn tell(&self, whose: Whose, listener: Listener) {
        self.lock().listeners.push((whose, listener));
    }

    /// The agent can be heard, or not.
    pub(super) fn hear_agent(&self, name: &str, heard: bool, now: Timestamp) {
        let changed = self.with(name, |seat| match heard {
            true => seat.agent.begin(now),
            false => seat.agent.end(now),
        });
        if changed == Some(true) {
            self.notify(name, Whose::Agent);
        }
    }

    /// The Machine as the watch has it.
    pub(super) fn see_machine(&self, name: &str, machine: Option<Arc<Machine>>) {
        self.with(name, |seat| seat.machine.send_replace(machine));
    }

    /// The Node as the watch has it.
    pub(super) fn see_node(&self, name: &str, node: Option<Arc<Node>>) {
        self.with(name, |seat| seat.node.send_replace(node));
    }

    /// A pod as the watch has it: bound to this machine, or gone from it.
    pub(super) fn see_pod(&self, name: &str, key: &ObjectKey, was: &Pod, is: Option<&Pod>) {
        self.with(name, |seat| {
            match is {
                Some(pod) => {
                    seat.pods.insert(key.clone(), works(pod));
                }
                None => {
                    seat.pods.remove(key);
                    if let Some(kubelet) = &mut seat.kubelet {
                        kubelet.pods.remove(was.metadata.uid.as_deref().unwrap_or_default());
                    }
                }
            }
            let busy = seat.pods.values().any(|works| *works);
            seat.busy.send_if_modified(|was| std::mem::replace(was, busy) != busy);
        });
    }

    /// The kubelet runs, unless it does already.
    pub(super) fn start_kubelet(
        &self,
        name: &str,
        running: &Running,
        client: Client,
        mute: bool,
        now: Timestamp,
    ) {
        let started = self.with(name, |seat| {
            let runs = seat.kubelet.as_ref().is_some_and(|k| k.running.boot == running.boot);
            if !runs {
                seat.kubelet = Some(Kubelet {
                    running: running.clone(),
                    client,
                    registered: false,
                    mute,
                    pods: BTreeMap::new(),
                });
                if !mute {
                    seat.life = Life::Alive { since: now };
                }
            }
            !runs
        });
        if started == Some(true) {
            self.wake(name);
        }
    }

    /// The kubelet no longer runs: it was stopped, or the power went.
    pub(super) fn stop_kubelet(&self, name: &str, now: Timestamp) {
        let stopped = self.with(name, |seat| {
            let ran = seat.kubelet.take().is_some();
            ran && seat.life.end(now)
        });
        if stopped == Some(true) {
            self.notify(name, Whose::Kubelet);
        }
    }

    /// The kubelet can be heard, or not.
    pub(super) fn mute_kubelet(&self, name: &str, mute: bool, now: Timestamp) {
        let changed = self.with(name, |seat| {
            let Some(kubelet) = &mut seat.kubelet else { return false };
            if std::mem::replace(&mut kubelet.mute, mute) == mute {
                return false;
            }
            if mute {
                seat.life.end(now);
            } else {
                seat.life = Life::Alive { since: now };
            }
            true
        });
        if changed != Some(true) {
        } else if mute {
            self.notify(name, Whose::Kubelet);
        } else {
            self.wake(name);
        }
    }

    /// The API knows of this boot.
    pub(super) fn registered(&self, name: &str, boot: &str) {
        self.with(name, |seat| {
            if let Some(kubelet) = seat.kubelet.as_mut().filter(|k| k.running.boot == boot) {
                kubelet.registered = true;
            }
        });
    }

    /// Everything on a node is looked at, and who listens is told.
    fn wake(&self, name: &str) {
        let mut inner = self.lock();
        let Some(seat) = inner.seats.get_mut(name) else { return };
        let pods: Vec<ObjectKey> = seat.pods.keys().cloned().collect();
        if let Some(work) = inner.work.clone() {
            drop(inner);
            work.add(Key::Node(name.to_owned()));
            pods.into_iter().for_each(|pod| work.add(Key::Pod(pod)));
        } else {
            drop(inner);
        }
        self.notify(name, Whose::Kubelet);
    }

    fn notify(&self, name: &str, whose: Whose) {
        let listeners = self.lock().listeners.clone();
        let told = listeners.iter().filter(|(about, _)| *about == whose);
        told.for_each(|(_, listener)| listener(name));
    }
}

/// Whether a pod is work that runs: not of a DaemonSet, and not ended.
fn works(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let daemon = owners.into_iter().any(|o| o.controller == Some(true) && o.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !daemon && !matches!(phase, Some("Succeeded" | "Failed"))
}
