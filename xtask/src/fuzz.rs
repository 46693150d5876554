//! `cargo xtask fuzz`: every parser that faces a network, under libFuzzer.
//!
//! Our crates are built with coverage, the others as for tests. CI runs so many inputs from a fixed
//! seed; people run for as long as they like. What is found is kept beside the target's own inputs, and
//! the error says how to see it again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::tool;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz kube-cel --seconds 3600\n  cargo xtask fuzz kube-cel --input target/fuzz/kube-cel/crash-0a1b"
)]
pub(crate) struct Args {
    /// Which targets; all of them if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How many inputs each target gets
    #[arg(long, default_value_t = RUNS, conflicts_with = "seconds")]
    runs: u32,
    /// For how long each target runs instead, with another seed each time
    #[arg(long)]
    seconds: Option<u32>,
    /// Run this one input, as after a find
    #[arg(long, value_name = "FILE", requires = "targets")]
    input: Option<PathBuf>,
}

/// What CI gives each target.
const RUNS: u32 = 3_000;

/// How long one input may take, in seconds: far more than any does, on a machine that is busy.
const TIMEOUT: u32 = 30;

/// How much memory a target may take, in MiB: some hold a whole API server.
const MEMORY: u32 = 2_048;

/// Builds and runs.
pub(crate) fn run(args: &Args) -> Result<()> {
    let fuzzer = Fuzzer::build()?;
    let all = fuzzer.targets()?;
    for name in &args.targets {
        ensure!(all.contains(name), "there is no target {name}: there are {}", all.join(", "));
    }
    let chosen = if args.targets.is_empty() { &all } else { &args.targets };
    if let Some(input) = &args.input {
        let target = chosen.first().context("name the target")?;
        let mut command = fuzzer.command(target);
        command.arg(input);
        return tool::run(command);
    }
    let limit = match args.seconds {
        Some(seconds) => [format!("-max_total_time={seconds}"), "-seed=0".to_owned()],
        None => [format!("-runs={}", args.runs), "-seed=1".to_owned()],
    };
    fuzzer.run_all(chosen, &limit)
}

/// What `cargo xtask test` runs: the same inputs every time.
pub(crate) fn gate() -> Result<()> {
    let fuzzer = Fuzzer::build()?;
    fuzzer.run_all(&fuzzer.targets()?, &[format!("-runs={RUNS}"), "-seed=1".to_owned()])
}

/// The built program, out of the way of other builds, and where targets keep what they found.
struct Fuzzer {
    program: PathBuf,
    dir: PathBuf,
}

impl Fuzzer {
    fn build() -> Result<Self> {
        // As the tests are built, so that whatever is not ours has been built already.
        let mut build =
            tool::cargo(&["build", "--workspace", "--all-features", "--bin", "fuzz", "--quiet"]);
        build.env("RUSTC_WORKSPACE_WRAPPER", tool::root().join("crates/fuzz/instrument.sh"));
        tool::run(build).context("the fuzzer needs a C++ compiler beside Rust: install g++")?;
        let dir = tool::root().join("target/fuzz");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let program = dir.join("fuzz");
        let built = tool::root().join("target/debug/fuzz");
        fs::copy(&built, &program).with_context(|| format!("cannot copy {}", built.display()))?;
        Ok(Self { program, dir })
    }

    fn targets(&self) -> Result<Vec<String>> {
        let output = Command::new(&self.program).env("FUZZ_TARGET", "list").output()?;
        ensure!(output.status.success(), "{} does not list its targets", self.program.display());
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// The target, to be given libFuzzer's arguments.
    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("FUZZ_TARGET", target).current_dir(tool::root());
        command
    }

    /// Runs targets, as many at once as there are cores.
    fn run_all(&self, targets: &[String], limit: &[String]) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let left = Mutex::new(targets.iter().rev().collect::<Vec<_>>());
        let next = || left.lock().ok().and_then(|mut left| left.pop());
        let work = || {
            let mut wrong = Vec::new();
            while let Some(target) = next() {
                if let Err(error) = self.run_one(target, limit) {
                    wrong.push(format!("{error:#}"));
                }
            }
            wrong
        };
        let wrong: Vec<String> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            running.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect()
        });
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }

    #[expect(clippy::print_stdout, reason = "a task runner says what it found")]
    fn run_one(&self, target: &str, limit: &[String]) -> Result<()> {
        let dir = self.dir.join(target);
        let (seeds, found) = (dir.join("seeds"), dir.join("found"));
        for dir in [&seeds, &found] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let planted = self.command(target).env("FUZZ_SEEDS", &seeds).status()?;
        ensure!(planted.success(), "{target} does not write its seeds");
        let log = dir.join("log");
        let file = fs::File::create(&log).context("cannot write a log")?;
        let mut command = self.command(target);
        command
            .args(limit)
            .arg(format!("-timeout={TIMEOUT}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-artifact_prefix={}/", dir.display()))
            .args(["-print_final_stats=1", "-max_len=16384"])
            .args([&found, &seeds])
            .stdout(Stdio::null())
            .stderr(file);
        let begin = Instant::now();
        let status = command.status()?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        if !status.success() {
            bail!("{target} failed ({status}):\n{}\n{}", tail(&said), again(target, &said));
        }
        let runs =
            said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let covered = said.lines().rev().find_map(coverage).unwrap_or_default();
        let (runs, took) = (runs.unwrap_or_default().trim(), begin.elapsed().as_secs_f64());
        println!("{target:<14} {runs:>9} inputs, {covered:>6} places of our code, {took:>6.1} s");
        Ok(())
    }
}

/// Of a line such as `#8192 pulse  cov: 123 ft: 456`: how much has been reached.
fn coverage(line: &str) -> Option<&str> {
    line.split_once(" cov: ")?.1.split_whitespace().next()
}

/// The end of what the fuzzer said: the panic is in it.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let panic = lines.iter().rposition(|line| line.contains("panicked at"));
    let from = panic.unwrap_or(lines.len().saturating_sub(20));
    lines[from..].iter().take(20).copied().collect::<Vec<_>>().join("\n")
}

/// How to see it again.
fn again(target: &str, said: &str) -> String {
    let written = said.lines().rev().find_map(|line| line.split_once("Test unit written to "));
    let path = written.map_or("FILE", |(_, path)| path);
    let path = Path::new(path).strip_prefix(tool::root()).unwrap_or(Path::new(path)).display();
    format!("see it again: cargo xtask fuzz {target} --input {path}")
}
