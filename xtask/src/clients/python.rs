//! The Python client of Kubernetes, from PyPI in an environment of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::session::{Session, output};
use crate::upstream;

/// Together with what it needs, as pip resolves it.
const PACKAGE: &str = "kubernetes==37.0.2";

const SCRIPT: &str = include_str!("python.py");

/// Runs the script, which judges by itself.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    let python = environment()?;
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    output(session.command(&python).args(["-c", SCRIPT])).map(drop)
}

/// The interpreter of the environment; made if no earlier run has.
fn environment() -> Result<PathBuf> {
    let dir = upstream::parts_dir()?.join(PACKAGE.replace("==", "-python-"));
    let python = dir.join("bin/python");
    // Written last, so that a half-made environment is made again.
    let whole = dir.join("whole");
    if whole.is_file() {
        return Ok(python);
    }
    let remedy = "install Python 3 with venv (apt-get install python3-venv)";
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir)).context(remedy)?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE];
    let remedy = format!("{PACKAGE} cannot be installed from PyPI: is there a network?");
    output(Command::new(&python).args(install)).context(remedy)?;
    fs::write(&whole, PACKAGE)?;
    Ok(python)
}
