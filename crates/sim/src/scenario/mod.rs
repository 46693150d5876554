//! Scenarios: a site, a tenant's training job, and a script of what happens to them.
//!
//! A scenario is a file that is read strictly at the door: whatever is wrong is refused by its field
//! before anything starts. Those in `data/scenarios` are built in and go by their names. What a script
//! breaks is struck at the source of its symptoms, and what follows the controllers must find out; what
//! it asks for it asks as a tenant would.

mod place;

use std::collections::BTreeMap;
use std::time::Duration;

use api::node_pool::NodePoolSpec;
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use plan::catalogue::Catalogue;
use serde::{Deserialize, Deserializer};

use crate::datacentre::{Demo, Faults, Layout, LayoutError};

pub use place::{NoPlace, Where, choose};

/// The scenarios that are built in, by name.
const BUILT_IN: [(&str, &str); 1] =
    [("supercomputer", include_str!("../../data/scenarios/supercomputer.yaml"))];

/// A scenario is a page, not a book.
const MAX_BYTES: usize = 1 << 20;

/// A scenario cannot be as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// No scenario goes by this name.
    #[error("there is no scenario {name:?}; did you mean {nearest:?}? ({})", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in one that is spelled most like it.
        nearest: &'static str,
    },
    /// The file is no scenario.
    #[error("not a scenario: {0}")]
    Form(String),
    /// Something in it is wrong.
    #[error("{field}: {reason}")]
    Field {
        /// The field, as `script[2].break.fault`.
        field: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Its site cannot be.
    #[error(transparent)]
    Site(#[from] LayoutError),
}

/// The names of the built-in scenarios.
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// The text of a built-in scenario.
///
/// # Errors
/// The nearest, if no scenario goes by the name.
pub fn built_in(name: &str) -> Result<&'static str, ScenarioError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    let name: String = name.chars().take(64).collect();
    let nearest = plan::tell::nearest(&name, names().into_iter()).unwrap_or_default();
    let nearest = names().into_iter().find(|known| *known == nearest).unwrap_or_default();
    Err(ScenarioError::Unknown { name, nearest })
}

