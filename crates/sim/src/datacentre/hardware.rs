//! One machine, as what runs on it and whoever breaks it see it.

use super::fault::{Fault, Voice};
use super::layout::MachinePlan;
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
    /// What the boot service's manifest said, word for word: whom it asks who it is. Empty where no boot
    /// service is connected.
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
    pub fn plan(&self) -> &MachinePlan {
        self.site.plan(self.index)
    }

    /// The system that runs, now and whenever it changes.
    pub fn running(&self) -> watch::Receiver<Option<Running>> {
        self.site.unit(self.index).running.subscribe()
    }

    /// The parts that a running system finds now.
    pub fn inventory(&self) -> Inventory {
        self.site.look(self.index, |truth, around| truth.inventory(around))
    }

    /// The firmware that a running system finds now, by component.
    pub fn firmware(&self) -> BTreeMap<String, String> {
        self.site.look(self.index, |truth, around| truth.firmware(around))
    }

    /// Carries a task out on the running system, firmware being brought to what the layout says.
    /// See [`Self::perform_with`].
    pub async fn perform(&self, task: &Task) -> Option<Report> {
        self.perform_with(task, None).await
    }

    /// Carries a task out on the running system. It takes as long as it would and ends as the
    /// hardware's state demands. None if the boot that it is for does not run, or ends before it;
    /// a task that was under way when this process was killed goes on. A task of the same id is
    /// never done twice: its report is given again. `profile` is the firmware that
    /// [`Chore::Firmware`](api::request::Chore::Firmware) writes.
    pub async fn perform_with(
        &self,
        task: &Task,
        profile: Option<&BTreeMap<String, String>>,
    ) -> Option<Report> {
        let changed = &self.site.unit(self.index).changed;
        self.site.touch(self.index, |truth, around| truth.take_on(task, profile, around))?;
        loop {
            let notified = changed.notified();
            let (gone, report, ends) = self.site.touch(self.index, |truth, around| {
                let runs = truth.running.as_ref().is_some_and(|r| r.boot == task.boot);
                let ours = truth.work.as_ref().filter(|work| work.id == task.id);
                let ends = ours.and_then(|work| work.ends).filter(|_| truth.speaks(Voice::Agent));
                let gone = !runs || ours.is_none();
                let report = ends.and_then(|_| truth.finish(task, profile, around));
                (gone, report, ends)
            });
            if gone || report.is_some() {
                return report;
            }
            match ends {
                None => notified.await,
                Some(ends) => {
                    let wait = ends.duration_since(self.site.now()).unsigned_abs();
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// What the system of this boot keeps under a name; see [`Self::keep`].
    pub fn kept(&self, boot: &str, name: &str) -> Option<String> {
        self.site.look(self.index, |truth, _| {
            let runs = truth.running.as_ref().is_some_and(|running| running.boot == boot);
            truth.kept.get(name).filter(|_| runs).cloned()
        })
    }

    /// Keeps a text in the memory of this boot's system, as a real one would below `/run`: whoever
    /// starts again during this boot finds it, and it is gone with the boot.
    pub fn keep(&self, boot: &str, name: &str, text: &str) {
        self.site.touch(self.index, |truth, _| {
            if truth.running.as_ref().is_some_and(|running| running.boot == boot) {
                truth.kept.insert(name.to_owned(), text.to_owned());
            }
        });
    }

    /// The opposite of [`Self::keep`].
    pub fn forget(&self, name: &str) {
        self.site.touch(self.index, |truth, _| drop(truth.kept.remove(name)));
    }

    /// What the running system sees: first what is the case now, then what changes. A fault shows
    /// anew in every boot that it survives.
    pub fn signals(&self) -> mpsc::UnboundedReceiver<Signal> {
        let (ear, signals) = mpsc::unbounded_channel();
        self.site.listen(self.index, ear);
        signals
    }

    /// Whether this voice can be heard now.
    pub fn speaks(&self, voice: Voice) -> bool {
        self.site.look(self.index, |truth, _| truth.speaks(voice))
    }

    /// Breaks it.
    pub fn strike(&self, fault: Fault) -> FaultId {
        self.site.touch(self.index, |truth, around| truth.strike(fault, around))
    }

    /// Mends it from outside and says how many faults ended.
    pub fn heal(&self, what: &Heal) -> usize {
        self.site.touch(self.index, |truth, around| truth.heal(what, around))
    }

    /// The faults that it has.
    pub fn faults(&self) -> Vec<(FaultId, Fault)> {
        self.site.look(self.index, |truth, _| {
            truth.ills.iter().map(|ill| (ill.id, ill.fault.clone())).collect()
        })
    }

    /// Whether the power is on.
    pub fn on(&self) -> bool {
        self.site.look(self.index, |truth, _| truth.on)
    }

    /// Tells its BMC to change the power, without Redfish between. `operation` is remembered in
    /// the log of resets.
    pub fn power(&self, power: Power, operation: Option<&str>) {
        self.site.touch(self.index, |truth, around| truth.order(power, operation, around));
    }

    /// How often its power was changed.
    pub fn resets(&self) -> u64 {
        self.site.look(self.index, |truth, _| truth.resets)
    }

    /// How often a change of its power cut off a boot that would have come up: what a control plane
    /// does that forgets what it has told a BMC, or does not give it time.
    pub fn cut_offs(&self) -> u64 {
        self.site.look(self.index, |truth, _| truth.cut_offs)
    }

    /// The last changes of its power, oldest first: 64 at most.
    pub fn reset_log(&self) -> Vec<Reset> {
        self.site.look(self.index, |truth, _| truth.log.iter().cloned().collect())
    }
}
