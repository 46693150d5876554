//! What the runtime counts, in the text form that Prometheus reads.
//!
//! Labels come from closed sets: names of controllers, of resources, and of results. There is no
//! label with an object's name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::error::Class;

/// Seconds; from a plan over cached objects to a call that waits for a machine.
const DURATIONS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResult {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    controller: &'static str,
    what: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResource {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRestart {
    resource: String,
    reason: &'static str,
}

/// The metrics of a process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    depth: Family<OfController, Gauge>,
    reconciles: Family<OfResult, Counter>,
    duration: Family<OfController, Histogram>,
    retries: Family<OfController, Counter>,
    panics: Family<OfController, Counter>,
    wake_lag: Family<OfController, Histogram>,
    effects: Family<OfController, Counter>,
    told: Family<OfController, Counter>,
    lists: Family<OfResource, Counter>,
    restarts: Family<OfRestart, Counter>,
    broken: Family<OfResource, Counter>,
    objects: Family<OfState, Gauge>,
    leader: Gauge,
}

fn histogram() -> Histogram {
    Histogram::new(DURATIONS)
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("seatrial");
        let histograms = || Family::new_with_constructor(histogram as fn() -> Histogram);
        let inner = Inner {
            depth: Family::default(),
            reconciles: Family::default(),
            duration: histograms(),
            retries: Family::default(),
            panics: Family::default(),
            wake_lag: histograms(),
            effects: Family::default(),
            told: Family::default(),
            lists: Family::default(),
            restarts: Family::default(),
            broken: Family::default(),
            objects: Family::default(),
            leader: Gauge::default(),
            registry: Mutex::default(),
        };
        let mut add = |name: &str, help: &str, metric: Box<dyn Register>| {
            metric.register(&mut registry, name, help);
        };
        add("controller_queue_depth", "Keys that wait for a worker", inner.depth.boxed());
        add("controller_reconciles", "Reconciles by result", inner.reconciles.boxed());
        add("controller_reconcile_duration_seconds", "Time of a reconcile", inner.duration.boxed());
        add("controller_retries", "Reconciles of keys that failed before", inner.retries.boxed());
        add("controller_panics", "Panics that were contained", inner.panics.boxed());
        add("controller_wake_lag_seconds", "How late deadlines were met", inner.wake_lag.boxed());
        add("controller_effects", "Effects outside the API", inner.effects.boxed());
        add("controller_effects_told", "Events of effects that were written", inner.told.boxed());
        add("watch_lists", "Lists by the process's watches", inner.lists.boxed());
        add("watch_restarts", "Watches that broke, by reason", inner.restarts.boxed());
        add("watch_broken_objects", "Objects that could not be read", inner.broken.boxed());
        add("controller_objects", "What a controller counts, by state", inner.objects.boxed());
        add("leader", "Whether this process leads", Box::new(inner.leader.clone()));
        Self(Arc::new(Inner { registry: Mutex::new(registry), ..inner }))
    }
}

/// A metric that can be registered, whatever its type.
trait Register {
    fn register(self: Box<Self>, registry: &mut Registry, name: &str, help: &str);
}

impl<M: prometheus_client::registry::Metric> Register for M {
    fn register(self: Box<Self>, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, *self);
    }
}

trait Boxed: Clone {
    fn boxed(&self) -> Box<Self> {
        Box::new(self.clone())
    }
}

impl<S: Clone + std::hash::Hash + Eq, M, C: Clone> Boxed for Family<S, M, C> {}

/// A gauge of a controller's own, with one value for each of the few things that it is about.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The name, without the prefix `seatrial_` that it is shown with.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The label that tells the things apart; their number must be small.
    pub(super) label: &'static str,
    values: Family<Vec<(&'static str, String)>, Gauge>,
}

impl Measure {
    pub(super) fn new(name: &'static str, help: &'static str, label: &'static str) -> Self {
        Self { name, help, label, values: Family::default() }
    }

    /// The value for one thing.
    pub fn set(&self, thing: &str, value: u32) {
        self.values.get_or_create(&vec![(self.label, thing.to_owned())]).set(i64::from(value));
    }

    /// One of the things is gone.
    pub fn forget(&self, thing: &str) {
        self.values.remove(&vec![(self.label, thing.to_owned())]);
    }
}

impl Metrics {
    /// All metrics as text, for `/metrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    /// Shows a controller's own measure with the others.
    pub(super) fn show(&self, measure: &Measure) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(measure.name, measure.help, measure.values.clone());
    }

    pub(super) fn depth(&self, controller: &'static str, depth: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.0.depth.get_or_create(&OfController { controller }).set(depth);
    }

    pub(super) fn reconciled(
        &self,
        controller: &'static str,
        failed: Option<Class>,
        took: Duration,
    ) {
        let result = failed.map_or("success", Class::as_str);
        self.0.reconciles.get_or_create(&OfResult { controller, result }).inc();
        self.0.duration.get_or_create(&OfController { controller }).observe(took.as_secs_f64());
    }

    pub(super) fn retried(&self, controller: &'static str) {
        self.0.retries.get_or_create(&OfController { controller }).inc();
    }

    pub(super) fn panicked(&self, controller: &'static str) {
        self.0.panics.get_or_create(&OfController { controller }).inc();
    }

    pub(super) fn woke(&self, controller: &'static str, late: Duration) {
        self.0.wake_lag.get_or_create(&OfController { controller }).observe(late.as_secs_f64());
    }

    pub(super) fn told(&self, controller: &'static str) {
        self.0.told.get_or_create(&OfController { controller }).inc();
    }

    pub(super) fn effect(&self, controller: &'static str) {
        self.0.effects.get_or_create(&OfController { controller }).inc();
    }

    pub(super) fn listed(&self, resource: &str) {
        self.0.lists.get_or_create(&OfResource { resource: resource.to_owned() }).inc();
    }

    pub(super) fn watch_restarted(&self, resource: &str, reason: &'static str) {
        let label = OfRestart { resource: resource.to_owned(), reason };
        self.0.restarts.get_or_create(&label).inc();
    }

    pub(super) fn broken(&self, resource: &str) {
        self.0.broken.get_or_create(&OfResource { resource: resource.to_owned() }).inc();
    }

    pub(super) fn counted(
        &self,
        controller: &'static str,
        what: &'static str,
        state: &'static str,
        number: usize,
    ) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.0.objects.get_or_create(&OfState { controller, what, state }).set(number);
    }

    pub(super) fn leads(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// How many reconciles of a controller ended so; for tests and reports.
    pub fn reconciles(&self, controller: &'static str, result: &'static str) -> u64 {
        self.0.reconciles.get_or_create(&OfResult { controller, result }).get()
    }

    /// How many effects a controller had outside the API, and of how many it wrote the Event; the
    /// first is never the larger.
    pub fn effects(&self, controller: &'static str) -> (u64, u64) {
        let label = OfController { controller };
        (self.0.effects.get_or_create(&label).get(), self.0.told.get_or_create(&label).get())
    }

    /// How many panics of a controller were contained.
    pub fn panics(&self, controller: &'static str) -> u64 {
        self.0.panics.get_or_create(&OfController { controller }).get()
    }
}
