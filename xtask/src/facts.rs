//! Regenerates `crates/apiserver/facts/builtin.json`: what upstream Kubernetes knows about its own
//! kinds, as data that our server loads.
//!
//! The facts come from a Go program over upstream's own types (`tools/upstream/facts`) and from a
//! running kube-apiserver of the same version, so the file follows from the pins in `tools/` alone:
//! the same pins give the same bytes. It is never edited by hand.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::upstream::{Options, Upstream, check_go, workspace};

const FILE: &str = "crates/apiserver/facts/builtin.json";

/// Arguments of `cargo xtask facts`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if the file is not what upstream says
    #[arg(long)]
    check: bool,
}

/// `cargo xtask facts`: writes the file, or compares it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let module = workspace().join("tools/upstream");
    check_go(&module)?;
    let dir = workspace().join("target/facts");
    // An earlier run's objects must not show up in what the server answers.
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    let upstream = Upstream::start(&dir, &Options::default())?;
    let fresh = dir.join("builtin.json");
    generate(&module, &upstream.kubeconfig, &fresh)?;
    let file = workspace().join(FILE);
    if args.check { compare(&fresh, &file) } else { replace(&fresh, &file) }
}

fn generate(module: &Path, kubeconfig: &Path, out: &Path) -> Result<()> {
    eprintln!("asking upstream; compiling that takes minutes the first time");
    // With the flags of the server's own build, so that both share Go's cache.
    let status = Command::new("go")
        .args(["run", "-mod=readonly", "-trimpath", "-buildvcs=false", "./facts", "-kubeconfig"])
        .arg(kubeconfig)
        .arg("-o")
        .arg(out)
        .env("CGO_ENABLED", "0")
        .current_dir(module)
        .status()
        .context("cannot run go")?;
    if !status.success() {
        bail!("tools/upstream/facts failed; what it printed says which fact is new or unclear");
    }
    Ok(())
}

fn replace(fresh: &Path, file: &Path) -> Result<()> {
    let text = read(fresh)?;
    let same = fs::read_to_string(file).is_ok_and(|old| old == text);
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("{FILE} is {}", if same { "unchanged" } else { "written: look at the diff" });
    Ok(())
}

fn compare(fresh: &Path, file: &Path) -> Result<()> {
    let (new, old) = (read(fresh)?, read(file)?);
    let Some(line) = first_difference(&old, &new) else { return Ok(()) };
    bail!(
        "{FILE} is not what upstream says, from line {line} on: run `cargo xtask facts` and commit \
         the result; what upstream says now is in {}",
        fresh.display()
    )
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn first_difference(a: &str, b: &str) -> Option<usize> {
    if a == b {
        return None;
    }
    let same = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_a_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("a", "a\n"), Some(2));
    }
}
