//! What a simulated site is, and what its data directory remembers of it.
//!
//! The description is written once, when the site is made: a later start goes on with it, on the
//! cluster that it was made for.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::datacentre::{Demo, Layout};
use sim::scenario::{Scenario, ScenarioError};

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    /// A site that nobody described.
    #[serde(rename_all = "camelCase")]
    Demo { gpu_nodes: u32, cpu_nodes: u32, racks: u32, spares: u32, seed: u64 },
    /// The text of a file that describes it.
    #[serde(rename_all = "camelCase")]
    Described { yaml: String, seed: u64 },
    /// The text of a scenario that is played on a site of its own.
    #[serde(rename_all = "camelCase")]
    Scenario { yaml: String, seed: u64 },
}

impl Source {
    /// What stands where.
    ///
    /// # Errors
    /// Which field is wrong, and what would be right.
    pub(crate) fn layout(&self) -> Result<Layout, ScenarioError> {
        match *self {
            Self::Demo { gpu_nodes, cpu_nodes, racks, spares, seed } => {
                Ok(Layout::demo(&Demo { gpu_nodes, cpu_nodes, racks, spares, seed })?)
            }
            Self::Described { ref yaml, .. } => Ok(Layout::read(yaml)?),
            Self::Scenario { ref yaml, seed } => Ok(Scenario::read(yaml, seed)?.layout),
        }
    }

    /// What is played on it, if anything is.
    ///
    /// # Errors
    /// Which field is wrong, and what would be right.
    pub(crate) fn scenario(&self) -> Result<Option<Scenario>, ScenarioError> {
        match self {
            Self::Demo { .. } | Self::Described { .. } => Ok(None),
            Self::Scenario { yaml, seed } => Scenario::read(yaml, *seed).map(Some),
        }
    }

    /// Decides everything that is drawn.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Demo { seed, .. }
            | Self::Described { seed, .. }
            | Self::Scenario { seed, .. } => *seed,
        }
    }
}

/// What a directory remembers of its site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    /// What it is.
    pub(crate) source: Source,
    /// Where its API listened last.
    pub(crate) api: Option<SocketAddr>,
    /// Where its BMCs answered last.
    pub(crate) bmc: Option<SocketAddr>,
    /// Where its machines booted from last; nowhere, where others run the boot service.
    #[serde(default)]
    pub(crate) boot: Option<SocketAddr>,
    /// Which cluster it was made for; none is the embedded server in the same directory.
    #[serde(default)]
    pub(crate) cluster: Option<String>,
}

/// What was asked for when a site is started.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// What it is, where somebody said so.
    pub(crate) said: Option<Source>,
    /// What it is if nobody ever said so.
    pub(crate) otherwise: Source,
}

/// Why a site cannot be started or gone on with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{} is damaged; remove it to begin with a new site, or choose another directory with --data-dir", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error(
        "{} holds another site; leave out --nodes, --cpu-nodes, --racks, --spares, --seed, --site and --scenario to go on with it, or choose another directory with --data-dir",
        path.display()
    )]
    Another { path: PathBuf },
    #[error(
        "{} holds the hardware of a site on another cluster; choose another directory with --data-dir",
        path.display()
    )]
    Elsewhere { path: PathBuf },
}

impl Remembered {
    fn path(directory: &Path) -> PathBuf {
        directory.join("site.json")
    }

    /// What a directory remembers, if anything.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, SiteError> {
        let path = Self::path(directory);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(remembered) => Ok(Some(remembered)),
                Err(source) => Err(SiteError::Damaged { path, source }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SiteError::File { path, source }),
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// If there is no room.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), SiteError> {
        let path = Self::path(directory);
        let done = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        done().map_err(|source| SiteError::File { path: path.clone(), source })
    }

    /// What is started in a directory, on this cluster: what it holds, else what was asked for.
    ///
    /// # Errors
    /// If it holds another site, or one on another cluster.
    pub(crate) fn settle(
        remembered: Option<&Self>,
        asked: Asked,
        cluster: Option<&str>,
        directory: &Path,
    ) -> Result<Source, SiteError> {
        let Some(remembered) = remembered else { return Ok(asked.said.unwrap_or(asked.otherwise)) };
        let path = directory.to_owned();
        match asked.said {
            _ if remembered.cluster.as_deref() != cluster => Err(SiteError::Elsewhere { path }),
            Some(said) if said != remembered.source => Err(SiteError::Another { path }),
            _ => Ok(remembered.source.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_on_with_its_site_on_its_cluster_only() {
        let demo = |seed| Source::Demo { gpu_nodes: 1, cpu_nodes: 0, racks: 1, spares: 0, seed };
        let asked = |said: Option<Source>| Asked { said, otherwise: demo(1) };
        let at = Path::new("/data");
        let new = Remembered::settle(None, asked(None), Some("a"), at).unwrap();
        assert_eq!(new, demo(1));
        let (source, cluster) = (demo(2), Some("a".to_owned()));
        let known = Remembered { source, api: None, bmc: None, boot: None, cluster };
        let settle = |said, cluster| Remembered::settle(Some(&known), asked(said), cluster, at);
        assert_eq!(settle(None, Some("a")).unwrap(), demo(2));
        assert_eq!(settle(Some(demo(2)), Some("a")).unwrap(), demo(2));
        let refused = settle(Some(demo(3)), Some("a")).unwrap_err().to_string();
        assert!(refused.contains("holds another site"), "{refused}");
        for cluster in [Some("b"), None] {
            let refused = settle(None, cluster).unwrap_err().to_string();
            assert!(refused.contains("on another cluster"), "{refused}");
        }
    }
}
