//! The hidden truth of one machine: power, boots, firmware, what is broken, what is under way.
//!
//! Pure: everything happens at a time that the caller gives. What comes of it (signals, a boot to
//! fetch) is left in the truth for the caller to carry out.

use super::delays::{Delay, Delays};
use super::fault::{Cure, Fault, Mishap};
use super::faults::Faults;
use super::hardware::{FaultId, Reset, Running, Signal};
use super::layout::MachinePlan;
use super::show;
use api::instance_type::InstanceTypeSpec;
use api::request::{Power, Report};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The last resets that are remembered.
const MAX_LOG: usize = 64;

/// What a machine stands in: the time, the tables, and what its layout says of it.
pub(super) struct Around<'a> {
    pub(super) now: Timestamp,
    pub(super) delays: &'a Delays,
    pub(super) faults: &'a Faults,
    pub(super) plan: &'a MachinePlan,
    pub(super) kind: &'a InstanceTypeSpec,
    pub(super) seed: u64,
    /// Whether a boot service is connected.
    pub(super) boots_from_service: bool,
    /// When an image is loaded that a machine begins to load now.
    pub(super) loaded: &'a dyn Fn(Timestamp) -> Timestamp,
}

impl Around<'_> {
    pub(super) fn after(&self, at: Timestamp, delay: Delay) -> Timestamp {
        plus(at, self.delays.of(delay))
    }
}

/// A time later.
pub(super) fn plus(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// How far a boot has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    /// Firmware tests and trains.
    Post {
        /// Until when.
        ends: Timestamp,
    },
    /// The boot service is asked what to boot.
    Fetch,
    /// The image is loaded and starts.
    Load {
        /// Until when.
        ends: Timestamp,
        image: String,
        kernel: String,
        manifest: String,
    },
    /// It ends nowhere.
    Hung,
}

/// What a BMC has said yes to and not yet begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) at: Timestamp,
    pub(super) power: Power,
    pub(super) operation: Option<String>,
}

/// A fault that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ill {
    pub(super) id: FaultId,
    pub(super) fault: Fault,
    /// Since when this boot shows it.
    pub(super) since: Timestamp,
    /// Whether a test of this boot has found it.
    #[serde(default)]
    pub(super) found: bool,
}

/// What the agent works on, or has worked on last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) id: String,
    /// None: it never ends.
    pub(super) ends: Option<Timestamp>,
    pub(super) report: Option<Report>,
}

/// A signal that is due later.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) at: Timestamp,
    pub(super) of: FaultId,
    pub(super) signal: Signal,
}

/// One machine's hidden truth.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Truth {
    pub(super) on: bool,
    pub(super) off_since: Option<Timestamp>,
    /// When a power cycle gives the power back.
    pub(super) back_at: Option<Timestamp>,
    pub(super) orders: VecDeque<Order>,
    pub(super) step: Option<Step>,
    pub(super) running: Option<Running>,
    /// How often a boot was begun, and how often one came up.
    pub(super) starts: u64,
    pub(super) boots: u64,
    pub(super) resets: u64,
    /// How many of them cut off a boot that would have come up.
    pub(super) cut_offs: u64,
    pub(super) last_reset: Option<Timestamp>,
    pub(super) log: VecDeque<Reset>,
    /// Firmware that differs from that of the type.
    pub(super) firmware: BTreeMap<String, String>,
    /// Firmware that was written and takes hold when the power is next cut.
    pub(super) written: Option<BTreeMap<String, String>>,
    pub(super) ills: Vec<Ill>,
    pub(super) struck: u64,
    pub(super) work: Option<Work>,
    /// What the running system keeps in its memory, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) kept: BTreeMap<String, String>,
    #[serde(skip)]
    pub(super) outbox: Vec<Due>,
    #[serde(skip)]
    pub(super) news: Vec<Signal>,
    /// Whether boots, silences or tasks have changed.
    #[serde(skip)]
    pub(super) stirred: bool,
    #[serde(skip)]
    pub(super) fetching: bool,
}

