//! Other loaders from PyPI, and our own package beside them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::{pip, tool, wheel};

/// Loaders that some machines have no wheels for, each with what it needs beside torch's environment. pip
/// is not asked for that: torch, which they name, is there.
const LOADERS: [(&str, &[&str]); 2] = [
    ("fastsafetensors", &["fastsafetensors==0.5.0"]),
    (
        "runai",
        &["runai-model-streamer==0.17.0", "runai-model-streamer-s3==0.17.1", "humanize==4.17.0"],
    ),
];

/// Where packages are, and which of them are not.
pub(super) struct Peers {
    python: PathBuf,
    /// The packages of each loader, or why there are none.
    loaders: Vec<(&'static str, Result<PathBuf>)>,
}

impl Peers {
    /// Builds our wheel and installs what is missing.
    pub(super) fn have() -> Result<Self> {
        let python = wheel::beside_torch()?.join("bin/python");
        let loaders = LOADERS.iter().map(|(name, packages)| (*name, fetched(packages)));
        Ok(Self { python, loaders: loaders.collect() })
    }

    /// A package loads from a file.
    pub(super) fn load(&self, package: &str, place: &Path, how: &[&str]) -> Result<Command> {
        self.command(package, place.as_os_str(), how)
    }

    /// Run:ai's loader reads past the page cache if it is not told otherwise.
    pub(super) fn buffered(&self, place: &Path) -> Result<Command> {
        let mut command = self.load("runai", place, &[])?;
        command.env("RUNAI_STREAMER_FS_STRATEGY", "sync_buffered");
        Ok(command)
    }

    /// A package loads from a URL; what cannot fetches it into a file here first.
    pub(super) fn fetch(&self, package: &str, url: &str, scratch: &Path) -> Result<Command> {
        let mut command = self.command(package, url.as_ref(), &[])?;
        command.env("PEER_SCRATCH", scratch);
        Ok(command)
    }

    /// libsodium opens as many bytes as a file has.
    pub(super) fn libsodium(&self, file: &Path) -> Command {
        self.program("libsodium", file.as_os_str(), &[])
    }

    fn command(&self, package: &str, place: &OsStr, how: &[&str]) -> Result<Command> {
        let mut command = self.program(package, place, how);
        if let Some((_, packages)) = self.loaders.iter().find(|(name, _)| *name == package) {
            let packages = packages.as_ref().map_err(|absent| anyhow!("{absent:#}"))?;
            command.env("PYTHONPATH", packages);
        }
        Ok(command)
    }

    fn program(&self, package: &str, place: &OsStr, how: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.arg("-B").arg(tool::root().join("xtask/src/bench/stream/peer.py"));
        command.arg(package).arg(place).args(how);
        command
    }
}

/// A loader's packages, in a folder that the interpreter is told of.
fn fetched(packages: &[&str]) -> Result<PathBuf> {
    let dir = pip::part(&packages.join("-").replace("==", "-python-"), |dir| {
        let target = dir.join("packages");
        let into = ["--no-deps", "--target", &target.to_string_lossy()];
        // In one go: some share a folder.
        pip::install(dir, &[&into[..], packages].concat())
    })?;
    Ok(dir.join("packages"))
}
