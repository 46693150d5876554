//! What can be wrong with a machine, by words that people use and by rows of the catalogue.

use jiff::Timestamp;
use plan::catalogue::{Catalogue, Metric, PartKind, Row, Scope, Severity, Signal, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: &str = include_str!("../../data/faults.yaml");

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

/// No fault has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown fault {word:?}: did you mean {nearest:?}? There are {words}, and every row of the fault catalogue, as xid/95"
)]
pub struct UnknownFault {
    /// What was asked for.
    pub word: String,
    /// What is spelled most like it.
    pub nearest: String,
    /// Every word.
    pub words: String,
}

/// The built-in table of faults does not fit the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults: {0}")]
pub struct FaultsError(String);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    words: BTreeMap<String, Word>,
    rows: BTreeMap<String, Beside>,
    figures: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    about: String,
    #[serde(default)]
    row: Option<String>,
    cure: Cure,
    #[serde(default)]
    part: String,
    #[serde(default)]
    lacks: Option<Lack>,
    #[serde(default)]
    mishap: Option<Mishap>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    #[serde(default)]
    silences: Option<Voice>,
    #[serde(default)]
    lacks: Option<Lack>,
    #[serde(default)]
    mishap: Option<Mishap>,
}

/// Every fault that can be asked for: words for people, and every row of the catalogue. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Faults {
    table: Arc<Table>,
    catalogue: Arc<Catalogue>,
}

impl Faults {
    /// The built-in words over this catalogue.
    ///
    /// # Errors
    /// The built-in table cannot be read, or names a row that the catalogue lacks.
    pub fn load(catalogue: Arc<Catalogue>) -> Result<Self, FaultsError> {
        let table: Table =
            serde_saphyr::from_str(TABLE).map_err(|error| FaultsError(error.to_string()))?;
        let named = table.words.values().filter_map(|word| word.row.as_ref());
        for row in named.chain(table.rows.keys()) {
            if catalogue.row(row).is_none() {
                return Err(FaultsError(format!("the catalogue has no row {row}")));
            }
        }
        Ok(Self { table: Arc::new(table), catalogue })
    }

    /// What faults look like.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Every word with a sentence about it.
    pub fn words(&self) -> impl Iterator<Item = (&str, &str)> {
        self.table.words.iter().map(|(word, of)| (word.as_str(), of.about.as_str()))
    }

