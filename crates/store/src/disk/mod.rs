//! The engine that survives: one file in a data directory, written by one thread.
//!
//! All state is in memory too, so reads touch no disk. Writes queue up for the writer, which
//! evaluates all that wait as one batch, makes them durable in one commit, and only then shows
//! them to readers, watchers and callers. If the commit fails, all of the batch fail and nothing of
//! it shows; reads go on, and so do writes once the disk takes them. It never compacts by itself,
//! and a file that has grown is reused, not shrunk.

mod backend;
mod directory;
mod file;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use futures::channel::oneshot;
use futures::future::BoxFuture;

use self::backend::Backend;
use self::directory::Directory;
use self::file::DataFile;
use self::writer::{Job, Writer};
use crate::engine::{Engine, Shared, Step};
use crate::mvcc::Mvcc;
use crate::{Error, Limits, Revision};

/// What it takes for a write to count as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives the machine: every commit is synced.
    #[default]
    Immediate,
    /// It survives the process: the system writes it back when it likes, and if the machine
    /// fails first, the file may be lost as a whole. For tests and simulation.
    Relaxed,
}

/// How to open a [`DiskStore`].
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    /// How large things may be.
    pub limits: Limits,
    /// When a write counts as durable.
    pub durability: Durability,
}

/// A store that outlives the process. Dropping it finishes what was queued and closes the file.
#[derive(Debug)]
pub struct DiskStore {
    shared: Arc<Shared>,
    /// `None` once it is being dropped.
    queue: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl DiskStore {
    /// Opens the store in a data directory, and makes both if there is nothing.
    pub fn open(directory: impl AsRef<Path>, options: DiskOptions) -> Result<Self, Error> {
        let mut directory = Directory::lock(directory.as_ref())?;
        if !directory.has_data()? {
            if directory.acknowledged() > 0 {
                let reason = "it is missing, although it was written before".to_owned();
                return Err(Error::Corrupt { path: directory.data(), reason });
            }
            directory.create(&Mvcc::default())?;
        }
        Self::start(directory, Backend::new(options.durability), options.limits)
    }

    fn start(directory: Directory, backend: Backend, limits: Limits) -> Result<Self, Error> {
        let path = directory.data();
        let file = DataFile::open(&path, &backend)?;
        let loaded = file.require(directory.acknowledged()).and_then(|()| file.load());
        let mut core = match loaded {
            Ok(core) => core,
            Err(error) => {
                file.close();
                return Err(error);
            }
        };
        let unseen = core.sweep();
        tracing::debug!(path = %path.display(), revision = core.revision().0, "store opened");
        let shared = Arc::new(Shared::new(core, limits));
        let (queue, jobs) = mpsc::channel();
        let writer = Writer::new(shared.clone(), directory, backend, file, unseen);
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&jobs))
            .map_err(|error| Error::Io {
                action: "start the writer of",
                path,
                source: Arc::new(error),
            })?;
        Ok(Self { shared, queue: Some(queue), writer: Some(writer) })
    }

    fn submit<T: Send + 'static>(
        &self,
        job: Job,
        done: oneshot::Receiver<Result<T, Error>>,
    ) -> BoxFuture<'_, Result<T, Error>> {
        Box::pin(async move {
            let queue = self.queue.as_ref().ok_or(Error::Closed)?;
            queue.send(job).map_err(|_| Error::Closed)?;
            done.await.unwrap_or(Err(Error::Closed))
        })
    }
}

impl Engine for DiskStore {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn write<T: Send + 'static>(&self, step: impl Step<T>) -> BoxFuture<'_, Result<T, Error>> {
        let (reply, done) = oneshot::channel();
        let job = Job::Step(Box::new(move |core, overlay| {
            let staged = step(core, overlay);
            Box::new(move |durable| {
                let outcome = staged.and_then(|staged| durable.map(|()| staged));
                // Whoever waited may have gone.
                let _ = reply.send(outcome);
            })
        }));
        self.submit(job, done)
    }

    fn forget(&self, to: Revision) -> BoxFuture<'_, Result<(), Error>> {
        let (reply, done) = oneshot::channel();
        self.submit(Job::Compact { to, reply }, done)
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
        self.shared.close();
    }
}

/// Makes a data directory that holds `core`.
pub(crate) fn create(directory: &Path, core: &Mvcc) -> Result<(), Error> {
    Directory::lock(directory)?.create(core)
}
