//! Programs and libraries from PyPI, each in an environment of its own among the parts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{tool, upstream};

/// OpenStack's BMC emulator, which the tests of `metal` speak Redfish to. The version stands in
/// `crates/metal/tests/it/sushy.rs` too.
pub(crate) const SUSHY: &str = "sushy-tools==2.2.0";

/// AWS's services as others understand them, S3 with its signatures among them, which the tests of
/// `stream` read from. The version stands in `crates/stream/tests/it/remote/s3.rs` too.
pub(crate) const MOTO: &str = "moto[server]==5.2.5";

/// The environment of a package at a version, together with what it needs, as pip resolves it; made
/// if no earlier run has. Its programs are in `bin`.
pub(crate) fn environment(package: &str) -> Result<PathBuf> {
    // What is asked for besides the package itself stands in brackets, which shells mind.
    let name = package.replace("==", "-python-").replace('[', "-").replace(']', "");
    let dir = upstream::parts_dir()?.join(name);
    // Written last, so that a half-made environment is made again.
    let whole = dir.join("whole");
    if whole.is_file() {
        return Ok(dir);
    }
    let remedy = "install Python 3 with venv (apt-get install python3-venv)";
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&dir);
    tool::run(make).context(remedy)?;
    let mut install = Command::new(dir.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    let remedy = format!("{package} cannot be installed from PyPI: is there a network?");
    tool::run(install).context(remedy)?;
    fs::write(&whole, package)?;
    Ok(dir)
}
