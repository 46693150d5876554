//! What no compiler checks: which crate may use which, how long a file may be, that docs exist.
//!
//! The table of arrows is the law of the house; ARCHITECTURE.md explains it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::alerts;
use crate::tool::{cargo, root};

/// Which of our crates each of our crates may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("plan", &["api"]),
    ("kit", &["api"]),
    ("store", &[]),
    ("apiserver", &["api", "kit", "store"]),
    ("controllers", &["api", "plan", "kit", "metal"]),
    ("metal", &["api", "kit", "plan"]),
    ("agent", &["api", "plan", "kit"]),
    ("slurm", &["api", "kit"]),
    ("stream", &[]),
    ("stream-py", &["stream"]),
    ("console", &["api", "kit"]),
    ("fuzz", &["api", "apiserver", "kit", "metal", "plan", "stream"]),
    ("xtask", &[]),
];

/// The crates that may use any of ours: `sim` all but the binary, the binary all.
const ANYTHING: &[&str] = &["sim", "seatrial"];

/// Outside crates that a crate of ours must not use, tests aside.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("api", &["tokio"]),
    ("plan", &["tokio", "futures", "tracing", "rand", "getrandom"]),
    ("kit", &["axum"]),
    ("store", &["serde_json", "k8s-openapi", "kube"]),
    ("apiserver", &["axum"]),
    ("controllers", &["axum"]),
    ("stream", &["kube", "axum"]),
];

/// A file longer than this is several files.
const MAX_LINES: usize = 1_200;

/// Pages that the repository always has.
const PAGES: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "SPECIFICATION.md", "CHANGELOG.md", "LICENSE", "docs/adr"];

/// Runs every check and names all that fails.
pub(crate) fn run() -> Result<()> {
    let mut wrong = Vec::new();
    wrong.extend(arrows(&metadata()?));
    for file in tracked(&["*.rs", "*.py", "*.ts"])? {
        wrong.extend(length(&file)?);
    }
    wrong.extend(controllers()?);
    for page in PAGES {
        if !root().join(page).exists() {
            wrong.push(format!("{page} is missing"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("the house is untidy:\n  {}", wrong.join("\n  "))
}

/// Controllers that nobody can choose, and that so ship no role, alerts or dashboard either.
fn controllers() -> Result<Vec<String>> {
    let path = "crates/controllers/src/registry.rs";
    let registry = std::fs::read_to_string(root().join(path))
        .with_context(|| format!("cannot read {path}"))?;
    let missing = |folder: &String| !registry.contains(&format!("crate::{folder}::"));
    let folders = alerts::folders()?.into_iter().filter(missing);
    Ok(folders.map(|folder| format!("controller {folder} is not in ALL of {path}")).collect())
}

fn metadata() -> Result<Value> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// Every arrow between crates that the table does not allow.
fn arrows(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let used = dependencies.filter(|d| d["kind"] != "dev").filter_map(|d| d["name"].as_str());
        let forbidden = FORBIDDEN.iter().find(|(n, _)| *n == name).map_or(&[][..], |(_, f)| f);
        for used in used {
            if forbidden.contains(&used) {
                wrong.push(format!("crate {name} must not use {used}"));
            }
            if !ours.contains(&used) || ANYTHING.contains(&name) && used != "seatrial" {
                continue;
            }
            if !allowed.get(name).is_some_and(|may| may.contains(&used)) {
                wrong
                    .push(format!("crate {name} must not use crate {used}: see ARROWS in tidy.rs"));
            }
        }
        if !allowed.contains_key(name) && !ANYTHING.contains(&name) {
            wrong.push(format!("crate {name} is not in the table ARROWS of tidy.rs"));
        }
    }
    wrong
}

fn tracked(patterns: &[&str]) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(patterns)
        .current_dir(root())
        .output()
        .context("git is needed to list the repository's files")?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names.lines().map(PathBuf::from).collect())
}

fn length(file: &Path) -> Result<Option<String>> {
    let path = root().join(file);
    if !path.exists() {
        return Ok(None);
    }
    let lines = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .lines()
        .count();
    Ok((lines > MAX_LINES)
        .then(|| format!("{} has {lines} lines, more than {MAX_LINES}: split it", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &[&str]) -> Value {
        let dependencies: Vec<Value> =
            uses.iter().map(|name| json!({"name": name, "kind": null})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn only_the_arrows_of_the_table_are_allowed() {
        let metadata = json!({"packages": [
            package("store", &["bytes"]),
            package("kit", &[]),
            package("apiserver", &["store", "kit"]),
            package("seatrial", &["apiserver"]),
        ]});
        assert_eq!(arrows(&metadata), Vec::<String>::new());
        let metadata = json!({"packages": [
            package("store", &["kit", "serde_json"]),
            package("kit", &["seatrial"]),
            package("stray", &[]),
            package("seatrial", &[]),
        ]});
        assert_eq!(arrows(&metadata).len(), 4, "{:?}", arrows(&metadata));
    }
}
