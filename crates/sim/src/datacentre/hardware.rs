//! One machine, as what runs on it and whoever breaks it see it.

use super::fault::{Fault, Voice};
use super::site::Datacentre;
use api::inventory::Inventory;
use api::request::{Power, Report, Task};
use jiff::Timestamp;
use plan::detect::Symptom;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::sync::{mpsc, watch};

/// A system that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The kernel's boot ID: another one after every boot.
    pub boot: String,
    /// The image that was booted.
    pub image: String,
    /// The kernel of that image.
    pub kernel: String,
    /// When it came up.
    pub since: Timestamp,
    /// What the boot service's manifest said, word for word: where and with which one-time token it
    /// joins. Empty where no boot service is connected.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
}

/// What a running system sees of its hardware, as it happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A symptom at its source: a line of the kernel's log, samples, a value among its peers.
    Symptom(Box<Symptom>),
    /// Whether kubelet and agent can speak has changed: ask [`Hardware::speaks`].
    Voices,
}

/// Names one fault of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FaultId(pub u64);

/// What is healed without the machine's own doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heal {
    /// Everything, as in a factory.
    All,
    /// This fault alone.
    One(FaultId),
    /// Every fault of this word or row.
    Named(String),
    /// What a technician mends: everything but what lies outside the machine.
    Parts,
}

/// A change of power that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// When.
    pub at: Timestamp,
    /// What was told.
    pub power: Power,
    /// For which operation, if whoever told it said so in the header `seatrial-operation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The boot that it ended, if one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether it cut off a boot that would have come up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// One machine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hardware {
    pub(super) site: Datacentre,
    pub(super) index: usize,
}

impl Hardware {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan().name
    }

    /// What the layout says of it.
    pub fn plan(&self) -> &super::MachinePlan {
        self.site.plan(self.index)
    }

    /// The system that runs, now and whenever it changes.
    pub fn running(&self) -> watch::Receiver<Option<Running>> {
        self.site.unit(self.index).running.subscribe()
    }

    /// The parts that a running system finds now.
    pub fn inventory(&self) -> Inventory {
        Inventory::default()
    }

    /// The firmware that a running system finds now, by component.
    pub fn firmware(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Carries a task out on the running system. It takes as long as it would and ends as the
    /// hardware's state demands. None if the boot that it is for does not run, or ends before it;
    /// a task that was under way when this process was killed goes on.
    pub async fn perform(&self, task: &Task) -> Option<Report> {
        let _ = task;
        None
    }

    /// What the running system sees: first what is the case now, then what changes. A fault shows
    /// anew in every boot that it survives.
    pub fn signals(&self) -> mpsc::UnboundedReceiver<Signal> {
        mpsc::unbounded_channel().1
    }

    /// Whether this voice can be heard now.
    pub fn speaks(&self, voice: Voice) -> bool {
        let _ = voice;
        self.site.unit(self.index).running.borrow().is_some()
    }

    /// Breaks it.
    pub fn strike(&self, fault: Fault) -> FaultId {
        let _ = fault;
        FaultId(0)
    }

    /// Mends it from outside and says how many faults ended.
    pub fn heal(&self, what: &Heal) -> usize {
        let _ = what;
        0
    }

    /// The faults that it has.
    pub fn faults(&self) -> Vec<(FaultId, Fault)> {
        Vec::new()
    }

    /// Whether the power is on.
    pub fn on(&self) -> bool {
        false
    }

    /// Changes the power, as its BMC does.
    pub fn power(&self, power: Power, operation: Option<&str>) {
        let _ = (power, operation);
    }

    /// How often its power was changed.
    pub fn resets(&self) -> u64 {
        0
    }

    /// The last changes of its power, oldest first.
    pub fn reset_log(&self) -> Vec<Reset> {
        Vec::new()
    }
}
