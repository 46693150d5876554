//! The hidden truth: power, boots, agents, and what is broken about them.

use api::inventory::Inventory;
use api::request::{Chore, Power};
use jiff::Timestamp;
use std::time::Duration;

/// What one thing that hardware does may do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it should.
    Well,
    /// Fails the next so many times.
    FailsTimes(u32),
    /// Never ends the next so many times.
    HangsTimes(u32),
    /// Fails for ever.
    Fails,
    /// Never ends.
    Hangs,
}

impl Mode {
    /// What happens this time.
    fn take(&mut self) -> Self {
        match *self {
            Self::FailsTimes(0) | Self::HangsTimes(0) => Self::Well,
            Self::FailsTimes(n) => {
                *self = Self::FailsTimes(n - 1);
                Self::Fails
            }
            Self::HangsTimes(n) => {
                *self = Self::HangsTimes(n - 1);
                Self::Hangs
            }
            other => other,
        }
    }
}

/// One machine's hidden truth.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) on: bool,
    pub(crate) resets: u64,
    /// Resets that a BMC was told to make, by operation.
    pub(crate) told: Vec<String>,
    pub(crate) boot: Option<u64>,
    pub(crate) booting: Option<Timestamp>,
    pub(crate) inventory: Inventory,
    pub(crate) bios: String,
    pub(crate) task: Option<(String, Chore, Timestamp, Mode)>,
    pub(crate) bmc: Mode,
    pub(crate) boots: Mode,
    pub(crate) chore: Vec<(Chore, Mode)>,
    pub(crate) joins: bool,
    /// Whether the word of the kubelet before the boot stands, Ready and all.
    pub(crate) stale: bool,
    /// Faults that the system shows; each with the chore or power that cures it.
    pub(crate) ill: Vec<Ill>,
}

/// A fault that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ill {
    pub(crate) row: String,
    pub(crate) part: Option<String>,
    pub(crate) cure: Cure,
    pub(crate) since: Timestamp,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    Reset,
    Boot,
    Cycle,
    Never,
}

impl Hardware {
    pub(crate) fn new(inventory: Inventory) -> Self {
        Self {
            on: false,
            resets: 0,
            told: Vec::new(),
            boot: None,
            booting: None,
            inventory,
            bios: "1.0".to_owned(),
            task: None,
            bmc: Mode::Well,
            boots: Mode::Well,
            chore: Vec::new(),
            joins: true,
            stale: false,
            ill: Vec::new(),
        }
    }

    pub(crate) fn last_reset(&self) -> String {
        format!("reset-{}", self.resets)
    }

    /// The BMC is told; whether it does so is its own affair.
    pub(crate) fn power(&mut self, power: Power, operation: &str, now: Timestamp) -> bool {
        if self.bmc.take() != Mode::Well {
            return false;
        }
        self.told.push(operation.to_owned());
        self.resets += 1;
        self.boot = None;
        self.task = None;
        self.on = power != Power::Off;
        self.ill.retain(|ill| match ill.cure {
            Cure::Reset | Cure::Boot => power == Power::Off,
            Cure::Cycle => power != Power::Cycle,
            Cure::Never => true,
        });
        self.booting = None;
        if self.on && self.boots.take() == Mode::Well {
            self.booting = now.checked_add(Duration::from_secs(390)).ok();
        }
        true
    }

    pub(crate) fn begin(&mut self, id: &str, chore: Chore, now: Timestamp) {
        if self.task.as_ref().is_some_and(|(there, ..)| there == id) {
            return;
        }
        let seconds = match chore {
            Chore::Inventory => 60,
            Chore::Firmware => 3_600,
            Chore::TestFull => 86_400,
            Chore::TestQuick | Chore::TestIdle => 600,
            Chore::Diagnose => 1_800,
            _ => 30,
        };
        let mode = self
            .chore
            .iter_mut()
            .find(|(which, _)| *which == chore)
            .map_or(Mode::Well, |(_, mode)| mode.take());
        let ends = now.checked_add(Duration::from_secs(seconds)).unwrap();
        self.task = Some((id.to_owned(), chore, ends, mode));
    }

    /// When something happens by itself.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let task =
            self.task.as_ref().filter(|(.., mode)| *mode != Mode::Hangs).map(|(_, _, at, _)| *at);
        [self.booting, task].into_iter().flatten().min()
    }
}