/// A site, a job, and what happens.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// In a few words.
    pub about: String,
    /// What stands where.
    pub layout: Layout,
    /// The training job, as the tenant applies it.
    pub job: Job,
    /// What happens, one after the other.
    pub script: Vec<Act>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// The tenant applies the job; over when it computes.
    Train {},
    /// Nothing for so long a time of training.
    Wait(#[serde(deserialize_with = "span")] Duration),
    /// A machine that computes breaks; over when the job computes again.
    Break {
        /// What breaks: a word or a row of the catalogue.
        fault: String,
        /// Which machine.
        #[serde(rename = "where", default)]
        place: Where,
    },
    /// The tenant asks a pool for more nodes; over when they serve, or the pool says why not.
    Grow {
        /// The pool.
        pool: String,
        /// By how many nodes.
        by: u32,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    about: String,
    site: Size,
    pools: BTreeMap<String, NodePoolSpec>,
    job: serde_json::Value,
    script: Vec<Act>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Size {
    nodes: u32,
    #[serde(default)]
    cpu_nodes: u32,
    racks: u32,
}

fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let read = text.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    let wrong = || format!("must be a duration as 20m or 1h 30m, not {text:?}");
    read.ok_or_else(|| serde::de::Error::custom(wrong()))
}

impl Scenario {
    /// Reads a scenario. `seed` decides everything that is drawn for its site.
    ///
    /// # Errors
    /// What is wrong with which field, and what would be right.
    pub fn read(yaml: &str, seed: u64) -> Result<Self, ScenarioError> {
        if yaml.len() > MAX_BYTES {
            let long = format!("must be at most {MAX_BYTES} bytes, not {}", yaml.len());
            return Err(ScenarioError::Form(long));
        }
        let file: File =
            serde_saphyr::from_str(yaml).map_err(|error| ScenarioError::Form(error.to_string()))?;
        let mut layout = Layout::demo(&Demo {
            gpu_nodes: file.site.nodes,
            cpu_nodes: file.site.cpu_nodes,
            racks: file.site.racks,
            spares: 0,
            seed,
        })?;
        for (name, pool) in &file.pools {
            layout.known_type(&format!("pools.{name}.instanceType"), &pool.instance_type)?;
        }
        layout.pools = file.pools;
        let job: Job =
            serde_json::from_value(file.job).map_err(|error| wrong("job", error.to_string()))?;
        named("job.metadata.name", job.metadata.name.as_ref())?;
        named("job.metadata.namespace", job.metadata.namespace.as_ref())?;
        crate::trainer::check(&job).map_err(|why| wrong("job", why))?;
        check(&file.script, &layout)?;
        Ok(Self { about: file.about, layout, job, script: file.script })
    }
}

fn wrong(field: &str, reason: impl Into<String>) -> ScenarioError {
    ScenarioError::Field { field: field.to_owned(), reason: reason.into() }
}

fn named(field: &str, name: Option<&String>) -> Result<(), ScenarioError> {
    match name.map(String::as_str) {
        None | Some("") => Err(wrong(field, "must be there")),
        Some(_) => Ok(()),
    }
}

/// What the script is about must be there, and in an order in which it can happen.
fn check(script: &[Act], layout: &Layout) -> Result<(), ScenarioError> {
    let faults =
        Faults::load(Catalogue::built_in()).map_err(|error| wrong("script", error.to_string()))?;
    let mut trains = false;
    for (index, act) in script.iter().enumerate() {
        let field = format!("script[{index}]");
        match act {
            Act::Train {} if trains => return Err(wrong(&field, "the job trains already")),
            Act::Train {} => trains = true,
            Act::Wait(_) | Act::Break { .. } if !trains => {
                return Err(wrong(&field, "comes before the job trains: begin with `- train: {}`"));
            }
            Act::Wait(_) => {}
            Act::Break { fault, .. } => {
                let known = faults.named(fault);
                known.map_err(|error| wrong(&format!("{field}.break.fault"), error.to_string()))?;
            }
            Act::Grow { pool, by } => {
                if !layout.pools.contains_key(pool) {
                    let known = layout.pools.keys().map(String::as_str);
                    let near = plan::tell::nearest(pool, known).unwrap_or_default();
                    let reason = format!("there is no pool {pool:?}; did you mean {near:?}?");
                    return Err(wrong(&format!("{field}.grow.pool"), reason));
                }
                if *by == 0 {
                    return Err(wrong(&format!("{field}.grow.by"), "must be 1 or more"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supercomputer_is_as_it_says() {
        let scenario = Scenario::read(built_in("supercomputer").unwrap(), 1).unwrap();
        let kinds = scenario.layout.machines.iter().filter(|m| m.instance_type.starts_with("gd-"));
        assert_eq!((scenario.layout.machines.len(), kinds.count()), (462, 440));
        let job = scenario.job.spec.unwrap();
        assert_eq!((job.completions, job.parallelism), (Some(438), Some(438)));
        assert!(scenario.script.contains(&Act::Wait(Duration::from_secs(1_800))));
        assert!(
            scenario
                .script
                .contains(&Act::Break { fault: "gpu-ecc".to_owned(), place: Where::BesideASpare })
        );
    }

    #[test]
    fn an_unknown_scenario_is_answered_with_the_nearest() {
        let error = built_in("supercomputr").unwrap_err().to_string();
        assert!(error.contains("did you mean \"supercomputer\"?"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_field() {
        let whole = built_in("supercomputer").unwrap();
        for (from, to, says) in [
            ("about:", "abuot:", "abuot"),
            ("nodes: 440", "nodes: 0, spare: 1", "spare"),
            ("racks: 55", "racks: 2", "racks: 462 machines need 8"),
            ("gd-8xh100ib-i128,", "gd-8xh100,", "pools.train.instanceType"),
            ("completions: 438", "completions: 437", "job: a training job needs"),
            ("every: 5m", "every: soon", "checkpoint-every must be a duration as 5m, not \"soon\""),
            ("- train: {}\n", "", "script[0]: comes before the job trains"),
            ("wait: 30m", "wait: later", "must be a duration as 20m"),
            ("fault: gpu-ecc", "fault: gpu-ec", "script[2].break.fault"),
            ("where: beside-a-spare", "where: there", "beside-a-spare"),
            ("grow: {pool: services", "grow: {pool: servces", "did you mean \"services\""),
            ("services, by: 10", "services, by: 0", "script[5].grow.by: must be 1 or more"),
        ] {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole, "{from}");
            let error = Scenario::read(&text, 1).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Scenario::read(&"x".repeat(MAX_BYTES + 1), 1).is_err());
        assert!(Scenario::read("\0", 1).is_err());
    }
}
