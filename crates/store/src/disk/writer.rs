//! The one thread that writes: takes what waits, evaluates it as a batch, makes it durable, shows
//! it, answers.
//!
//! redb gives up on a file for good at the first failed operation. The writer then lets go of it
//! and, for the next batch, opens it anew and undoes what the failed commit may have left, so that
//! the file holds what the store has shown and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use futures::channel::oneshot;

use super::backend::Backend;
use super::directory::Directory;
use super::file::{DataFile, Head};
use crate::engine::Shared;
use crate::mvcc::{Changes, Mvcc, Overlay, Position};
use crate::{Error, Revision};

/// A batch is full with so many jobs, or so many bytes to write.
const BATCH_JOBS: usize = 1024;
const BATCH_BYTES: usize = 16 << 20;

/// Records that history no longer needs, removed with each commit.
const SWEEP: usize = 1024;

type Step = Box<dyn FnOnce(&Mvcc, &mut Overlay) -> Reply + Send>;
type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Something to write.
pub(super) enum Job {
    /// Stages changes; what it returns is told whether they lasted.
    Step(Step),
    /// Forgets history.
    Compact { to: Revision, reply: oneshot::Sender<Result<(), Error>> },
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    directory: Directory,
    backend: Backend,
    /// `None` after a failure, until it is open again.
    file: Option<DataFile>,
    /// What the file holds if the last commit that succeeded was the last.
    head: Head,
    /// Records to remove from the file.
    unseen: VecDeque<Position>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        directory: Directory,
        backend: Backend,
        file: DataFile,
        unseen: Vec<Position>,
    ) -> Self {
        let head = file.head();
        Self { shared, directory, backend, file: Some(file), head, unseen: unseen.into() }
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(first) = self.wait(jobs) {
            let mut next = Some(first);
            while let Some(job) = next.take() {
                match job {
                    Job::Step(step) => next = self.batch(step, jobs),
                    Job::Compact { to, reply } => {
                        // Whoever waited may have gone.
                        let _ = reply.send(self.compact(to));
                    }
                }
            }
        }
        if let Some(file) = self.file {
            file.close();
        }
    }

    /// Waits for a job, and tidies the file meanwhile.
    fn wait(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        while self.file.is_some() && !self.unseen.is_empty() {
            match jobs.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    let nothing = Overlay::new(&self.shared.core()).finish();
                    if let Err(error) = self.persist(&nothing) {
                        tracing::warn!(%error, "cannot remove old records");
                    }
                }
            }
        }
        jobs.recv().ok()
    }

    /// Writes what waits, from `step` on; returns a job that cannot be part of a batch.
    fn batch(&mut self, step: Step, jobs: &Receiver<Job>) -> Option<Job> {
        let mut replies = Vec::new();
        let mut other = None;
        let core = self.shared.core();
        let mut overlay = Overlay::new(&core);
        let mut next = Some(step);
        while let Some(step) = next.take() {
            replies.push(step(&core, &mut overlay));
            if replies.len() >= BATCH_JOBS || overlay.bytes() >= BATCH_BYTES {
                break;
            }
            match jobs.try_recv() {
                Ok(Job::Step(step)) => next = Some(step),
                Ok(job) => other = Some(job),
                Err(_) => {}
            }
        }
        drop(core);
        let changes = overlay.finish();
        let written = if changes.is_empty() { Ok(()) } else { self.persist(&changes) };
        if let Err(error) = &written {
            tracing::error!(%error, transactions = replies.len(), "cannot write");
        } else {
            self.shared.apply(self.shared.core_mut(), changes);
        }
        for reply in replies {
            reply(written.clone());
        }
        other
    }

    fn compact(&mut self, to: Revision) -> Result<(), Error> {
        self.shared.core().compactable(to)?;
        self.commit(|file, unseen| file.compact(to, unseen))?;
        self.unseen.extend(self.shared.compact(to));
        Ok(())
    }

    fn persist(&mut self, changes: &Changes) -> Result<(), Error> {
        self.commit(|file, unseen| file.write(changes, unseen))
    }

    fn commit(
        &mut self,
        write: impl FnOnce(&mut DataFile, &mut dyn Iterator<Item = Position>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.reopen()?,
        };
        let swept = self.unseen.len().min(SWEEP);
        let done = write(&mut file, &mut self.unseen.range(..swept).copied());
        match &done {
            Ok(()) => {
                self.unseen.drain(..swept);
                self.head = file.head();
                self.file = Some(file);
                // Without the note the commit stands all the same.
                let _ = self.directory.acknowledge(self.head.commit);
            }
            Err(_) => file.close(),
        }
        done
    }

    fn reopen(&mut self) -> Result<DataFile, Error> {
        let mut file = DataFile::open(&self.directory.data(), &self.backend)?;
        if file.head() != self.head {
            // A compaction that reached the file cannot be undone, only be completed.
            let compacted = file.head().compacted;
            if compacted > self.shared.core().compacted() {
                self.unseen.extend(self.shared.compact(compacted));
            }
            let aligned =
                file.require(self.head.commit).and_then(|()| file.align(&self.shared.core()));
            if let Err(error) = aligned {
                file.close();
                return Err(error);
            }
        }
        tracing::info!(path = %self.directory.data().display(), "the data file is open again");
        Ok(file)
    }
}
