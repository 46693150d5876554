//! `up --detach`: the same in a process of its own, which is left alone once it is ready.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cmd::Outcome;
use crate::site::display::{Display, Said};

/// Why it did not become ready.
#[derive(Debug, thiserror::Error)]
enum DetachError {
    #[error("cannot start a process of its own")]
    Start(#[source] std::io::Error),
    #[error("cannot write {}", path.display())]
    Log { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Ended(String),
}

/// Starts this program anew with other arguments, shows what it says, and returns when it is ready.
pub(crate) fn start(directory: &Path, arguments: &[String], mut display: Display) -> Outcome {
    let path = directory.join("up.log");
    let log = std::fs::create_dir_all(directory).and_then(|()| std::fs::File::create(&path));
    let log = log.map_err(|source| DetachError::Log { path: path.clone(), source })?;
    let program = std::env::current_exe().map_err(DetachError::Start)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // A Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(DetachError::Start)?;
    let said = child.stdout.take().map(BufReader::new);
    for line in said.into_iter().flat_map(BufReader::lines).map_while(Result::ok) {
        let Ok(said) = serde_json::from_str::<Said>(&line) else { continue };
        let ready = matches!(said, Said::Ready { .. });
        match said {
            Said::Failed { why } => return Err(DetachError::Ended(why).into()),
            said => display.show(&said)?,
        }
        if ready {
            return Ok(());
        }
    }
    child.wait().map_err(DetachError::Start)?;
    let log = std::fs::read_to_string(&path).unwrap_or_default();
    let last = log.lines().last().unwrap_or("it ended without a word");
    Err(DetachError::Ended(last.trim_start_matches("seatrial: ").to_owned()).into())
}