    /// The fault of a word such as `gpu-ecc`, or of a row such as `xid/95`.
    ///
    /// # Errors
    /// Neither a word nor a row: the error names the nearest.
    pub fn named(&self, name: &str) -> Result<Fault, UnknownFault> {
        if let Some(word) = self.table.words.get(name) {
            let row = word.row.as_deref().and_then(|row| self.catalogue.row(row));
            let mut fault = row.map_or_else(|| operation(name, word.cure), |row| self.of_row(row));
            fault.word = name.to_owned();
            fault.cure = word.cure;
            fault.part.clone_from(&word.part);
            fault.lacks = word.lacks.or(fault.lacks);
            fault.mishap = word.mishap.or(fault.mishap);
            if fault.cure == Cure::App {
                fault.found = None;
            }
            return Ok(fault);
        }
        match self.catalogue.row(name) {
            Some(row) => Ok(self.of_row(row)),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> UnknownFault {
        let word: String = name.chars().take(64).collect();
        let rows = self.catalogue.rows().map(|row| row.id.as_str());
        let all = self.table.words.keys().map(String::as_str).chain(rows);
        let nearest = all.min_by_key(|known| strsim::damerau_levenshtein(&word, known));
        let words: Vec<&str> = self.table.words.keys().map(String::as_str).collect();
        UnknownFault {
            nearest: nearest.unwrap_or_default().to_owned(),
            word,
            words: words.join(", "),
        }
    }

    /// A fault that is as its row says.
    fn of_row(&self, row: &Row) -> Fault {
        let id = row.id.as_str();
        let beside = self.table.rows.get(id).cloned().unwrap_or_default();
        let metrics = row.seen.iter().map(|signal| match signal {
            Signal::Metric { metric, .. } => Some(*metric),
            _ => None,
        });
        let of_test = |metric: Metric| metric.as_str().starts_with("test-");
        let latent = metrics.clone().all(|metric| metric.is_some_and(of_test));
        let figure = metrics
            .flatten()
            .find_map(|metric| self.table.figures.get(metric.as_str()))
            .filter(|_| latent)
            .cloned();
        let cure = least_cure(row);
        let found = match cure {
            Cure::App => None,
            _ if row.severity == Severity::S3 => None,
            _ if beside.lacks.is_some() => Some(Test::Readiness),
            _ => Some(Test::Quick),
        };
        Fault {
            word: id.to_owned(),
            row: Some(id.to_owned()),
            part: String::new(),
            cure,
            until: None,
            latent,
            found,
            figure,
            silences: beside.silences,
            lacks: beside.lacks,
            mishap: beside.mishap,
        }
    }

    /// Whether restarting this service is a rung of the ladder that answers the fault.
    pub(super) fn served_by(&self, fault: &Fault, service: &str) -> bool {
        let row = fault.row.as_deref().and_then(|row| self.catalogue.row(row));
        let policy = row.and_then(|row| self.catalogue.policy(&row.policy));
        policy.is_some_and(|policy| {
            policy.ladder.iter().any(|rung| rung.service.as_deref() == Some(service))
        })
    }

    /// What kind of part the evidence of a row is about.
    pub(super) fn part_kind(&self, fault: &Fault) -> PartKind {
        let row = fault.row.as_deref().and_then(|row| self.catalogue.row(row));
        row.and_then(|row| row.seen.first()).map_or(PartKind::Node, kind)
    }
}

/// A fault that shows nothing by itself.
fn operation(name: &str, cure: Cure) -> Fault {
    Fault {
        word: name.to_owned(),
        row: None,
        part: String::new(),
        cure,
        until: None,
        latent: true,
        found: None,
        figure: None,
        silences: None,
        lacks: None,
        mishap: None,
    }
}

fn least_cure(row: &Row) -> Cure {
    let cure = |step: &Step| match step {
        Step::RestartApp => Some(Cure::App),
        Step::RestartService => Some(Cure::Service),
        Step::ResetGpu => Some(Cure::ResetGpu),
        Step::Reboot => Some(Cure::Boot),
        Step::PowerCycle | Step::PowerOff => Some(Cure::PowerCycle),
        Step::Triage | Step::Rma => Some(Cure::Parts),
        Step::Diagnose => None,
    };
    let outside = matches!(row.scope, Scope::Leaf | Scope::Rack | Scope::Pdu);
    let none = if outside { Cure::Domain } else { Cure::Parts };
    row.cured_by.iter().filter_map(cure).min().unwrap_or(none)
}

fn kind(signal: &Signal) -> PartKind {
    match signal {
        Signal::Xid { .. }
        | Signal::XidRegister { .. }
        | Signal::Recovery { .. }
        | Signal::Nvlink5(_) => PartKind::Gpu,
        Signal::Sxid { .. } => PartKind::Nvswitch,
        Signal::Log { part, .. } => part.kind,
        Signal::Metric { metric, .. } => {
            let name = metric.as_str();
            if name.ends_with("-count") || name == "gpu-query-age" {
                return PartKind::Node;
            }
            match name.split('-').next().unwrap_or_default() {
                "gpu" => PartKind::Gpu,
                "nvlink" => PartKind::Gpu,
                "ib" | "link" | "nic" | "roce" | "carrier" => PartKind::Nic,
                "nvme" => PartKind::Disk,
                "sensor" => PartKind::Sensor,
                _ => PartKind::Node,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> Faults {
        Faults::load(Arc::new(Catalogue::load(&[]).unwrap())).unwrap()
    }

    #[test]
    fn every_word_is_read_and_every_row_is_a_fault() {
        let faults = faults();
        assert!(faults.words().count() >= 50);
        for (word, about) in faults.words() {
            let fault = faults.named(word).unwrap();
            assert!(fault.row.is_some() || fault.mishap.is_some(), "{word} does nothing");
            assert!(about.len() > 10, "{word}");
        }
        for row in faults.catalogue().rows() {
            assert_eq!(
                faults.named(row.id.as_str()).unwrap().row.as_deref(),
                Some(row.id.as_str())
            );
        }
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_nearest() {
        let error = faults().named("gpu-ec").unwrap_err();
        assert_eq!(error.nearest, "gpu-ecc");
        assert_eq!(faults().named("xid/9999").unwrap_err().nearest, "xid/99");
        assert!(faults().named(&"x".repeat(1 << 20)).unwrap_err().word.len() <= 64);
    }

    #[test]
    fn what_only_a_test_shows_is_latent() {
        let named = |word| faults().named(word).unwrap();
        assert!(named("slow-gpu").latent && named("silent-corruption").latent);
        assert!(!named("gpu-ecc").latent && !named("straggler").latent);
        assert_eq!(named("slow-gpu").figure.as_deref(), Some("gemm_bf16_tflops"));
        assert_eq!(named("gpu-app").found, None);
        assert_eq!(named("gpu-lost").found, Some(Test::Readiness));
    }

    #[test]
    fn occasions_are_used_up() {
        let mut thrice = Mishap::BmcErrors(3);
        assert_eq!([thrice.use_up(), thrice.use_up(), thrice.use_up()], [true, true, false]);
        let mut ever = Mishap::BootHangs(u32::MAX);
        assert!(ever.use_up() && ever == Mishap::BootHangs(u32::MAX));
    }
}
