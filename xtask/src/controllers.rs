//! The controllers' own tests on a real kube-apiserver, which `cargo test` runs on the server in the
//! process.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tool;
use crate::upstream::{Options, Upstream};

/// Starts a reference server and runs the tests there.
pub(crate) fn on_upstream() -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let upstream = Upstream::start(scratch.path(), &Options::default())?;
    let mut tests = Command::new(built()?);
    tests.arg("--quiet").current_dir(tool::root().join("crates/controllers"));
    tests.env("SEATRIAL_TEST_KUBECONFIG", &upstream.kubeconfig);
    tool::run(tests)
}

/// The program of the tests, built as `cargo test --workspace --all-features` does: asked for alone,
/// all below it would be built once more, with other features.
fn built() -> Result<PathBuf> {
    let mut build = tool::cargo(&["test", "--workspace", "--all-features", "--quiet", "--no-run"]);
    build.args(["--test", "it", "--message-format", "json-render-diagnostics"]);
    let output = build.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let program = messages.flatten().find_map(|message| {
        let manifest = message["manifest_path"].as_str()?;
        let ours =
            manifest.ends_with("/controllers/Cargo.toml") && message["target"]["name"] == "it";
        ours.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    program.context("cargo does not say where the tests of `controllers` are")
}
