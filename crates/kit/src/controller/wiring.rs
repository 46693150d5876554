//! How a controller is tied to what it watches: kinds, selectors, predicates, and maps to keys.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Resource, ResourceExt};

use super::cache::{Cache, Change, Watchable};
use super::declare::{Alert, Declaration};
use super::key::{Key, ObjectKey};
use super::metrics::Measure;
use super::reflector::{Prune, Reflectors};
use super::wire::Target;
use super::worker::Work;

/// Whether a change from the first to the second form matters.
type Predicate<K> = Arc<dyn Fn(&K, &K) -> bool + Send + Sync>;

/// Which objects of a kind are watched, and which of their changes matter.
pub struct Watch<K: Resource> {
    kind: K::DynamicType,
    namespace: Option<String>,
    labels: String,
    fields: String,
    metadata_only: bool,
    prune: Prune<K>,
    predicates: Vec<Predicate<K>>,
}

impl<K: Watchable<DynamicType: Default>> Watch<K> {
    /// Every object of the kind.
    pub fn all() -> Self {
        Self::of(K::DynamicType::default())
    }
}

impl<K: Watchable> Watch<K> {
    /// Every object of a kind that is known only at run time.
    pub fn of(kind: K::DynamicType) -> Self {
        Self {
            kind,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
            prune: Arc::new(|object: &mut K| object.meta_mut().managed_fields = None),
            predicates: Vec::new(),
        }
    }

    /// Only those in a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only those that a label selector selects.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Only those that a field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Takes from each object what nobody reads, beside `managedFields`. The first watch of a kind
    /// decides for all that share it.
    #[must_use]
    pub fn pruned(mut self, prune: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        let before = self.prune;
        self.prune = Arc::new(move |object| {
            before(object);
            prune(object);
        });
        self
    }

    /// A change of an object counts only if this says so; with several, if one of them does. An
    /// object that is new or gone always counts.
    #[must_use]
    pub fn when(mut self, matters: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Arc::new(matters));
        self
    }

    /// The generation counts: what its owner wants, not what a controller reports.
    #[must_use]
    pub fn when_generation(self) -> Self {
        self.when(|old, new| old.meta().generation != new.meta().generation)
    }

    /// Labels, annotations, finalizers and the mark of deletion count.
    #[must_use]
    pub fn when_metadata(self) -> Self {
        fn all(m: &ObjectMeta) -> impl PartialEq + '_ {
            (&m.labels, &m.annotations, &m.finalizers, &m.deletion_timestamp, &m.owner_references)
        }
        self.when(|old, new| all(old.meta()) != all(new.meta()))
    }

    fn target(&self) -> Target {
        Target {
            path: K::url_path(&self.kind, self.namespace.as_deref()),
            group: K::group(&self.kind).into_owned(),
            plural: K::plural(&self.kind).into_owned(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            metadata_only: self.metadata_only,
        }
    }
}

impl<K: Resource> Watch<PartialObjectMeta<K>>
where
    PartialObjectMeta<K>: Watchable + Resource<DynamicType = K::DynamicType>,
{
    /// Only the metadata of a kind's objects, which is all that goes over the wire.
    pub fn metadata_of(kind: K::DynamicType) -> Self {
        Self { metadata_only: true, ..Self::of(kind) }
    }
}

/// Metadata of an object of any kind.
pub type AnyMeta = PartialObjectMeta<DynamicObject>;

