//! Where audit events go: a file of JSON lines, or whatever a program gives that runs a server.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use serde_json::Value;

/// How many events may wait to be written; more are dropped. A kube-apiserver's number.
const WAITING: usize = 10_000;

/// Takes audit events.
pub trait AuditSink: Send + Sync {
    /// Takes an event, or drops it: it must do either at once.
    fn take(&self, event: Value);
}

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("open the audit log {}", path.display())]
pub struct OpenAuditFile {
    /// Which file.
    pub path: PathBuf,
    /// Why not.
    pub source: std::io::Error,
}

/// A file of one JSON object a line, readable by its owner alone. A thread of its own writes it, so
/// that a slow disk costs events and never requests; what is dropped is counted and logged.
#[derive(Debug)]
pub struct AuditFile {
    lines: Option<SyncSender<Value>>,
    writer: Option<JoinHandle<()>>,
    dropped: AtomicU64,
}

impl AuditFile {
    /// Opens a file, to write behind what is there.
    pub fn open(path: &Path) -> Result<Self, OpenAuditFile> {
        let failed = |source| OpenAuditFile { path: path.to_owned(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        let (lines, events) = sync_channel(WAITING);
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(file, &events))
            .map_err(failed)?;
        Ok(Self { lines: Some(lines), writer: Some(writer), dropped: AtomicU64::new(0) })
    }

    /// How many events were dropped because the file was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl AuditSink for AuditFile {
    fn take(&self, event: Value) {
        let Some(lines) = &self.lines else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = lines.try_send(event) {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::error!(dropped, "audit events are lost: the log takes them too slowly");
            }
        }
    }
}

impl Drop for AuditFile {
    /// Waits until what was taken is written.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the audit log has panicked");
        }
    }
}

fn write(file: File, events: &Receiver<Value>) {
    let mut out = BufWriter::new(file);
    while let Ok(event) = events.recv() {
        let mut next = Some(event);
        while let Some(event) = next {
            if let Err(error) = writeln!(out, "{event}") {
                tracing::error!(%error, "cannot write the audit log");
            }
            next = events.try_recv().ok();
        }
        // Nobody waits any more: what is written is now to be seen.
        if let Err(error) = out.flush() {
            tracing::error!(%error, "cannot write the audit log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_taken_is_in_the_file_when_it_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        for round in 0..2 {
            let file = AuditFile::open(&path).unwrap();
            for n in 0..500 {
                file.take(json!({"round": round, "n": n}));
            }
            assert_eq!(file.dropped(), 0);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 1000);
        assert_eq!((&lines[999]["round"], &lines[999]["n"]), (&json!(1), &json!(499)));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_writer_that_hangs_costs_events_and_not_requests() {
        let (lines, events) = sync_channel(1);
        let file = AuditFile { lines: Some(lines), writer: None, dropped: AtomicU64::new(0) };
        for n in 0..5 {
            file.take(json!(n));
        }
        assert_eq!(file.dropped(), 4);
        drop(events);
    }
}
