//! kubectl of two minor versions, typed into our server and into the real one, and what each said
//! compared word for word.
//!
//! Guarantees: both servers are asked the same, in the same order, by the same program; a difference
//! is an error unless it is listed with its reason, and so is a listed one that is gone. No
//! controller runs, so nothing happens that the script does not do: what differs is the server's.

mod script;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs, thread};

use anyhow::{Context, Result, bail, ensure};

use self::script::{Step, Tone};
use super::session::Session;
use crate::corpus::normalise::Normaliser;
use crate::upstream;

const SCRIPT: &str = include_str!("kubectl/script.txt");

/// Commands that our server answers otherwise, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("kubectl version", "our version ends in +seatrial"),
    ("kubectl api-versions", "kinds without their rules are absent (corpus/deviations.yaml)"),
    ("kubectl api-resources --sort-by=name -o wide", "the same kinds"),
    ("kubectl get all", "our server publishes no Service of itself"),
    ("kubectl logs p", "our server connects to no kubelet, and says so; upstream tries"),
];

/// What one command came to, as it is compared.
#[derive(PartialEq)]
struct Said {
    code: Option<i32>,
    out: String,
    complaints: String,
}

/// Types the script with each kubectl into both servers.
pub(crate) fn check(ours: &mut Session) -> Result<()> {
    let steps = script::parse(SCRIPT)?;
    let upstream = Session::start_upstream(&ours.program, &ours.dir.join("reference"), false)?;
    let same_age = upstream::binaries()?.dir.join("kubectl");
    let mut wrong = String::new();
    let mut differed = BTreeSet::new();
    for (name, program) in [("same", same_age), ("older", upstream::older_kubectl()?)] {
        let bin = ours.dir.join(format!("kubectl-{name}"));
        fs::create_dir(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
        symlink(&program, bin.join("kubectl")).context("cannot link kubectl")?;
        let (here, there) = thread::scope(|scope| {
            let there = scope.spawn(|| play(&upstream, &steps, &bin));
            (play(ours, &steps, &bin), there.join())
        });
        let there = there.ok().context("the reference's transcript ended in a panic")?;
        let (here, there) = (here.context("our server")?, there.context("the reference")?);
        for ((step, here), there) in steps.iter().zip(&here).zip(&there) {
            if here == there {
                continue;
            }
            differed.insert(step.command.as_str());
            if !DIFFERENCES.iter().any(|(command, _)| *command == step.command) {
                write!(
                    wrong,
                    "\nkubectl of the {name} age: {}\n{}",
                    step.command,
                    lines(there, here)
                )?;
            }
        }
        let version =
            here.first().map(|said| said.out.lines().next().unwrap_or_default().to_owned());
        writeln!(io::stdout(), "  {} steps: {}", steps.len(), version.unwrap_or_default())?;
    }
    ensure!(wrong.is_empty(), "the servers differ (- the reference, + ours):{wrong}");
    for (command, _) in DIFFERENCES {
        ensure!(differed.contains(command), "`{command}` no longer differs: take it off the list");
    }
    Ok(())
}

/// One server's transcript.
fn play(session: &Session, steps: &[Step], bin: &Path) -> Result<Vec<Said>> {
    let mut normaliser = Normaliser::default();
    steps
        .iter()
        .map(|step| {
            let said = match step.tone {
                Tone::Compare => type_(session, step, bin)?,
                Tone::Await => {
                    session.until(&step.command, || {
                        let said = type_(session, step, bin)?;
                        ensure!(said.code == Some(0), "{}", said.complaints);
                        Ok(())
                    })?;
                    return Ok(Said {
                        code: Some(0),
                        out: String::new(),
                        complaints: String::new(),
                    });
                }
            };
            Ok(Said {
                code: said.code,
                out: normaliser.transcript(&said.out),
                complaints: normaliser.transcript(&said.complaints),
            })
        })
        .collect()
}

/// Types one command into a shell whose kubectl this is.
fn type_(session: &Session, step: &Step, bin: &Path) -> Result<Said> {
    let rest = env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(PathBuf::from(bin)).chain(env::split_paths(&rest));
    let mut command = session.command("sh");
    command.args(["-c", &step.command]).env("PATH", env::join_paths(paths)?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start sh")?;
    let mut stdin = child.stdin.take().context("sh has no input")?;
    match stdin.write_all(step.input.as_bytes()) {
        // It may refuse its flags before it reads.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => bail!(error),
        _ => drop(stdin),
    }
    let output = child.wait_with_output().context("sh")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said {
        code: output.status.code(),
        out: text(&output.stdout),
        complaints: text(&output.stderr),
    })
}

/// The lines that only one of two transcripts has.
fn lines(there: &Said, here: &Said) -> String {
    let mut text = String::new();
    let list = |said: &Said| {
        let all = format!("exit {:?}\n{}{}", said.code, said.out, said.complaints);
        all.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (there, here) = (list(there), list(here));
    for (mark, these, others) in [('-', &there, &here), ('+', &here, &there)] {
        for line in these.iter().filter(|line| !others.contains(line)) {
            text.push_str(&format!("  {mark} {line}\n"));
        }
    }
    if text.is_empty() { "  the same lines in another order\n".to_owned() } else { text }
}
