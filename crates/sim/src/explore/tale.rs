//! What happened in a schedule: its hash, its lines if somebody reads them, what was wrong, and what
//! it has covered.

use api::incident::Stage;
use api::state::State;

/// Faults that a schedule strikes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Cured when the program ends.
    App,
    /// Cured by a reset of the GPU.
    GpuReset,
    /// Cured by a boot.
    Reboot,
    /// Cured by cutting the power.
    PowerCycle,
    /// Cured by new parts alone.
    Parts,
    /// Ends by itself.
    Transient,
    /// Ends by itself and comes back.
    Flapping,
    /// A leaf dies: all its nodes show it.
    Leaf,
    /// A power distribution unit stumbles: all its nodes show it.
    Pdu,
    /// The BMC does not answer.
    BmcSilent,
    /// The BMC answers with errors.
    BmcError,
    /// The BMC says yes and does nothing.
    BmcIgnores,
    /// The system does not come up after a reset.
    NoBoot,
    /// The machine boots by itself.
    Panic,
    /// A GPU is missing.
    GpuMissing,
    /// A chore or test fails.
    ChoreFails,
    /// A chore or test never ends.
    ChoreHangs,
    /// No node joins.
    NoJoin,
    /// Agent and kubelet are not heard.
    Mute,
    /// The Node object is deleted.
    NodeDeleted,
    /// A log line of an earlier boot is told now.
    LateEvidence,
}

/// Disturbances of control, and what people and tenants do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A controller dies and starts again.
    Crash,
    /// A controller does not reach the API.
    Partition,
    /// A controller does not reach the BMCs.
    BmcPartition,
    /// A second instance acts while the first still lives.
    TwoLeaders,
    /// The reply to a write is lost after it took effect.
    LostReply,
    /// A write is lost before it took effect.
    LostRequest,
    /// A watch tells again what it has told.
    Duplicate,
    /// A person cordons.
    Cordon,
    /// A person takes a cordon back.
    Uncordon,
    /// A person forbids automatic repair, or allows it again.
    HandsOff,
    /// A person asks for a phase.
    Phase,
    /// A person takes a phase back.
    WithdrawPhase,
    /// A person asks the machine directly.
    Ask,
    /// A technician certifies.
    Certify,
    /// A person acknowledges a breaker.
    Acknowledge,
    /// The machine is assigned elsewhere.
    Assign,
    /// A pod starts.
    PodStarts,
    /// A pod ends.
    PodEnds,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 21] = [
        Self::App,
        Self::GpuReset,
        Self::Reboot,
        Self::PowerCycle,
        Self::Parts,
        Self::Transient,
        Self::Flapping,
        Self::Leaf,
        Self::Pdu,
        Self::BmcSilent,
        Self::BmcError,
        Self::BmcIgnores,
        Self::NoBoot,
        Self::Panic,
        Self::GpuMissing,
        Self::ChoreFails,
        Self::ChoreHangs,
        Self::NoJoin,
        Self::Mute,
        Self::NodeDeleted,
        Self::LateEvidence,
    ];
}

impl Disturbance {
    /// Every disturbance.
    pub const ALL: [Self; 18] = [
        Self::Crash,
        Self::Partition,
        Self::BmcPartition,
        Self::TwoLeaders,
        Self::LostReply,
        Self::LostRequest,
        Self::Duplicate,
        Self::Cordon,
        Self::Uncordon,
        Self::HandsOff,
        Self::Phase,
        Self::WithdrawPhase,
        Self::Ask,
        Self::Certify,
        Self::Acknowledge,
        Self::Assign,
        Self::PodStarts,
        Self::PodEnds,
    ];
}

/// How often each pair was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Lifecycle state by fault, in the orders of [`State::ALL`] and [`Fault::ALL`].
    pub faults: [[u64; 21]; 9],
    /// Stage of the node's open incident (none last) by disturbance.
    pub disturbances: [[u64; 18]; 7],
}

impl Coverage {
    /// Adds what another has covered.
    pub fn add(&mut self, other: &Self) {
        let faults = self.faults.iter_mut().flatten().zip(other.faults.iter().flatten());
        let all = self.disturbances.iter_mut().flatten();
        let disturbances = all.zip(other.disturbances.iter().flatten());
        for (mine, theirs) in faults.chain(disturbances) {
            *mine += theirs;
        }
    }

    pub(super) fn fault(&mut self, state: State, fault: Fault) {
        let row = State::ALL.iter().position(|s| *s == state);
        let column = Fault::ALL.iter().position(|f| *f == fault);
        if let Some(cell) = row.zip(column).and_then(|(r, c)| self.faults.get_mut(r)?.get_mut(c)) {
            *cell += 1;
        }
    }

    pub(super) fn disturbance(&mut self, stage: Option<Stage>, what: Disturbance) {
        let row = stage.and_then(|s| Stage::ALL.iter().position(|t| *t == s)).unwrap_or(6);
        let column = Disturbance::ALL.iter().position(|d| *d == what);
        if let Some(cell) = column.and_then(|c| self.disturbances.get_mut(row)?.get_mut(c)) {
            *cell += 1;
        }
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Tale {
    pub(super) steps: u32,
    pub(super) hash: u64,
    pub(super) lines: Option<Vec<String>>,
    pub(super) wrong: Vec<String>,
    pub(super) coverage: Coverage,
}

impl Tale {
    /// One step, of this kind, by whom, about what.
    pub(super) fn step(&mut self, kind: u8, by: usize, about: usize) {
        self.steps += 1;
        for part in [usize::from(kind), by, about] {
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            self.hash = (self.hash ^ part).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
        }
    }
}
