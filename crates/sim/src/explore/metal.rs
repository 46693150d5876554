//! The hidden truth: power, boots, agents, and what is broken about them. No controller sees it but
//! through what a BMC, an agent, a kubelet or a detector says.

use api::request::{Chore, Power};
use jiff::Timestamp;
use std::time::Duration;

/// What cures a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cure {
    /// The program ends.
    App,
    /// The GPU is reset.
    Reset,
    /// Any boot.
    Boot,
    /// The power is cut.
    Cycle,
    /// A part is replaced.
    Parts,
    /// Nothing done to the machine: the leaf or the power distribution unit is repaired.
    Domain,
}

/// A fault that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ill {
    pub(super) row: &'static str,
    pub(super) cure: Cure,
    /// Since when this boot shows it.
    pub(super) since: Timestamp,
    /// When it ends by itself.
    pub(super) until: Option<Timestamp>,
    /// How often it comes back after it has ended by itself.
    pub(super) flaps: u8,
}

/// How one thing that hardware does goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// As it should.
    #[default]
    Well,
    /// Fails so many times more; 255 is for ever.
    Fails(u8),
    /// Never ends, so many times more.
    Hangs(u8),
    /// Says yes and does nothing, so many times more.
    Ignores(u8),
}

impl Mode {
    /// How it goes this time.
    pub(super) fn take(&mut self) -> Self {
        let now = *self;
        *self = match now {
            Self::Fails(n @ 2..255) => Self::Fails(n - 1),
            Self::Hangs(n @ 2..255) => Self::Hangs(n - 1),
            Self::Ignores(n @ 2..255) => Self::Ignores(n - 1),
            Self::Fails(255) | Self::Hangs(255) | Self::Ignores(255) => now,
            _ => Self::Well,
        };
        now
    }
}

/// What the agent works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) id: String,
    pub(super) chore: Chore,
    /// None: it never ends.
    pub(super) ends: Option<Timestamp>,
    pub(super) fails: bool,
}

/// A power operation that a BMC has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) at: Timestamp,
    pub(super) power: Power,
    pub(super) operation: String,
}

/// One machine's hidden truth.
#[derive(Clone, Debug)]
pub(super) struct Metal {
    pub(super) on: bool,
    pub(super) resets: u32,
    /// Whether its BMC says when it last reset the machine.
    pub(super) says_reset: bool,
    pub(super) boot: Option<u64>,
    pub(super) boots_at: Option<Timestamp>,
    pub(super) accepted: Option<Accepted>,
    pub(super) gpus: u32,
    pub(super) flashed: bool,
    pub(super) work: Option<Work>,
    pub(super) bmc: Mode,
    pub(super) boots: Mode,
    pub(super) chore: Option<(Chore, Mode)>,
    pub(super) joins: bool,
    pub(super) ills: Vec<Ill>,
    /// When agent and kubelet speak next.
    pub(super) speaks: Option<Timestamp>,
    /// The tenant whose data is on it.
    pub(super) data_of: Option<String>,
    /// A fault was there during this boot.
    pub(super) ill_boot: bool,
    /// Something about it does not work, or did not: whatever is done to it has a reason.
    pub(super) flaw: bool,
    /// A person asked for something.
    pub(super) asked: bool,
    /// What was done for which operation, and whether the system came up after it.
    pub(super) done: Vec<Done>,
}

/// A reset that has happened.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) operation: String,
    pub(super) request: Option<String>,
    pub(super) booted: bool,
}

const BOOT: Duration = Duration::from_secs(390);

impl Metal {
    pub(super) fn new(now: Timestamp, says_reset: bool) -> Self {
        Self {
            on: false,
            resets: 0,
            says_reset,
            boot: None,
            boots_at: None,
            accepted: None,
            gpus: 8,
            flashed: false,
            work: None,
            bmc: Mode::Well,
            boots: Mode::Well,
            chore: None,
            joins: true,
            ills: Vec::new(),
            speaks: Some(now),
            data_of: None,
            ill_boot: false,
            flaw: false,
            asked: false,
            done: Vec::new(),
        }
    }

    /// What its BMC says about its last reset.
    pub(super) fn last_reset(&self) -> Option<String> {
        self.says_reset.then(|| format!("reset-{}", self.resets))
    }

    /// Power is cut, given or both.
    pub(super) fn reset(&mut self, power: Power, now: Timestamp) {
        self.resets += 1;
        self.boot = None;
        self.work = None;
        self.on = power != Power::Off;
        self.ills.retain(|ill| match ill.cure {
            Cure::App | Cure::Reset | Cure::Boot => power == Power::Off,
            Cure::Cycle => power != Power::Cycle,
            Cure::Parts | Cure::Domain => true,
        });
        self.boots_at = None;
        if self.on && self.boots.take() == Mode::Well {
            self.boots_at = Some(plus(now, BOOT));
        }
        self.speaks = Some(plus(now, Duration::from_secs(40)));
    }

    /// The system is up.
    pub(super) fn up(&mut self, boot: u64, now: Timestamp) {
        self.boots_at = None;
        self.boot = Some(boot);
        self.speaks = Some(now);
        self.ill_boot = !self.ills.is_empty();
        for ill in &mut self.ills {
            ill.since = now;
        }
        for done in &mut self.done {
            done.booted = true;
        }
    }

    /// When something happens by itself.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let work = self.work.as_ref().and_then(|work| work.ends);
        let ills = self.ills.iter().filter_map(|ill| ill.until).min();
        let accepted = self.accepted.as_ref().map(|accepted| accepted.at);
        [self.boots_at, self.speaks, work, ills, accepted].into_iter().flatten().min()
    }

    /// How long a chore takes.
    pub(super) fn takes(chore: Chore) -> Duration {
        Duration::from_secs(match chore {
            Chore::Inventory => 60,
            Chore::Firmware => 3_600,
            Chore::TestFull => 86_400,
            Chore::TestQuick | Chore::TestIdle => 600,
            Chore::Diagnose => 1_800,
            _ => 30,
        })
    }
}

/// A time later.
pub(super) fn plus(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}
