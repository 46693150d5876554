//! What says how large a simulated site is, or which one: for every verb that starts one.

use std::path::{Path, PathBuf};

use sim::scenario;

use crate::site::{Asked, SiteError, Source};

/// The site that is meant.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// GPU nodes, spares included [default: 32]
    #[arg(long, value_name = "N", conflicts_with = "site")]
    nodes: Option<u32>,
    /// Nodes without GPUs [default: 4]
    #[arg(long, value_name = "N", conflicts_with = "site")]
    cpu_nodes: Option<u32>,
    /// Racks [default: 4]
    #[arg(long, value_name = "N", conflicts_with = "site")]
    racks: Option<u32>,
    /// GPU nodes that are kept as hot spares [default: 4]
    #[arg(long, value_name = "N", conflicts_with = "site")]
    spares: Option<u32>,
    /// A file that describes the site
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// Play a scenario on a site of its own: supercomputer, or a file
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["site", "nodes", "cpu_nodes", "racks", "spares"]
    )]
    scenario: Option<String>,
    /// Decides everything that is drawn [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// By how much simulated hardware is faster than real
    #[arg(long, value_name = "FACTOR", default_value_t = 600.0)]
    pub(crate) speed: f64,
}

impl Sizes {
    /// What was asked for, if anything was, and what is meant otherwise.
    ///
    /// # Errors
    /// If the file cannot be read, or no scenario goes by the name.
    pub(crate) fn asked(&self) -> Result<Asked, SiteError> {
        let otherwise = self.demo();
        let seed = self.seed.unwrap_or(1);
        if let Some(path) = &self.site {
            let said = Some(Source::Described { yaml: read(path)?, seed });
            return Ok(Asked { said, otherwise });
        }
        if let Some(name) = &self.scenario {
            // What looks like a path is one: a name that is misspelled is answered with the nearest.
            let path = Path::new(name);
            let yaml = match name.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some()
            {
                true => read(path)?,
                false => scenario::built_in(name)?.to_owned(),
            };
            return Ok(Asked { said: Some(Source::Scenario { yaml, seed }), otherwise });
        }
        let sizes = [self.nodes, self.cpu_nodes, self.racks, self.spares];
        let said = sizes.iter().any(Option::is_some) || self.seed.is_some();
        Ok(Asked { said: said.then(|| self.demo()), otherwise })
    }

    fn demo(&self) -> Source {
        let usual = sim::datacentre::Demo::default();
        Source::Demo {
            gpu_nodes: self.nodes.unwrap_or(usual.gpu_nodes),
            cpu_nodes: self.cpu_nodes.unwrap_or(usual.cpu_nodes),
            racks: self.racks.unwrap_or(usual.racks),
            spares: self.spares.unwrap_or(usual.spares),
            seed: self.seed.unwrap_or(usual.seed),
        }
    }
}

fn read(path: &Path) -> Result<String, SiteError> {
    let text = std::fs::read_to_string(path);
    text.map_err(|source| SiteError::File { path: path.to_owned(), source })
}
