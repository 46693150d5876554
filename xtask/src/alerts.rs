//! The alert rules of every controller, generated and put through promtool.
//!
//! `seatrial generate controllers` writes them from what the controllers declare; a controller that
//! ships none, or a rule that does not fire in its example, fails the run. That every controller in
//! the source tree is generated is for `tidy`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tool::{program, release, root, run};
use crate::upstream;

/// What each controller ships.
const SHIPPED: [&str; 4] = ["alerts.yaml", "alerts_test.yaml", "dashboard.json", "role.yaml"];

/// Generates and checks.
pub(crate) fn check() -> Result<()> {
    let out = root().join("target/controllers");
    // What an earlier run left is not shipped.
    let _ = std::fs::remove_dir_all(&out);
    release()?;
    let mut generate = Command::new(program());
    generate.args(["generate", "controllers"]).arg(&out);
    run(generate)?;
    let promtool = upstream::promtool()?;
    let controllers = folders_of(&out)?;
    ensure!(!controllers.is_empty(), "no controller ships anything");
    for controller in controllers {
        let shipped = out.join(&controller);
        for file in SHIPPED {
            ensure!(shipped.join(file).is_file(), "controller {controller} ships no {file}");
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

/// The folders of `crates/controllers/src`: of one controller each, or of a few that belong together.
pub(crate) fn folders() -> Result<Vec<String>> {
    folders_of(&root().join("crates/controllers/src"))
}

fn folders_of(dir: &Path) -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        if entry.path().is_dir() {
            folders.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    folders.sort();
    Ok(folders)
}
