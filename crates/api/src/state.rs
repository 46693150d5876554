//! Where a machine is in its life, and what it is for.
//!
//! ```text
//! Onboard ─▶ SeaTrial ─▶ Zap ─▶ Test ─▶ Production ─▶ Triage ─▶ RMA | Debug
//!    ▲                    │▲     │          │ ▲          │           │
//!    │              fails ▼│     │ fails    └─┘ next     │ sound     │
//!    │              ZapFailed    └────────▶ Triage  owner: by Zap    │
//!    └───────────────────────────────────────────────────┴───────────┘
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The lifecycle state of a machine.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum State {
    /// A technician racks and cables the machine, and certifies it.
    #[default]
    Onboard,
    /// The first voyage: power, network boot, cabling and inventory against the instance type.
    SeaTrial,
    /// Disks are wiped, firmware and settings brought to the profile.
    Zap,
    /// Zap failed; it is tried again after a power drain, then given to triage.
    ZapFailed,
    /// Acceptance: quick, or a burn-in of 24 h.
    Test,
    /// In a pool, or a proven spare.
    Production,
    /// Out of the cluster, under diagnosis.
    Triage,
    /// Diagnosis found nothing that explains the fault; a person looks.
    Debug,
    /// A part is broken; the vendor or a technician replaces it.
    #[serde(rename = "RMA")]
    Rma,
}

impl State {
    /// Every state, in the order of a machine's life.
    pub const ALL: [Self; 9] = [
        Self::Onboard,
        Self::SeaTrial,
        Self::Zap,
        Self::ZapFailed,
        Self::Test,
        Self::Production,
        Self::Triage,
        Self::Debug,
        Self::Rma,
    ];

    /// The name as people and the API write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Onboard => "Onboard",
            Self::SeaTrial => "SeaTrial",
            Self::Zap => "Zap",
            Self::ZapFailed => "ZapFailed",
            Self::Test => "Test",
            Self::Production => "Production",
            Self::Triage => "Triage",
            Self::Debug => "Debug",
            Self::Rma => "RMA",
        }
    }

    /// The name as the label [`crate::names::STATE`] carries it.
    pub fn label(self) -> String {
        self.name().to_ascii_lowercase()
    }

    /// Whether only a person or a vendor moves the machine on.
    pub const fn waits_for_people(self) -> bool {
        matches!(self, Self::Onboard | Self::Debug | Self::Rma)
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// What a machine is for at this moment.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Not in production.
    #[default]
    None,
    /// Proven, booted, and kept free to take another's place.
    Spare,
    /// Serves a pool.
    Member,
}

impl Role {
    /// The name as the API writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spare => "spare",
            Self::Member => "member",
        }
    }
}
