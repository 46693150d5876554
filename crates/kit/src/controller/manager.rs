//! All controllers of a process, and the watches that they share.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::Context;
use super::events::Recorder;
use super::lease::{Candidate, Election, Outcome, lead};
use super::metrics::Metrics;
use super::reflector::{Reflectors, Surroundings};
use super::wire::Failure;
use super::worker::{Run, Work, Worker};
use super::{Controller, Declaration, Wiring};
use crate::clock::Clock;
use crate::ids::Ids;

/// How long a watch lasts on the wall clock before it is taken up anew.
pub const WATCH_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// The same in virtual time, where each end of a watch costs a wake: a server's longest.
pub const VIRTUAL_WATCH_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How a manager is made.
#[derive(Clone)]
pub struct Options {
    /// Lists and watches for all controllers.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where jitter and names come from.
    pub ids: Ids,
    /// How long a watch lasts; [`WATCH_LIFETIME`], or [`VIRTUAL_WATCH_LIFETIME`] on a held clock.
    pub watch_lifetime: Duration,
    /// What this process calls itself in Events.
    pub instance: String,
}

/// See the module.
pub struct Manager {
    options: Options,
    reflectors: Reflectors,
    metrics: Metrics,
    workers: Vec<Arc<dyn Run>>,
}

impl Manager {
    /// A manager without controllers.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            reflectors: Reflectors::default(),
            metrics: Metrics::default(),
            workers: Vec::new(),
        }
    }

    /// A manager without controllers beside this one, whose metrics are told with this one's: for
    /// what runs in every process, whichever of them leads. It watches by itself.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            options: self.options.clone(),
            reflectors: Reflectors::default(),
            metrics: self.metrics.clone(),
            workers: Vec::new(),
        }
    }

    /// Adds a controller that acts by this client: one with the controller's own identity.
    pub fn add<C: Controller>(&mut self, client: Client) -> &mut Self {
        self.add_with::<C>(client, C::Settings::default())
    }

    /// The same, with settings.
    pub fn add_with<C: Controller>(&mut self, client: Client, settings: C::Settings) -> &mut Self {
        let (controller, wiring) = wire::<C>(&self.reflectors, settings);
        let manager = wiring.declaration.manager();
        wiring.declaration.measures.iter().for_each(|measure| self.metrics.show(measure));
        let context = Context {
            client,
            clock: self.options.clock.clone(),
            ids: self.options.ids.clone(),
            reflectors: self.reflectors.clone(),
            recorder: Recorder::new(manager.clone(), self.options.instance.clone()),
            manager,
            name: C::NAME,
            metrics: self.metrics.clone(),
        };
        let worker = Worker::new(controller, context, wiring, self.metrics.clone());
        self.workers.push(Arc::new(worker));
        self
    }

    /// What the added controllers declare.
    pub fn declarations(&self) -> Vec<Declaration> {
        self.workers.iter().map(|worker| worker.declaration().clone()).collect()
    }

    /// The metrics, which outlive the manager.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// A handle by which others wait until nothing is left to do.
    pub fn handle(&self) -> Handle {
        Handle {
            client: self.options.client.clone(),
            reflectors: self.reflectors.clone(),
            workers: self.workers.clone(),
        }
    }

    /// Runs every controller until `stop` becomes true, and ends the reconciles that run.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let surroundings = Surroundings {
            client: self.options.client,
            ids: self.options.ids,
            metrics: self.metrics,
            lifetime: self.options.watch_lifetime,
        };
        let mut workers = JoinSet::new();
        for worker in self.workers {
            workers.spawn(worker.run(stop.clone()));
        }
        let mut opened = self.reflectors.start();
        // Dropped at the end, and the watches with it.
        let mut watches = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stopping| *stopping) => break,
                Some(reflector) = opened.recv() => {
                    watches.spawn(reflector.run(surroundings.clone()));
                }
                Some(_) = watches.join_next() => {}
            }
        }
        while workers.join_next().await.is_some() {}
    }

    /// The same, while this process leads.
    pub async fn run_elected(self, election: Election, stop: watch::Receiver<bool>) -> Outcome {
        let (client, clock) = (self.options.client.clone(), self.options.clock.clone());
        let candidate = Candidate::new(client, election, clock, self.options.ids.clone());
        let metrics = self.metrics.clone();
        let leader = metrics.clone();
        let outcome = lead(candidate, stop, |ending| async move {
            leader.leads(true);
            tracing::info!("this process leads");
            self.run(ending).await;
        })
        .await;
        metrics.leads(false);
        outcome
    }

    /// Runs in the background until it is stopped or dropped.
    pub fn start(self) -> Running {
        let (stop, stopping) = watch::channel(false);
        let handle = self.handle();
        let metrics = self.metrics.clone();
        let mut task = JoinSet::new();
        task.spawn(self.run(stopping));
        Running { handle, metrics, stop, task }
    }
}

/// What a controller declares, without running it.
pub fn declaration<C: Controller>() -> Declaration {
    wire::<C>(&Reflectors::default(), C::Settings::default()).1.declaration
}

fn wire<C: Controller>(reflectors: &Reflectors, settings: C::Settings) -> (C, Wiring<C::Key>) {
    let work = Arc::new(Work::new(reflectors.activity()));
    let declaration = Declaration::new(C::NAME);
    let mut wiring =
        Wiring { declaration, reflectors: reflectors.clone(), work, synced: Vec::new() };
    (C::wire(settings, &mut wiring), wiring)
}

/// Waits on a manager's work. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    client: Client,
    reflectors: Reflectors,
    workers: Vec<Arc<dyn Run>>,
}

/// The API could not be asked whether the caches are up to date.
#[derive(Debug, thiserror::Error)]
#[error("cannot compare a cache with the server")]
pub struct Compare(#[source] Failure);

impl Handle {
    /// Returns when nothing is left to do: every cache holds what the server has, no key waits, is
    /// worked on or is to be tried again. Deadlines of plans may lie ahead. Nothing is slept on: each
    /// step waits for a change, so this is exact, and costs one list of each watched kind.
    ///
    /// # Errors
    /// If a list fails.
    pub async fn until_idle(&self) -> Result<(), Compare> {
        let activity = self.reflectors.activity();
        loop {
            let seen = activity.count();
            let reflectors = self.reflectors.all();
            let idle = self.workers.iter().all(|worker| worker.is_idle());
            if !idle || !reflectors.iter().all(|reflector| reflector.is_synced()) {
                activity.changes_from(seen).await;
                continue;
            }
            let mut behind = false;
            for reflector in reflectors {
                behind |= !reflector.caught_up(self.client.clone()).await.map_err(Compare)?;
            }
            if activity.count() != seen {
                continue;
            }
            if !behind {
                return Ok(());
            }
            activity.changes_from(seen).await;
        }
    }
}

/// A manager that runs in the background.
pub struct Running {
    handle: Handle,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    task: JoinSet<()>,
}

impl Running {
    /// See [`Handle::until_idle`].
    ///
    /// # Errors
    /// If a list fails.
    pub async fn until_idle(&self) -> Result<(), Compare> {
        self.handle.until_idle().await
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Stops in good order.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.task.join_next().await.is_some() {}
    }
}
