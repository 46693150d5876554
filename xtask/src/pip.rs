//! Programs and libraries from PyPI, each in an environment of its own among the parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{tool, upstream};

/// OpenStack's BMC emulator, which the tests of `metal` speak Redfish to. The version stands in
/// `crates/metal/tests/it/sushy.rs` too.
pub(crate) const SUSHY: &str = "sushy-tools==2.2.0";

/// AWS's services as others understand them, S3 with its signatures among them, which the tests of
/// `stream` read from. The version stands in `crates/stream/tests/it/remote/s3.rs` too.
pub(crate) const MOTO: &str = "moto[server]==5.2.5";

/// What makes a wheel of a crate.
pub(crate) const MATURIN: &str = "maturin==1.16.0";

/// The environment of a package at a version, together with what it needs, as pip resolves it; made
/// if no earlier run has. Its programs are in `bin`.
pub(crate) fn environment(package: &str) -> Result<PathBuf> {
    // What is asked for besides the package itself stands in brackets, which shells mind.
    let name = package.replace("==", "-python-").replace('[', "-").replace(']', "");
    part(&name, |dir| install(dir, &[package]))
}

/// An environment among the parts; made and filled if no earlier run has.
pub(crate) fn part(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let dir = upstream::parts_dir()?.join(name);
    // Written last, so that a half-made environment is made again.
    let whole = dir.join("whole");
    if whole.is_file() {
        return Ok(dir);
    }
    make(&dir)?;
    fill(&dir)?;
    fs::write(&whole, name)?;
    Ok(dir)
}

/// An empty environment, whatever was there.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(dir);
    tool::run(make).context("install Python 3 with venv (apt-get install python3-venv)")
}

/// Installs packages, or does what else these words tell pip, in an environment.
pub(crate) fn install(dir: &Path, words: &[&str]) -> Result<()> {
    let mut install = Command::new(dir.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(words);
    let remedy =
        || format!("{} cannot be installed from PyPI: is there a network?", words.join(" "));
    tool::run(install).with_context(remedy)
}
