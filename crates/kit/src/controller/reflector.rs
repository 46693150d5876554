//! One list and one watch per kind and selector, however many controllers ask for it.
//!
//! Guarantees: a watch that ends is taken up where it ended, without a list; a revision that the
//! server has forgotten (410) leads to a new list, and what was deleted in between is noticed; a
//! failure is tried again with growing, spread delays. Where the server streams lists
//! (`sendInitialEvents`) they are streamed. Nothing here ticks: a quiet watch wakes only when the
//! server ends it.

use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::Activity;
use super::cache::{Cache, Shared, Watchable};
use super::error::jitter;
use super::key::ObjectKey;
use super::metrics::Metrics;
use super::wire::{Event, Failure, Lines, Target};
use crate::ids::Ids;

/// The first and the longest delay after a failure; client-go's.
const RETRY: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A server may be late by so much with the end of a watch; then the connection is dead.
const GRACE: Duration = Duration::from_secs(30);

/// What a reflector needs of its surroundings.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) client: Client,
    pub(super) ids: Ids,
    pub(super) metrics: Metrics,
    pub(super) lifetime: Duration,
}

/// A reflector of some kind.
pub(super) trait Reflect: Send + Sync {
    fn is_synced(&self) -> bool;
    /// Lists and watches until it is told to stop.
    fn run(self: Arc<Self>, surroundings: Surroundings) -> BoxFuture<'static, ()>;
    /// Whether the cache holds exactly what the server has now.
    fn caught_up(self: Arc<Self>, client: Client) -> BoxFuture<'static, Result<bool, Failure>>;
    /// Takes what a write was answered.
    fn note(&self, object: &(dyn Any + Send + Sync));
    fn stop(&self);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

struct Reflector<K> {
    target: Target,
    shared: Arc<Shared<K>>,
    prune: Prune<K>,
    stop: Notify,
}

/// Takes from an object what nobody reads, before it is kept.
pub(super) type Prune<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

impl<K: Watchable> Reflect for Reflector<K> {
    fn is_synced(&self) -> bool {
        Cache(Arc::clone(&self.shared)).is_synced()
    }

    fn run(self: Arc<Self>, surroundings: Surroundings) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut run = Run {
                reflector: &self,
                streaming: true,
                revision: None,
                failures: 0,
                surroundings: &surroundings,
            };
            let forever = async {
                loop {
                    run.once().await;
                }
            };
            tokio::select! {
                biased;
                () = self.stop.notified() => {}
                () = forever => {}
            }
        })
    }

    fn caught_up(self: Arc<Self>, client: Client) -> BoxFuture<'static, Result<bool, Failure>> {
        Box::pin(async move {
            let theirs = self.target.revisions(&client).await?;
            Ok(self.is_synced() && theirs == self.shared.revisions())
        })
    }

    fn note(&self, object: &(dyn Any + Send + Sync)) {
        // A selector's answer to whether the object belongs here is the server's to give.
        if self.target.labels.is_empty() && self.target.fields.is_empty() && self.is_synced() {
            self.shared.note(object, |object| (self.prune)(object));
        }
    }

    fn stop(&self) {
        self.stop.notify_one();
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

struct Run<'a, K> {
    reflector: &'a Reflector<K>,
    streaming: bool,
    revision: Option<String>,
    failures: u32,
    surroundings: &'a Surroundings,
}

