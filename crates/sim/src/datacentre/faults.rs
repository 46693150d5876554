//! Faults by the words that people use for them, and by rows of the catalogue.

use super::fault::{Cure, Fault, Lack, Mishap, Test, Voice};
use plan::catalogue::{Catalogue, Metric, PartKind, Row, Scope, Severity, Signal, Step};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: &str = include_str!("../../data/faults.yaml");

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
        Faults::load(Catalogue::built_in()).unwrap()
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
}
