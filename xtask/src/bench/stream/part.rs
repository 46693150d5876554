//! Measurements that belong together: each a process of its own, round by round in turn.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::goal::Goal;
use crate::tool;

/// After this a measurement hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// What one measurement prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    /// Seconds of all cores.
    pub(super) cpu: f64,
    /// MiB of peak memory beyond the tensors.
    pub(super) beyond: f64,
    /// Seconds since its process began.
    pub(super) ready: Option<f64>,
    /// Bytes of the one object that many asked for.
    pub(super) object: Option<f64>,
}

/// What a row is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// What the machine can do, for the rows below it.
    Limit,
    /// What has goals. The first of a part is what peers are compared with.
    Ours,
    Peer,
}

/// A measurement that is repeated.
pub(super) struct Row {
    what: &'static str,
    role: Role,
    command: Result<Command>,
    reads: Option<PathBuf>,
    goals: Vec<Goal>,
}

/// Rows that take turns.
#[derive(Default)]
pub(super) struct Part(Vec<Row>);

/// A row after all rounds.
pub(super) struct Taken {
    pub(super) what: &'static str,
    pub(super) role: Role,
    pub(super) goals: Vec<Goal>,
    /// A figure for each round, or why there is none.
    pub(super) figures: Result<Vec<Figures>>,
}

impl Row {
    /// The page cache has this, a file or a folder of files, before each round.
    pub(super) fn reads(&mut self, path: &Path) -> &mut Self {
        self.reads = Some(path.to_owned());
        self
    }

    pub(super) fn goal(&mut self, goal: Goal) -> &mut Self {
        self.goals.push(goal);
        self
    }

    fn measure(&mut self) -> Result<Figures> {
        if let Some(path) = &self.reads {
            warm(path)?;
        }
        match &mut self.command {
            Ok(command) => printed(command),
            Err(absent) => bail!("{absent:#}"),
        }
    }
}

impl Part {
    pub(super) fn limit(&mut self, what: &'static str, command: Command) -> &mut Row {
        self.row(what, Role::Limit, Ok(command))
    }

    pub(super) fn ours(&mut self, what: &'static str, command: Command) -> &mut Row {
        self.row(what, Role::Ours, Ok(command))
    }

    /// A loader that may be absent.
    pub(super) fn peer(&mut self, what: &'static str, command: Result<Command>) -> &mut Row {
        self.row(what, Role::Peer, command)
    }

    fn row(&mut self, what: &'static str, role: Role, command: Result<Command>) -> &mut Row {
        let at = self.0.len();
        self.0.push(Row { what, role, command, reads: None, goals: Vec::new() });
        &mut self.0[at]
    }

    /// Does every row once in every round. One that fails has failed, and the others go on.
    #[expect(clippy::print_stdout, reason = "a bench of minutes says how far it is")]
    pub(super) fn measure(self, rounds: u32) -> Vec<Taken> {
        let mut rows: Vec<(Row, Result<Vec<Figures>>)> =
            self.0.into_iter().map(|row| (row, Ok(Vec::new()))).collect();
        for round in 1..=rounds {
            for (row, taken) in &mut rows {
                let Ok(figures) = taken else { continue };
                match row.measure() {
                    Ok(found) => {
                        println!("{round}/{rounds} {}: {:.3} s", row.what, found.seconds);
                        figures.push(found);
                    }
                    Err(error) => {
                        println!("{round}/{rounds} {}: {error:#}", row.what);
                        *taken = Err(error);
                    }
                }
            }
        }
        let taken = |(row, figures): (Row, _)| {
            let Row { what, role, goals, .. } = row;
            Taken { what, role, goals, figures }
        };
        rows.into_iter().map(taken).collect()
    }
}

/// Runs what prints no figures, or none that are wanted.
pub(super) fn done(mut command: Command) -> Result<()> {
    said(&mut command).map(drop)
}

/// Runs one measurement.
pub(super) fn printed(command: &mut Command) -> Result<Figures> {
    let said = said(command)?;
    serde_json::from_str(&said).with_context(|| format!("no figures in {said:?}"))
}

/// What a program printed before it ended well.
fn said(command: &mut Command) -> Result<String> {
    let mut aside = tempfile::tempfile().context("cannot keep what a measurement says")?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(aside.try_clone()?);
    // The last line is to be what went wrong.
    command.env("RUST_BACKTRACE", "0");
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("not done after {} s", PATIENCE.as_secs());
        }
        tool::pause(Duration::from_millis(20));
    };
    let mut text = String::new();
    if status.success() {
        child.stdout.take().context("no output")?.read_to_string(&mut text)?;
        return Ok(text);
    }
    aside.seek(SeekFrom::Start(0))?;
    aside.read_to_string(&mut text)?;
    let mut told =
        text.lines().rev().filter(|line| !line.trim().is_empty() && !line.starts_with("note: "));
    let last = told.next();
    bail!("{status}: {}", last.unwrap_or("it said nothing").trim())
}

/// Brings a file, or all files of a folder, into the page cache.
fn warm(path: &Path) -> Result<()> {
    let unread = || format!("cannot read {}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(unread)? {
            warm(&entry?.path())?;
        }
        return Ok(());
    }
    let mut file = File::open(path).with_context(unread)?;
    io::copy(&mut file, &mut io::sink()).with_context(unread)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_fails_says_why_and_the_others_go_on() {
        let mut part = Part::default();
        let figures = r#"echo '{"bytes": 8, "seconds": 2, "cpu": 1, "beyond": 0}'"#;
        part.ours("good", shell(figures));
        part.peer("bad", Ok(shell("echo first >&2; echo 'no such loader' >&2; exit 3")));
        part.peer("absent", Err(anyhow::anyhow!("it has no wheel for this machine")));
        let taken = part.measure(2);
        let good = taken[0].figures.as_ref().unwrap();
        assert!(good.len() == 2 && good.iter().all(|one| one.seconds == 2.0), "{good:?}");
        let bad = taken[1].figures.as_ref().unwrap_err().to_string();
        assert!(bad.ends_with("3: no such loader"), "{bad}");
        let absent = taken[2].figures.as_ref().unwrap_err().to_string();
        assert_eq!(absent, "it has no wheel for this machine");
    }
}
