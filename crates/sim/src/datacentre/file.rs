//! The hardware's state on disk: what a killed process must not make hardware forget.
//!
//! One JSON line for each change of a machine, appended as it happens, so that even a kill between two
//! changes loses none; read back, the last line of a machine counts. When the file has grown to many
//! times what it says it is written anew beside itself and renamed. It is not flushed to the disk: a
//! power cut of the host that simulates is not simulated.

use super::truth::Truth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The first line of a file.
const HEADER: &str = "{\"seatrial\":\"hardware\",\"version\":1}";
/// A machine has a few kilobytes.
const MAX_LINE: usize = 1 << 20;
/// More than any site writes between two rewrites.
const MAX_FILE: u64 = 4 << 30;
/// Below this size a file is never written anew.
const SMALL: u64 = 4 << 20;
/// How many times its content a file may grow to.
const GROWTH: u64 = 4;

/// The file of the hardware's state cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the hardware's state in {}: {why}", file.display())]
pub struct JournalError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, and what to do.
    pub why: String,
}

#[derive(Serialize)]
struct LineOut<'a> {
    machine: &'a str,
    truth: &'a Truth,
}

#[derive(Deserialize)]
struct Line {
    machine: String,
    truth: Truth,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
    /// The last line of each machine.
    last: BTreeMap<String, Box<str>>,
    size: u64,
    content: u64,
}

impl Journal {
    /// Opens or makes the file, and gives what it says.
    pub(super) fn open(path: &Path) -> Result<(Self, BTreeMap<String, Truth>), JournalError> {
        let error = |why: String| JournalError { file: path.to_owned(), why };
        let mut kept = BTreeMap::new();
        let mut journal =
            Self { path: path.to_owned(), file: None, last: BTreeMap::new(), size: 0, content: 0 };
        match File::open(path) {
            Ok(file) => {
                let size = file.metadata().map_err(|e| error(e.to_string()))?.len();
                if size > MAX_FILE {
                    return Err(error(format!("is larger than {MAX_FILE} bytes; {REMEDY}")));
                }
                kept = read(&mut BufReader::new(file), &mut journal).map_err(error)?;
            }
            Err(none) if none.kind() == ErrorKind::NotFound => {}
            Err(other) => return Err(error(format!("cannot be read: {other}"))),
        }
        // Written anew at every start: a torn last line goes, and the file is as small as can be.
        journal.rewrite().map_err(|e| error(format!("cannot be written: {e}")))?;
        Ok((journal, kept))
    }

    /// Writes down how a machine is now. What cannot be written is told once and then left: the
    /// hardware itself goes on.
    pub(super) fn write(&mut self, machine: &str, truth: &Truth) {
        let Ok(line) = serde_json::to_string(&LineOut { machine, truth }) else { return };
        if self.last.get(machine).is_some_and(|last| **last == *line) {
            return;
        }
        let length = line.len() as u64 + 1;
        let before = self.last.insert(machine.to_owned(), line.clone().into_boxed_str());
        self.content += length;
        self.content -= before.map_or(0, |before| before.len() as u64 + 1);
        self.size += length;
        let Some(file) = &mut self.file else { return };
        let mut line = line;
        line.push('\n');
        let written = if self.size > SMALL.max(self.content * GROWTH) {
            self.rewrite()
        } else {
            file.write_all(line.as_bytes())
        };
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), %error, "the hardware's state is no longer written");
            self.file = None;
        }
    }

    /// Writes the last line of every machine into a new file and puts it in the old one's place.
    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let beside = self.path.with_file_name(name);
        let mut text = String::with_capacity(self.content as usize + HEADER.len() + 1);
        for line in std::iter::once(HEADER).chain(self.last.values().map(AsRef::as_ref)) {
            text.push_str(line);
            text.push('\n');
        }
        // Machines keep their keys in their memory, which is kept here.
        let mut new = OpenOptions::new();
        let mut new = new.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        new.set_permissions(fs::Permissions::from_mode(0o600))?;
        new.write_all(text.as_bytes())?;
        fs::rename(&beside, &self.path)?;
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        self.size = text.len() as u64;
        Ok(())
    }
}

const REMEDY: &str = "move it away to begin with new hardware";

/// Reads every line; the last may be torn.
fn read(file: &mut impl BufRead, journal: &mut Journal) -> Result<BTreeMap<String, Truth>, String> {
    let mut kept = BTreeMap::new();
    let mut torn = None;
    for number in 1_u64.. {
        let mut line = Vec::new();
        let mut bounded = std::io::Read::take(&mut *file, MAX_LINE as u64);
        let length =
            bounded.read_until(b'\n', &mut line).map_err(|e| format!("cannot be read: {e}"))?;
        if length == 0 {
            return Ok(kept);
        }
        if let Some(torn) = torn {
            return Err(format!("line {torn} is not the hardware's state; {REMEDY}"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if number == 1 {
            if text != HEADER {
                return Err(format!("is not a file of hardware's state; {REMEDY}"));
            }
            continue;
        }
        match serde_json::from_str::<Line>(text) {
            Ok(Line { machine, truth }) => {
                let before = journal.last.insert(machine.clone(), text.into());
                journal.content += text.len() as u64 + 1;
                journal.content -= before.map_or(0, |before| before.len() as u64 + 1);
                kept.insert(machine, truth);
            }
            Err(_) => torn = Some(number),
        }
    }
    Ok(kept)
}
