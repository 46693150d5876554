//! What says how large a simulated site is, or which one: for every verb that starts one.

use std::path::PathBuf;

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
    /// If the file cannot be read.
    pub(crate) fn asked(&self) -> Result<Asked, SiteError> {
        let otherwise = self.demo();
        if let Some(path) = &self.site {
            let yaml = std::fs::read_to_string(path)
                .map_err(|source| SiteError::File { path: path.clone(), source })?;
            let said = Some(Source::Described { yaml, seed: self.seed.unwrap_or(1) });
            return Ok(Asked { said, otherwise });
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
