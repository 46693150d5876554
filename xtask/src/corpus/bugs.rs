//! Whether the corpus tells a server with a bug from one without: each deliberate bug of the server's
//! test build is planted in turn, and the cases that are there to tell it are played once more.
//!
//! Guarantees that a bug counts as noticed only by a case that matched in this very run while nothing
//! was planted. Upstream is asked once, whatever the number of bugs.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::case::File;
use super::report::Played;
use super::run::Run;
use crate::server::{Ours, Place, Server};
use crate::tool;

/// The example of crate `apiserver` that has the bugs.
const EXAMPLE: &str = "sabotaged_server";

/// A deliberate bug.
struct Bug {
    name: String,
    /// How the names of the cases begin that are there to tell it.
    told_by: Vec<String>,
}

impl Bug {
    fn is_told_by(&self, case: &str) -> bool {
        self.told_by.iter().any(|start| case.starts_with(start))
    }
}

/// Plants every bug and fails when one goes unnoticed.
pub(super) fn hunt(
    files: &mut Vec<File>,
    upstream: &Server,
    tokens: &Path,
    scratch: &Path,
    jobs: usize,
) -> Result<()> {
    let program = build()?;
    let bugs = list(&program)?;
    for File { name, cases, .. } in files.iter_mut() {
        cases.retain(|case| {
            let name = format!("{name}/{}", case.name);
            bugs.iter().any(|bug| bug.is_told_by(&name))
        });
    }
    files.retain(|file| !file.cases.is_empty());

    let began = Instant::now();
    let run = Run::new(jobs);
    let played = {
        let (_child, sound) = Ours::start(&program, scratch, tokens, &Place::Memory)?;
        run.compare(files, upstream, Some(&sound))?
    };
    let sound: Vec<&Played> = played.iter().filter(|case| case.matches()).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{:<20} {:>5} {:>5}  the first case that tells it", "bug", "cases", "lost")?;
    let mut unnoticed = Vec::new();
    for bug in &bugs {
        let mine: Vec<&Played> =
            sound.iter().filter(|case| bug.is_told_by(&case.name)).copied().collect();
        let flags = [OsStr::new("--sabotage"), OsStr::new(&bug.name)];
        let (_child, server) =
            Ours::start_known(&program, scratch, tokens, &Place::Memory, &flags)?;
        let again = run.again(files, &mine, &server)?;
        let lost: Vec<&Played> = again.iter().filter(|case| !case.matches()).collect();
        let first = lost.first().map_or("NONE", |case| case.name.as_str());
        writeln!(out, "{:<20} {:>5} {:>5}  {first}", bug.name, mine.len(), lost.len())?;
        if lost.is_empty() {
            unnoticed.push(bug.name.as_str());
        }
    }
    writeln!(
        out,
        "{} of {} bugs noticed, {:.0} s",
        bugs.len() - unnoticed.len(),
        bugs.len(),
        began.elapsed().as_secs_f64()
    )?;
    ensure!(
        unnoticed.is_empty(),
        "the corpus tells nothing of {}: add the missing cases to corpus/, or name those that should \
         tell it in Sabotage::ALL",
        unnoticed.join(", ")
    );
    Ok(())
}

/// Builds the example as `cargo test --workspace --all-features` does, so that it is there already
/// after that.
fn build() -> Result<PathBuf> {
    tool::run(tool::cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--all-features",
        "--example",
        EXAMPLE,
    ]))?;
    Ok(tool::root().join("target/debug/examples").join(EXAMPLE))
}

fn list(program: &Path) -> Result<Vec<Bug>> {
    let output = Command::new(program).arg("list").output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8(output.stdout).context("the list of bugs is no text")?;
    let bugs: Vec<Bug> = text.lines().filter_map(bug).collect();
    ensure!(!bugs.is_empty(), "{} lists no bugs", program.display());
    Ok(bugs)
}

/// A line of the list: a name, and how the names of its cases begin.
fn bug(line: &str) -> Option<Bug> {
    let mut words = line.split_whitespace().map(str::to_owned);
    Some(Bug { name: words.next()?, told_by: words.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_told_by_cases_whose_names_begin_so() {
        let bug = bug("NoQuotas quota/ pods/created").unwrap();
        assert_eq!(bug.name, "NoQuotas");
        assert!(bug.is_told_by("quota/cpu") && bug.is_told_by("pods/created-twice"));
        assert!(!bug.is_told_by("quotas/cpu") && !bug.is_told_by("pods/create"));
    }
}
