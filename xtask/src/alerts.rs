//! The alert rules of every controller, generated and put through promtool.
//!
//! `seatrial generate controllers` writes them from what the controllers declare; a controller's
//! folder that has none, or a rule that does not fire in its example, fails the run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tool::{cargo, root, run};
use crate::upstream;

/// What each controller ships.
const SHIPPED: [&str; 4] = ["alerts.yaml", "alerts_test.yaml", "dashboard.json", "role.yaml"];

/// Generates and checks.
pub(crate) fn check() -> Result<()> {
    let out = root().join("target/controllers");
    let mut generate =
        cargo(&["run", "--quiet", "-p", "seatrial", "--", "generate", "controllers"]);
    generate.arg(&out);
    run(generate)?;
    let promtool = upstream::promtool()?;
    for folder in folders()? {
        let shipped = out.join(&folder);
        for file in SHIPPED {
            let remedy = "is it in ALL in crates/controllers/src/registry.rs?";
            ensure!(shipped.join(file).is_file(), "controller {folder} ships no {file}: {remedy}");
        }
        promtool_run(&promtool, &["check", "rules", "alerts.yaml"], &shipped)?;
        promtool_run(&promtool, &["test", "rules", "alerts_test.yaml"], &shipped)?;
    }
    Ok(())
}

fn promtool_run(promtool: &Path, arguments: &[&str], dir: &Path) -> Result<()> {
    let mut command = Command::new(promtool);
    command.args(arguments).current_dir(dir);
    let output = command.output().context("cannot run promtool")?;
    ensure!(
        output.status.success(),
        "promtool {} in {}:\n{}{}",
        arguments.join(" "),
        dir.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The folders of `crates/controllers/src`: one for each controller.
pub(crate) fn folders() -> Result<Vec<String>> {
    let dir: PathBuf = root().join("crates/controllers/src");
    let mut folders = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?
    {
        let entry = entry?;
        if entry.path().join("mod.rs").is_file() {
            folders.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    folders.sort();
    Ok(folders)
}
