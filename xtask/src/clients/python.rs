//! The Python client of Kubernetes, from PyPI in an environment of its own.

use anyhow::Result;

use super::session::{Session, output};
use crate::pip;

const PACKAGE: &str = "kubernetes==37.0.2";

const SCRIPT: &str = include_str!("python.py");

/// Runs the script, which judges by itself.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    let python = pip::environment(PACKAGE)?.join("bin/python");
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    output(session.command(&python).args(["-c", SCRIPT])).map(drop)
}
