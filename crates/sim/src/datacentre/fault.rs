//! What can be wrong with a machine, by words that people use and by rows of the catalogue.

use jiff::Timestamp;
use plan::catalogue::{Catalogue, RowId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    /// A share of the memory.
    Memory,
}

/// How something that the machine or its BMC is told to do goes wrong. Counts are of occasions;
/// [`u32::MAX`] is for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mishap {
    /// A boot ends nowhere.
    BootHangs(u32),
    /// A boot falls back to its beginning once more.
    BootFails(u32),
    /// The BMC takes so much longer for every answer.
    BmcSlow(Duration),
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

/// One fault: what it shows, on what, what cures it, and what else it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The word or row that it was asked for by.
    pub word: String,
    /// The row of the catalogue that it shows, if it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The part that it is on, in the words of its evidence; empty for the whole machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The least that cures it.
    pub cure: Cure,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only a test finds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latent: bool,
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

/// No fault has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown fault {word:?}: did you mean {nearest:?}? Faults are {words}, or any row of the catalogue, as xid/95"
)]
pub struct UnknownFault {
    /// What was asked for.
    pub word: String,
    /// What is spelled most like it.
    pub nearest: String,
    /// Every word.
    pub words: String,
}

/// Every fault by its word, and the catalogue behind them.
#[derive(Clone, Debug)]
pub struct Faults {
    words: Arc<BTreeMap<String, Fault>>,
    catalogue: Arc<Catalogue>,
}

impl Faults {
    /// The built-in words over this catalogue.
    pub fn new(catalogue: Arc<Catalogue>) -> Self {
        Self { words: Arc::default(), catalogue }
    }

    /// The fault of a word such as `gpu-ecc`, or of a row such as `xid/95`.
    ///
    /// # Errors
    /// Neither a word nor a row: the error names the nearest.
    pub fn named(&self, word: &str) -> Result<Fault, UnknownFault> {
        let row = self.catalogue.row(word).map(|row| &row.id);
        match (self.words.get(word), row) {
            (Some(fault), _) => Ok(fault.clone()),
            (None, Some(row)) => Ok(Self::of_row(row)),
            (None, None) => Err(UnknownFault {
                word: word.chars().take(64).collect(),
                nearest: String::new(),
                words: String::new(),
            }),
        }
    }

    fn of_row(row: &RowId) -> Fault {
        Fault {
            word: row.as_str().to_owned(),
            row: Some(row.as_str().to_owned()),
            part: String::new(),
            cure: Cure::Boot,
            until: None,
            latent: false,
            silences: None,
            lacks: None,
            mishap: None,
        }
    }
}