impl<K: Watchable> Run<'_, K> {
    /// A list if one is due, then a watch until it ends.
    async fn once(&mut self) {
        let began = Instant::now();
        let lifetime = self.surroundings.lifetime;
        let outcome = tokio::time::timeout(lifetime + GRACE, self.list_and_watch()).await;
        let target = &self.reflector.target;
        let metrics = &self.surroundings.metrics;
        match outcome {
            // An end that comes at once, again and again, must not become a busy loop.
            Ok(Ok(())) if began.elapsed() >= Duration::from_secs(1) => self.failures = 0,
            Ok(Ok(())) => self.pause().await,
            Ok(Err(Failure::NoStreaming)) => self.streaming = false,
            Ok(Err(Failure::Expired)) => {
                metrics.watch_restarted(&target.plural, "expired");
                self.revision = None;
                self.pause().await;
            }
            Ok(Err(failure)) => {
                metrics.watch_restarted(&target.plural, "failed");
                let error = crate::error::chain(&failure).to_string();
                tracing::warn!(resource = %target.plural, %error, "a watch failed");
                self.pause().await;
            }
            Err(_) => metrics.watch_restarted(&target.plural, "silent"),
        }
    }

    async fn pause(&mut self) {
        let exact = RETRY.0.saturating_mul(1 << self.failures.min(10)).min(RETRY.1);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(jitter(exact, &self.surroundings.ids)).await;
    }

    async fn list_and_watch(&mut self) -> Result<(), Failure> {
        let (client, lifetime) = (&self.surroundings.client, self.surroundings.lifetime);
        let target = &self.reflector.target;
        let mut lines = match &self.revision {
            Some(revision) => target.watch(client, Some(revision), lifetime).await?,
            None if self.streaming => {
                let mut lines = target.watch(client, None, lifetime).await?;
                self.initial(&mut lines).await?;
                lines
            }
            None => {
                let listed = target.list::<K>(client).await?;
                let revision = listed.revision;
                let broken =
                    listed.broken.into_iter().map(|(meta, error)| self.broken(&meta, &error));
                let broken = broken.collect();
                self.replace(listed.good, broken, &revision);
                target.watch(client, Some(&revision), lifetime).await?
            }
        };
        while let Some((event, revision)) = lines.next::<K>().await? {
            self.reflector.shared.reached(&revision);
            match event {
                Event::Put(object) => self.reflector.shared.put(self.pruned(object)),
                Event::Deleted(meta) => self.reflector.shared.delete(&meta),
                Event::Broken(meta, error) => {
                    let (key, revision) = self.broken(&meta, &error);
                    self.reflector.shared.broken(key, revision);
                }
                Event::Bookmark { .. } => {}
            }
            if !revision.is_empty() {
                self.revision = Some(revision);
            }
            self.failures = 0;
        }
        Ok(())
    }

    /// The list at the beginning of a streaming watch.
    async fn initial(&mut self, lines: &mut Lines) -> Result<(), Failure> {
        let (mut good, mut bad) = (Vec::new(), BTreeMap::new());
        while let Some((event, revision)) = lines.next::<K>().await? {
            match event {
                Event::Put(object) => good.push(object),
                Event::Broken(meta, error) => {
                    bad.extend([self.broken(&meta, &error)]);
                }
                Event::Bookmark { ends_initial: true } => {
                    self.replace(good, bad, &revision);
                    return Ok(());
                }
                // An older server ignores what it does not know and sends no such bookmark.
                Event::Bookmark { .. } | Event::Deleted(_) => return Err(Failure::NoStreaming),
            }
        }
        Err(Failure::NoStreaming)
    }

    fn replace(&mut self, good: Vec<K>, broken: BTreeMap<ObjectKey, String>, revision: &str) {
        let good = good.into_iter().map(|object| self.pruned(object)).collect();
        self.reflector.shared.replace(good, broken, revision);
        self.revision = Some(revision.to_owned());
        self.surroundings.metrics.listed(&self.reflector.target.plural);
    }

    fn pruned(&self, mut object: K) -> K {
        (self.reflector.prune)(&mut object);
        object
    }

    fn broken(&self, meta: &ObjectMeta, error: &serde_json::Error) -> (ObjectKey, String) {
        let key = ObjectKey::of(meta);
        let resource = &self.reflector.target.plural;
        tracing::warn!(%resource, object = %key, %error, "cannot read an object");
        self.surroundings.metrics.broken(resource);
        (key, meta.resource_version.clone().unwrap_or_default())
    }
}

/// Every reflector of a process. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Reflectors(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    all: BTreeMap<(Target, TypeKey), Arc<dyn Reflect>>,
    activity: Activity,
    /// Told of every reflector that is added after the start.
    started: Option<tokio::sync::mpsc::UnboundedSender<Arc<dyn Reflect>>>,
}

/// The Rust type of a reflector's objects.
type TypeKey = &'static str;

impl Reflectors {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn activity(&self) -> Activity {
        self.lock().activity.clone()
    }

    /// The cache of a target; its reflector is made if there is none.
    pub(super) fn cache<K: Watchable>(&self, target: Target, prune: Prune<K>) -> Cache<K> {
        let mut inner = self.lock();
        let key = (target.clone(), type_name::<K>());
        if let Some(known) = inner.all.get(&key)
            && let Ok(reflector) = Arc::clone(known).as_any().downcast::<Reflector<K>>()
        {
            return Cache(Arc::clone(&reflector.shared));
        }
        let shared = Arc::new(Shared::new(inner.activity.clone()));
        let reflector =
            Arc::new(Reflector { target, shared: Arc::clone(&shared), prune, stop: Notify::new() });
        inner.all.insert(key, reflector.clone());
        if let Some(started) = &inner.started {
            // Whoever runs the reflectors may have stopped; then nobody needs this one.
            let _ = started.send(reflector);
        }
        Cache(shared)
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn Reflect>> {
        self.lock().all.values().cloned().collect()
    }

    /// Every reflector there is and will be.
    pub(super) fn start(&self) -> tokio::sync::mpsc::UnboundedReceiver<Arc<dyn Reflect>> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut inner = self.lock();
        for reflector in inner.all.values() {
            let _ = sender.send(Arc::clone(reflector));
        }
        inner.started = Some(sender);
        receiver
    }

    /// Puts what a write was answered into the caches of its kind.
    pub(super) fn note(&self, object: &(dyn Any + Send + Sync)) {
        for reflector in self.all() {
            reflector.note(object);
        }
    }

    /// Stops following a target that is no longer served.
    pub(super) fn forget<K: Watchable>(&self, target: &Target) {
        let known = self.lock().all.remove(&(target.clone(), type_name::<K>()));
        if let Some(reflector) = known {
            reflector.stop();
        }
    }
}
