//! What can be wrong with a machine.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The least that cures a fault; what is more than that cures it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cure {
    /// The program on the GPU ends.
    App,
    /// The service named by the part is restarted.
    Service,
    /// The GPU is reset.
    ResetGpu,
    /// Any boot.
    Boot,
    /// The power is cut for as long as it takes to drain.
    PowerCycle,
    /// A part is replaced or reseated by hand.
    Parts,
    /// Nothing that is done to the machine: a switch, a power feed or the weather must change.
    Domain,
}

/// Who falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Voice {
    /// The kubelet.
    Kubelet,
    /// The agent.
    Agent,
    /// Everything on the machine.
    Node,
}

/// A part that the inventory lacks while the fault is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// One GPU.
    Gpu,
    /// One NVLink of each GPU.
    Nvlink,
    /// One port of the backend network.
    FabricPort,
    /// Every port of the backend network.
    AllFabricPorts,
    /// One disk.
    Disk,
    /// One power supply.
    PowerSupply,
}

/// The least of the tests that finds a fault; greater ones find it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// The test of seconds.
    Readiness,
    /// The test of minutes.
    Quick,
    /// Burn-in.
    Full,
    /// The vendor's diagnosis.
    Diagnose,
}

/// How something that the machine or its BMC is told to do goes wrong. Counts are of occasions;
/// [`u32::MAX`] is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mishap {
    /// There is no power at all: the machine is off and so is its BMC.
    NoPower,
    /// A boot ends nowhere.
    BootHangs(u32),
    /// A boot falls back to its beginning once more.
    BootFails(u32),
    /// The BMC takes longer for every answer.
    BmcSlow,
    /// The BMC does not answer.
    BmcSilent,
    /// The BMC answers with an error.
    BmcErrors(u32),
    /// The BMC says yes to a reset and does nothing.
    BmcIgnores(u32),
    /// The BMC cuts the power and does not give it back.
    BmcHalf(u32),
    /// The BMC says that the power is off when it is on, and the other way round.
    BmcLies(u32),
    /// The BMC never says when it last reset the machine.
    NoLastReset,
    /// The firmware cannot be written.
    FlashFails(u32),
    /// Disks cannot be wiped.
    WipeFails(u32),
    /// A chore of the agent never ends.
    ChoreHangs(u32),
}

impl Mishap {
    /// Uses up one occasion; false when it was the last.
    pub(super) fn use_up(&mut self) -> bool {
        match self {
            Self::BootHangs(left)
            | Self::BootFails(left)
            | Self::BmcErrors(left)
            | Self::BmcIgnores(left)
            | Self::BmcHalf(left)
            | Self::BmcLies(left)
            | Self::FlashFails(left)
            | Self::WipeFails(left)
            | Self::ChoreHangs(left) => {
                if *left != u32::MAX {
                    *left = left.saturating_sub(1);
                }
                *left > 0
            }
            Self::NoPower | Self::BmcSlow | Self::BmcSilent | Self::NoLastReset => true,
        }
    }
}

/// One fault: what it shows, on what, what cures it, and what else it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The word or row that it was asked for by.
    pub word: String,
    /// The row of the catalogue that it shows, if it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The part that it is on: `gpu-3`, `nic-0`, `disk-1`, or a name as its evidence has it. Empty:
    /// drawn when it strikes, or the whole machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The least that cures it.
    pub cure: Cure,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Nothing shows until a test finds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latent: bool,
    /// The least test that finds it; none if no test does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Test>,
    /// The figure of a test that falls below its floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// Who falls silent by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silences: Option<Voice>,
    /// What is missing by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Lack>,
    /// How operations go wrong by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mishap: Option<Mishap>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occasions_are_used_up() {
        let mut thrice = Mishap::BmcErrors(3);
        assert_eq!([thrice.use_up(), thrice.use_up(), thrice.use_up()], [true, true, false]);
        let mut ever = Mishap::BootHangs(u32::MAX);
        assert!(ever.use_up() && ever == Mishap::BootHangs(u32::MAX));
    }
}
