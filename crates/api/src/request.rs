//! What one part asks of a machine, what is being done for it, and what came of it.
//!
//! The chain of every effect on hardware: a [`Request`] in the machine's spec, an [`Operation`] that
//! the machine controller writes down *before* it acts, a [`Task`] where the agent must help, its
//! [`Report`], and the [`Answer`]. Each link names the one before it, so a crash anywhere is
//! continued and nothing is done twice.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may be asked of a machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Ask {
    /// Reset the GPUs named by the target, or all of them; the system keeps running.
    ResetGpu,
    /// Restart the service named by the target.
    RestartService,
    /// Restart the operating system.
    Reboot,
    /// Cut the power, wait, give it back, boot.
    PowerCycle,
    /// Bring firmware and image to the profile and boot.
    Reconfigure,
    /// Run the test of the level given by the target, `quick` if none is.
    Test,
    /// Leave production and be wiped for the next owner.
    Zap,
    /// Leave production and be examined.
    Triage,
    /// Be kept for a person to look at.
    Debug,
    /// Be repaired by the vendor.
    #[serde(rename = "RMA")]
    Rma,
    /// Return from repair to the beginning.
    Onboard,
}

impl Ask {
    /// Every ask.
    pub const ALL: [Self; 11] = [
        Self::ResetGpu,
        Self::RestartService,
        Self::Reboot,
        Self::PowerCycle,
        Self::Reconfigure,
        Self::Test,
        Self::Zap,
        Self::Triage,
        Self::Debug,
        Self::Rma,
        Self::Onboard,
    ];

    /// Whether carrying it out ends what runs on the machine.
    pub const fn disrupts(self) -> bool {
        !matches!(self, Self::RestartService | Self::Test)
    }

    /// Whether the machine leaves production by it.
    pub const fn leaves(self) -> bool {
        matches!(self, Self::Zap | Self::Triage | Self::Debug | Self::Rma | Self::Onboard)
    }
}

/// An ask with everything that must still hold when it is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names this request; the same id is never carried out twice.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// What is asked.
    pub ask: Ask,
    /// The part it is about, as `GPU-3`, `nvidia-fabricmanager` or a test level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub target: Option<String>,
    /// Who asks: a controller's name, or a person's.
    #[schemars(length(min = 1, max = 253))]
    pub by: String,
    /// Why, as one sentence.
    #[schemars(length(min = 1, max = 1024))]
    pub why: String,
    /// What was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub evidence: Vec<String>,
    /// The incident it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// The node it was decided for. Refused if another node runs on the machine by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<String>,
    /// The boot it was decided for. Refused if the machine has booted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// What the node must still say when the BMC is told. A fault may go by itself, and then nothing is
    /// to be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// When it was asked.
    pub at: Timestamp,
}

/// A condition of a node that is `True`, for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its type.
    #[schemars(length(min = 1, max = 316))]
    pub condition: String,
    /// Its reason.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// How far a request has come, or how it ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Outcome {
    /// Under way.
    Running,
    /// Done, and seen to be done.
    Succeeded,
    /// Tried as often as allowed, in vain.
    Failed,
    /// Not tried: what it was decided for no longer holds, or the state does not allow it.
    Refused,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The request's id.
    pub id: String,
    /// How it stands.
    pub outcome: Outcome,
    /// What happened, as one sentence.
    pub why: String,
    /// The boot that runs after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// When this was written.
    pub at: Timestamp,
}

/// What the machine's own controller (BMC) is told.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Power {
    /// Switch on and boot from the network.
    On,
    /// Cut the power.
    Off,
    /// Ask the system to restart, from the network.
    GracefulRestart,
    /// Restart without asking, from the network.
    ForceRestart,
    /// Cut the power, wait until it has drained, switch on, from the network.
    Cycle,
}

/// What the agent on the machine is asked to do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Chore {
    /// Read parts, cables and firmware into the machine's status.
    Inventory,
    /// Wipe every disk and secret of the last owner.
    Sanitise,
    /// Bring firmware and settings to the profile.
    Firmware,
    /// Reset the GPUs named by the target.
    ResetGpu,
    /// Restart the service named by the target.
    RestartService,
    /// Seconds: does every part answer.
    TestReadiness,
    /// Minutes: every GPU, link and disk against the floors.
    TestQuick,
    /// What quick does, spread over idle time, given up at once when work arrives.
    TestIdle,
    /// A day: burn-in.
    TestFull,
    /// The vendor's diagnosis, as evidence for a repair.
    Diagnose,
}

/// A chore, given to the agent of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Names this task; a report names it back.
    pub id: String,
    /// What to do.
    pub chore: Chore,
    /// The part it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The boot that is to do it; an agent of another boot leaves it alone.
    pub boot: String,
    /// Why, as one sentence.
    pub why: String,
}

/// What an agent says about its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The task's id.
    pub id: String,
    /// The boot that did it.
    pub boot: String,
    /// How it went; an agent never refuses a task of its own boot.
    pub outcome: Outcome,
    /// What was found, as one sentence.
    pub detail: String,
    /// The part that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What was measured, by name; units stand in the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// When.
    pub at: Timestamp,
}

/// What the machine controller is doing to the machine; written before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Names this operation; also the id of its task.
    pub id: String,
    /// What is done.
    pub effect: Effect,
    /// The part it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The request it serves, if it serves one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The boot that ran when it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// When the BMC last reset the machine before the operation, in the BMC's own words: as long as
    /// it says the same, the operation has not happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_before: Option<String>,
    /// When the BMC was last told: it is not told again before it had time to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Timestamp>,
    /// Why, as one sentence.
    pub why: String,
    /// When it was decided.
    pub since: Timestamp,
    /// When it counts as failed.
    pub deadline: Timestamp,
}

/// One thing done to a machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Told to the BMC.
    Power(Power),
    /// Given to the agent.
    Chore(Chore),
}
