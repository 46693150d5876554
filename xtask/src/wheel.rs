//! `cargo xtask wheel`: the Python package, built as others build it and tested as others install it.
//!
//! Tests run twice: without torch in an environment that has the wheel and numpy and nothing else, and
//! beside the real tensorizer and torch, which are kept among the parts (1.5 GB).

mod hollow;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{pip, tool};

/// The package, from the repository's root.
const CRATE: &str = "crates/stream-py";
/// torch and the package that ours is held to.
const TORCH: [&str; 2] = ["torch==2.15.0", "tensorizer==2.12.1"];
/// What both need to be imported. pip is not asked: torch's wheel for x86-64 asks for 4 GB of CUDA.
const NEEDS: [&str; 14] = [
    "boto3",
    "filelock",
    "fsspec",
    "hiredis",
    "jinja2",
    "libnacl",
    "networkx",
    "numpy==2.4.6",
    "protobuf",
    "psutil",
    "redis",
    "safetensors==0.8.0",
    "sympy",
    "typing_extensions",
];

/// Arguments of `cargo xtask wheel`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install it into clean environments and run its tests there
    #[arg(long)]
    test: bool,
}

/// Builds the wheel, and tests it if that is asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.test { test() } else { build().map(drop) }
}

/// Builds the wheel, and tests it without torch and with it.
pub(crate) fn test() -> Result<()> {
    let wheel = build()?;
    let clean = tool::root().join("target/wheel");
    pip::make(&clean)?;
    pip::install(&clean, &[&wheel.to_string_lossy()])?;
    tests(&clean, &["test_numpy"])?;
    tests(&installed(&wheel)?, &["test_interop", "test_torch", "test_vllm"])
}

/// The wheel, anew.
fn build() -> Result<PathBuf> {
    let out = tool::root().join("target/wheels");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot clear {}", out.display()))?;
    }
    let mut maturin = tool::builder(pip::environment(pip::MATURIN)?.join("bin/maturin"));
    maturin.args(["build", "--release", "--locked", "--quiet", "--out"]).arg(&out);
    maturin.arg("--manifest-path").arg(Path::new(CRATE).join("Cargo.toml"));
    maturin.current_dir(tool::root());
    tool::run(maturin)?;
    let made = fs::read_dir(&out)?.next().context("maturin made no wheel")??;
    Ok(made.path())
}

/// The environment with torch and the real tensorizer, and the wheel, built anew, in it.
pub(crate) fn beside_torch() -> Result<PathBuf> {
    installed(&build()?)
}

fn installed(wheel: &Path) -> Result<PathBuf> {
    let name = TORCH.join("-").replace("==", "-python-");
    let dir = pip::part(&name, |dir| {
        pip::install(dir, &[&["--no-deps"][..], &TORCH].concat())?;
        pip::install(dir, &NEEDS)?;
        hollow::fill(&torch(dir)?)
    })?;
    pip::install(&dir, &["--no-deps", "--force-reinstall", &wheel.to_string_lossy()])?;
    Ok(dir)
}

/// Where torch lies in an environment, whatever version of Python that is of.
fn torch(dir: &Path) -> Result<PathBuf> {
    let versions = fs::read_dir(dir.join("lib"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut places = versions.map(|version| version.join("site-packages/torch"));
    places.find(|place| place.is_dir()).context("pip installed torch and it is not there")
}

fn tests(environment: &Path, modules: &[&str]) -> Result<()> {
    let mut tests = Command::new(environment.join("bin/python"));
    tests.args(["-B", "-m", "unittest", "--quiet"]).args(modules);
    tests.current_dir(tool::root().join(CRATE).join("tests"));
    tool::run(tests)
}