/// Ties a controller to its sources; what it is told is also what the controller declares.
pub struct Wiring<K> {
    pub(super) declaration: Declaration,
    pub(super) reflectors: Reflectors,
    pub(super) work: Arc<Work<K>>,
    pub(super) synced: Vec<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl<K: Key> Wiring<K> {
    /// One sentence on what the controller does.
    pub fn about(&mut self, about: &'static str) -> &mut Self {
        self.declaration.about = about;
        self
    }

    /// How many keys may be worked on at once; 4 unless said otherwise.
    pub fn concurrency(&mut self, limit: usize) -> &mut Self {
        self.declaration.concurrency = limit.max(1);
        self
    }

    /// A right that the controller needs beside those of its watches. A subresource is written
    /// `pods/status`.
    pub fn may(&mut self, verbs: &[&str], group: &str, resources: &[&str]) -> &mut Self {
        for resource in resources {
            self.declaration.allow(verbs, group, resource);
        }
        self
    }

    /// The same in one namespace only.
    pub fn may_in(
        &mut self,
        namespace: &str,
        verbs: &[&str],
        group: &str,
        resources: &[&str],
    ) -> &mut Self {
        for resource in resources {
            self.declaration.allow_in(namespace, verbs, group, resource);
        }
        self
    }

    /// The controller records Events.
    pub fn records_events(&mut self) -> &mut Self {
        self.may(&["create", "get", "patch"], "", &["events"]);
        self.may(&["create", "get", "patch"], "events.k8s.io", &["events"])
    }

    /// An alert beside those that every controller has.
    pub fn alert(&mut self, alert: Alert) -> &mut Self {
        self.declaration.alerts.push(alert);
        self
    }

    /// A metric beside those that every controller has: a gauge with one value for each of the few
    /// things that `label` tells apart. It is shown as `seatrial_NAME`, and on the dashboard.
    pub fn measure(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
    ) -> Measure {
        let measure = Measure::new(name, help, label);
        self.declaration.measures.push(measure.clone());
        measure
    }

    /// This key is worked on once at the start, whatever is there.
    pub fn at_start(&mut self, key: K) -> &mut Self {
        self.work.add(key);
        self
    }

    /// A cache without any effect: for what a plan looks at but never waits for.
    pub fn read<R: Watchable>(&mut self, watch: Watch<R>) -> Cache<R> {
        let target = watch.target();
        self.declaration.allow(&["list", "watch"], &target.group, &target.plural);
        let cache = self.reflectors.cache(target, Arc::clone(&watch.prune));
        let probe = cache.clone();
        self.synced.push(Arc::new(move || probe.is_synced()));
        cache
    }

    /// A cache whose changes bring keys to the queue: those of the object as it was and as it is.
    pub fn watch<R, I>(
        &mut self,
        watch: Watch<R>,
        keys: impl Fn(&R) -> I + Send + Sync + 'static,
    ) -> Cache<R>
    where
        R: Watchable,
        I: IntoIterator<Item = K>,
    {
        let predicates = watch.predicates.clone();
        let cache = self.read(watch);
        let work = Arc::clone(&self.work);
        cache.0.on_change(Arc::new(move |change: &Change<R>| {
            if let (Some(old), Some(new)) = (&change.old, &change.new)
                && !predicates.is_empty()
                && !predicates.iter().any(|matters| matters(old, new))
            {
                return;
            }
            for object in change.old.iter().chain(&change.new) {
                keys(object).into_iter().for_each(|key| work.add(key));
            }
        }));
        cache
    }

    /// A handle by which keys are added by other means than a watch.
    pub fn adder(&self) -> Adder<K> {
        Adder(Arc::clone(&self.work))
    }

    /// A handle by which watches are opened and closed while the controller runs. The rights for
    /// them must be asked for by [`Self::may`].
    pub fn opener(&self) -> Opener {
        Opener(self.reflectors.clone())
    }
}

impl Wiring<ObjectKey> {
    /// A cache whose objects are what the controller reconciles.
    pub fn own<R: Watchable>(&mut self, watch: Watch<R>) -> Cache<R> {
        self.watch(watch, |object| [ObjectKey::of(object.meta())])
    }

    /// A cache whose changes bring the object that controls them, if it is of the kind `Owner`.
    pub fn controlled<Owner, R>(&mut self, watch: Watch<R>) -> Cache<R>
    where
        Owner: Resource<DynamicType = ()> + 'static,
        R: Watchable,
    {
        self.watch(watch, controller_of::<Owner, R>)
    }
}

/// The key of the object of kind `Owner` that controls this one. Its version is not looked at: an
/// owner stays one when its group gets a new version.
pub fn controller_of<Owner, R>(object: &R) -> Option<ObjectKey>
where
    Owner: Resource<DynamicType = ()>,
    R: Resource,
{
    let owner =
        object.meta().owner_references.iter().flatten().find(|r| r.controller == Some(true))?;
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let is_owner = owner.kind == Owner::kind(&()) && group == Owner::group(&());
    is_owner.then(|| ObjectKey::new(object.namespace().unwrap_or_default(), owner.name.clone()))
}

/// See [`Wiring::adder`].
pub struct Adder<K>(Arc<Work<K>>);

impl<K: Key> Adder<K> {
    /// The key shall be worked on.
    pub fn add(&self, key: K) {
        self.0.add(key);
    }
}

impl<K> Clone for Adder<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// See [`Wiring::opener`].
#[derive(Clone)]
pub struct Opener(Reflectors);

impl Opener {
    /// The cache of a watch, which is begun if nobody has it yet.
    pub fn open<R: Watchable>(&self, watch: &Watch<R>) -> Cache<R> {
        self.0.cache(watch.target(), Arc::clone(&watch.prune))
    }

    /// Stops a watch for everybody: its kind is no longer served.
    pub fn close<R: Watchable>(&self, watch: &Watch<R>) {
        self.0.forget::<R>(&watch.target());
    }
}