impl Truth {
    /// As delivered: off, with the firmware of the factory.
    pub(super) fn delivered(plan: &MachinePlan) -> Self {
        Self { firmware: plan.delivered.clone(), ..Self::default() }
    }

    /// It runs the image of its type on the firmware of its type, as after its first voyage.
    pub(super) fn serve(&mut self, around: &Around<'_>) {
        self.on = true;
        self.starts = 1;
        self.last_reset = Some(around.now);
        self.firmware.clear();
        let (image, kernel) = (around.kind.image.clone(), KERNEL.to_owned());
        self.up(around.now, image, kernel, String::new(), around);
    }

    /// When something happens by itself.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let step = match &self.step {
            Some(Step::Post { ends } | Step::Load { ends, .. }) => Some(*ends),
            Some(Step::Fetch | Step::Hung) | None => None,
        };
        let orders = self.orders.iter().map(|order| order.at);
        let ills = self.ills.iter().filter_map(|ill| ill.fault.until);
        let outbox = self.outbox.iter().map(|due| due.at);
        orders.chain(ills).chain(outbox).chain(step).chain(self.back_at).min()
    }

    /// Lets happen what is due, in the order in which it was due.
    pub(super) fn happen(&mut self, around: &Around<'_>) {
        while let Some(at) = self.next().filter(|at| *at <= around.now) {
            let due = |order: &Order| order.at <= at;
            if let Some(index) = self.orders.iter().position(due) {
                if let Some(order) = self.orders.remove(index) {
                    self.carry_out(order, at, around);
                }
                continue;
            }
            if self.back_at.is_some_and(|back| back <= at) {
                self.back_at = None;
                self.switch_on(at, around);
                continue;
            }
            self.end_step(at, around);
            let ended = |ill: &Ill| ill.fault.until.is_some_and(|until| until <= at);
            self.end_ills(at, around, ended);
            self.deliver(at);
        }
    }

    pub(super) fn powerless(&self) -> bool {
        self.has(|mishap| mishap == Mishap::NoPower)
    }

    /// The BMC accepts a change of power.
    pub(super) fn order(&mut self, power: Power, operation: Option<&str>, around: &Around<'_>) {
        let mut at = around.after(around.now, Delay::BmcBegin);
        if power == Power::GracefulRestart && self.running.is_some() {
            at = around.after(at, Delay::GracefulShutdown);
        }
        let operation = operation.map(|operation| operation.chars().take(253).collect());
        self.orders.push_back(Order { at, power, operation });
        if self.orders.len() > 8 {
            self.orders.pop_front();
        }
    }

    fn carry_out(&mut self, order: Order, at: Timestamp, around: &Around<'_>) {
        let Order { power, operation, .. } = order;
        let idle = match power {
            Power::On => self.on || self.back_at.is_some(),
            Power::Off => !self.on && self.back_at.is_none(),
            Power::GracefulRestart | Power::ForceRestart => !self.on,
            Power::Cycle => false,
        };
        if idle || self.powerless() {
            return;
        }
        if self.mishap(|mishap| matches!(mishap, Mishap::BmcIgnores(_))) {
            return;
        }
        let booting = self.step.as_ref().is_some_and(|step| *step != Step::Hung);
        let cut_off = booting || self.back_at.is_some();
        self.log.push_back(Reset {
            at,
            power,
            operation,
            ended: self.running.as_ref().map(|running| running.boot.clone()),
            cut_off,
        });
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
        }
        self.resets += 1;
        self.cut_offs += u64::from(cut_off);
        self.last_reset = Some(at);
        self.back_at = None;
        let half = power != Power::On
            && power != Power::Off
            && self.mishap(|mishap| matches!(mishap, Mishap::BmcHalf(_)));
        match power {
            Power::On => self.switch_on(at, around),
            _ if half => self.cut(at),
            Power::Off => self.cut(at),
            Power::GracefulRestart | Power::ForceRestart => {
                self.end_boot();
                self.cure(Cure::Boot);
                self.begin_boot(at, around);
            }
            Power::Cycle => {
                self.cut(at);
                self.back_at = Some(around.after(at, Delay::PowerDrain));
            }
        }
    }

    /// The power goes.
    pub(super) fn cut(&mut self, at: Timestamp) {
        self.end_boot();
        if self.on {
            self.off_since = Some(at);
        }
        self.on = false;
        self.step = None;
    }

    /// The power comes.
    pub(super) fn switch_on(&mut self, at: Timestamp, around: &Around<'_>) {
        if self.powerless() {
            return;
        }
        let drain = around.delays.of(Delay::PowerDrain);
        let cold = self.off_since.is_none_or(|since| plus(since, drain) <= at);
        self.cure(if cold { Cure::PowerCycle } else { Cure::Boot });
        if cold && let Some(written) = self.written.take() {
            self.firmware = written;
        }
        self.on = true;
        self.off_since = None;
        self.begin_boot(at, around);
    }

    fn end_boot(&mut self) {
        if self.running.take().is_some() {
            self.voices();
        }
        self.work = None;
        self.kept.clear();
        self.outbox.clear();
        self.fetching = false;
    }

    fn begin_boot(&mut self, at: Timestamp, around: &Around<'_>) {
        self.starts += 1;
        self.fetching = false;
        self.step = Some(if self.mishap(|mishap| matches!(mishap, Mishap::BootHangs(_))) {
            Step::Hung
        } else {
            Step::Post { ends: around.after(at, Delay::PowerOnToDhcp) }
        });
    }

    fn end_step(&mut self, at: Timestamp, around: &Around<'_>) {
        match &self.step {
            Some(Step::Post { ends }) if *ends <= at => {
                if self.mishap(|mishap| matches!(mishap, Mishap::BootFails(_))) {
                    self.begin_boot(at, around);
                } else if around.boots_from_service {
                    self.step = Some(Step::Fetch);
                } else {
                    let image = around.kind.image.clone();
                    self.load(at, image, KERNEL.to_owned(), String::new(), around);
                }
            }
            Some(Step::Load { ends, .. }) if *ends <= at => {
                if let Some(Step::Load { image, kernel, manifest, .. }) = self.step.take() {
                    self.up(at, image, kernel, manifest, around);
                }
            }
            _ => {}
        }
    }

    /// The boot service has answered, or has not.
    pub(super) fn fetched(&mut self, start: u64, found: Option<Fetched>, around: &Around<'_>) {
        if self.starts != start || self.step != Some(Step::Fetch) {
            return;
        }
        self.fetching = false;
        let now = around.now;
        match found {
            Some(Fetched { image, kernel, manifest }) => {
                self.load(now, image, kernel, manifest, around);
            }
            // As network cards do: the firmware tries again after a while.
            None => self.step = Some(Step::Post { ends: around.after(now, Delay::BootRetry) }),
        }
    }

    fn load(
        &mut self,
        at: Timestamp,
        image: String,
        kernel: String,
        manifest: String,
        around: &Around<'_>,
    ) {
        let alone = around.after(at, Delay::Load);
        let waits = (around.loaded)(at).max(alone).duration_since(alone).unsigned_abs();
        let ends = plus(around.after(at, Delay::Boot), waits);
        self.step = Some(Step::Load { ends, image, kernel, manifest });
    }

    fn up(
        &mut self,
        at: Timestamp,
        image: String,
        kernel: String,
        manifest: String,
        around: &Around<'_>,
    ) {
        self.boots += 1;
        let boot = show::boot_id(around, self.boots);
        self.running = Some(Running { boot, image, kernel, since: at, manifest });
        self.work = None;
        self.voices();
        for ill in &mut self.ills {
            ill.since = at;
            ill.found = false;
        }
        self.show_all(around);
    }
}

/// What the boot service said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) image: String,
    pub(super) kernel: String,
    pub(super) manifest: String,
}

/// The kernel of images whose manifest names none.
pub(super) const KERNEL: &str = "6.12.0-simulated";
