//! One controller at work: keys from its queue, each observed, planned and applied.
//!
//! Guarantees: at most the declared number of reconciles at once, never two of one key; a panic ends
//! one reconcile and nothing else; on a stop no reconcile is begun and those that run are finished.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::activity::Activity;
use super::context::Context;
use super::error::{Class, Error};
use super::key::Key;
use super::metrics::Metrics;
use super::queue::{Done, Queue, Taken};
use super::wiring::Wiring;
use super::{Controller, Wake};

/// A deadline further away than this is looked at again before: timers have a far end.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// A queue that several tasks share.
pub(super) struct Work<K> {
    queue: Mutex<Queue<K>>,
    added: Notify,
    activity: Activity,
}

impl<K: Key> Work<K> {
    pub(super) fn new(activity: Activity) -> Self {
        Self { queue: Mutex::new(Queue::new()), added: Notify::new(), activity }
    }

    pub(super) fn add(&self, key: K) {
        if self.queue().add(key) {
            self.added.notify_one();
            self.activity.bump();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller that is wired and can run.
pub(super) trait Run: Send + Sync {
    fn declaration(&self) -> &super::Declaration;
    fn is_idle(&self) -> bool;
    fn run(self: Arc<Self>, stop: watch::Receiver<bool>) -> BoxFuture<'static, ()>;
}

pub(super) struct Worker<C: Controller> {
    controller: C,
    context: Context,
    wiring: Wiring<C::Key>,
    metrics: Metrics,
}

impl<C: Controller> Worker<C> {
    pub(super) fn new(
        controller: C,
        context: Context,
        wiring: Wiring<C::Key>,
        metrics: Metrics,
    ) -> Self {
        Self { controller, context, wiring, metrics }
    }

    async fn work(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut running: JoinSet<Result<Wake, Error>> = JoinSet::new();
        // What a task works on, for tasks that end without saying so.
        let mut keys: Vec<(Id, Taken<C::Key>)> = Vec::new();
        self.wait_for_caches(&mut stop).await;
        loop {
            if *stop.borrow() {
                break;
            }
            let deadline = self.begin(&mut running, &mut keys);
            tokio::select! {
                biased;
                _ = stop.wait_for(|stopping| *stopping) => break,
                Some(ended) = running.join_next_with_id() => self.end(ended, &mut keys),
                () = self.wiring.work.added.notified() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        while let Some(ended) = running.join_next_with_id().await {
            self.end(ended, &mut keys);
        }
    }

    /// Starts what may be started; says when the next delayed key is due.
    fn begin(
        self: &Arc<Self>,
        running: &mut JoinSet<Result<Wake, Error>>,
        keys: &mut Vec<(Id, Taken<C::Key>)>,
    ) -> Instant {
        let (now, limit) = (Instant::now(), self.wiring.declaration.concurrency);
        let mut queue = self.wiring.work.queue();
        for late in queue.advance(now) {
            self.metrics.woke(C::NAME, late);
        }
        while running.len() < limit
            && let Some(taken) = queue.take()
        {
            if taken.failures > 0 {
                self.metrics.retried(C::NAME);
            }
            let (this, key) = (Arc::clone(self), taken.key.clone());
            let task = running.spawn(async move { this.reconcile(&key).await });
            keys.push((task.id(), taken));
        }
        self.metrics.depth(C::NAME, queue.depth());
        queue.next_deadline().unwrap_or(now + FAR).min(now + FAR)
    }

    async fn reconcile(&self, key: &C::Key) -> Result<Wake, Error> {
        let began = Instant::now();
        let outcome = async {
            let Some(observed) = self.controller.observe(&self.context, key).await? else {
                return Ok(Wake::Never);
            };
            let plan = C::plan(&observed);
            self.controller.apply(&self.context, key, plan).await
        };
        let outcome = outcome.await;
        let failed = outcome.as_ref().err().map(Error::class);
        self.metrics.reconciled(C::NAME, failed, began.elapsed());
        outcome
    }

    fn end(
        &self,
        ended: Result<(Id, Result<Wake, Error>), JoinError>,
        keys: &mut Vec<(Id, Taken<C::Key>)>,
    ) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(at) = keys.iter().position(|(known, _)| *known == id) else { return };
        let (_, Taken { key, failures }) = keys.swap_remove(at);
        let result = match ended {
            Ok((_, result)) => result,
            Err(error) => {
                self.metrics.panicked(C::NAME);
                self.metrics.reconciled(C::NAME, Some(Class::Bug), Duration::ZERO);
                Err(Error::bug("a reconcile panicked", error))
            }
        };
        let done = match result {
            Ok(wake) => Done::Settled(self.instant(wake)),
            Err(error) => {
                self.report(&key, &error, failures);
                match error.class().delay(failures, &self.context.ids) {
                    Some(delay) => Done::Retry(Instant::now() + delay),
                    None => Done::AwaitChange,
                }
            }
        };
        self.wiring.work.queue().done(&key, done);
        self.wiring.work.activity.bump();
    }

    fn report(&self, key: &C::Key, error: &Error, failures: u32) {
        let (controller, class) = (C::NAME, error.class().as_str());
        let chain = crate::error::chain(error);
        match error.class() {
            Class::Bug => {
                tracing::error!(controller, %key, class, failures, error = %chain, "a reconcile failed");
            }
            Class::Transient | Class::Invalid => {
                tracing::warn!(controller, %key, class, failures, error = %chain, "a reconcile failed");
            }
            Class::NotReady => {
                tracing::debug!(controller, %key, class, failures, error = %chain, "a reconcile waits");
            }
        }
    }

    /// The moment of a wake on the clock of timers, never before it on the wall.
    fn instant(&self, wake: Wake) -> Option<Instant> {
        let at = match wake {
            Wake::Never => return None,
            Wake::At(at) => at,
        };
        let ahead = at.duration_since(self.context.now()).max(jiff::SignedDuration::ZERO);
        Some(Instant::now() + Duration::try_from(ahead).unwrap_or(FAR).min(FAR))
    }

    async fn wait_for_caches(&self, stop: &mut watch::Receiver<bool>) {
        let activity = &self.wiring.work.activity;
        loop {
            let seen = activity.count();
            if self.wiring.synced.iter().all(|synced| synced()) {
                return;
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stopping| *stopping) => return,
                () = activity.changes_from(seen) => {}
            }
        }
    }
}

impl<C: Controller> Run for Worker<C> {
    fn declaration(&self) -> &super::Declaration {
        &self.wiring.declaration
    }

    fn is_idle(&self) -> bool {
        self.wiring.work.queue().is_idle()
    }

    fn run(self: Arc<Self>, stop: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
        Box::pin(self.work(stop))
    }
}
