//! What the process knows of one kind: a copy of its objects, kept by one watch, read by everybody.
//!
//! Guarantees: objects come out in the order of their keys; an object is never replaced by an older
//! one, and one that was deleted never comes back by a late answer; what our own writes were answered is
//! in the cache before the next reconcile, so that a plan sees what the last one did. An object that cannot be read does not stop the others: its last good
//! form stays, and it is counted.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::activity::Activity;
use super::key::ObjectKey;

/// What can be watched: any of kube's resources.
pub trait Watchable:
    Resource<DynamicType: Send + Sync> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType: Send + Sync>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// How an object was and how it is. At least one of the two is there.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// What it is called.
    pub key: ObjectKey,
    /// As it was; `None` if it is new.
    pub old: Option<Arc<K>>,
    /// As it is; `None` if it is gone.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it is, or else as it last was.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

type Handler<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// A read-only view of all objects of a kind that one watch selects. Cheap to clone.
pub struct Cache<K>(pub(super) Arc<Shared<K>>);

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What a cache's readers and its watch share.
pub(super) struct Shared<K> {
    state: Mutex<State<K>>,
    handlers: Mutex<Vec<Handler<K>>>,
    activity: Activity,
}

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// Objects that cannot be read, by the revision that could not.
    broken: BTreeMap<ObjectKey, String>,
    synced: bool,
    /// How far list and watch have come: what is absent and no newer than this was deleted.
    reached: u64,
}

impl<K: Resource> Cache<K> {
    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.0.lock().objects.get(key).cloned()
    }

    /// Every object, in the order of keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.0.lock().objects.values().cloned().collect()
    }

    /// Every object of a namespace, in the order of names.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = ObjectKey::new(namespace, "");
        let state = self.0.lock();
        let range = state.objects.range(from..).take_while(|(key, _)| key.namespace == namespace);
        range.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.lock().objects.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first list is complete: what is absent here was absent there.
    pub fn is_synced(&self) -> bool {
        self.0.lock().synced
    }

    /// Tells `handler` of every change from now on, beginning with what is there.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.0.on_change(Arc::new(handler));
    }

    /// Whether two caches are one.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The keys of objects whose newest form cannot be read.
    pub fn broken(&self) -> Vec<ObjectKey> {
        self.0.lock().broken.keys().cloned().collect()
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Shared<K> {
    pub(super) fn new(activity: Activity) -> Self {
        let (objects, broken) = (BTreeMap::new(), BTreeMap::new());
        let state = State { objects, broken, synced: false, reached: 0 };
        Self { state: Mutex::new(state), handlers: Mutex::default(), activity }
    }

    /// Calls `handler` for each change from now on, and for what is there already.
    pub(super) fn on_change(&self, handler: Handler<K>) {
        let present: Vec<Change<K>> = self
            .lock()
            .objects
            .iter()
            .map(|(key, new)| Change { key: key.clone(), old: None, new: Some(Arc::clone(new)) })
            .collect();
        present.iter().for_each(|change| handler(change));
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner).push(handler);
    }

    /// The watch is about to tell what happened at this revision, or that nothing did until then.
    pub(super) fn reached(&self, revision: &str) {
        let mut state = self.lock();
        state.reached = revision.parse().unwrap_or(state.reached);
    }

    /// An object was seen.
    pub(super) fn put(&self, object: K) {
        self.put_in(self.lock(), object);
    }

    fn put_in(&self, mut state: MutexGuard<'_, State<K>>, object: K) {
        let key = ObjectKey::of(object.meta());
        state.broken.remove(&key);
        if state.objects.get(&key).is_some_and(|known| !is_newer(object.meta(), known.meta())) {
            drop(state);
            return self.activity.bump();
        }
        let new = Arc::new(object);
        let old = state.objects.insert(key.clone(), Arc::clone(&new));
        drop(state);
        self.tell(&Change { key, old, new: Some(new) });
    }

    /// An object was deleted; `last` is its metadata at that moment.
    pub(super) fn delete(&self, last: &ObjectMeta) {
        let key = ObjectKey::of(last);
        let mut state = self.lock();
        state.broken.remove(&key);
        // One of the same name that was created since stays.
        let stays = |known: &Arc<K>| known.meta().uid != last.uid && is_newer(known.meta(), last);
        if state.objects.get(&key).is_none_or(stays) {
            drop(state);
            return self.activity.bump();
        }
        let old = state.objects.remove(&key);
        drop(state);
        self.tell(&Change { key, old, new: None });
    }

    /// An object cannot be read at this revision.
    pub(super) fn broken(&self, key: ObjectKey, revision: String) {
        self.lock().broken.insert(key, revision);
        self.activity.bump();
    }

    /// These are all objects, as of `revision`; what is missing was deleted in between.
    pub(super) fn replace(&self, all: Vec<K>, broken: BTreeMap<ObjectKey, String>, revision: &str) {
        self.reached(revision);
        let mut gone = self.lock().objects.clone();
        for object in all {
            gone.remove(&ObjectKey::of(object.meta()));
            self.put(object);
        }
        for (key, old) in gone {
            let mut state = self.lock();
            // What we wrote since the list was made is not in it, and is no less there.
            let same = state.objects.get(&key).is_some_and(|known| Arc::ptr_eq(known, &old));
            let older = older_or_same(old.meta().resource_version.as_deref(), revision);
            if !same || !older || broken.contains_key(&key) {
                continue;
            }
            state.objects.remove(&key);
            drop(state);
            self.tell(&Change { key, old: Some(old), new: None });
        }
        let mut state = self.lock();
        state.broken = broken;
        state.synced = true;
        drop(state);
        self.activity.bump();
    }

    /// The revision of each object, for whoever compares with the server's.
    pub(super) fn revisions(&self) -> BTreeMap<ObjectKey, String> {
        let state = self.lock();
        let revision = |object: &Arc<K>| object.meta().resource_version.clone().unwrap_or_default();
        let good = state.objects.iter().map(|(key, object)| (key.clone(), revision(object)));
        let mut all: BTreeMap<ObjectKey, String> = good.collect();
        all.extend(state.broken.clone());
        all
    }

    fn tell(&self, change: &Change<K>) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for handler in handlers {
            handler(change);
        }
        self.activity.bump();
    }
}

impl<K: Resource + Clone + Send + Sync + 'static> Shared<K> {
    /// Takes an object that a write of ours was answered, if it is of this kind.
    pub(super) fn note(&self, object: &(dyn Any + Send + Sync), prune: impl FnOnce(&mut K)) {
        let Some(object) = object.downcast_ref::<K>() else { return };
        let mut object = object.clone();
        prune(&mut object);
        let state = self.lock();
        let known = state.objects.contains_key(&ObjectKey::of(object.meta()));
        // An answer may be late: the watch has told of the write, and of the end of the object too. The
        // write that takes the last finalizer is answered with what is no more.
        let told = number(object.meta()).is_some_and(|revision| revision <= state.reached);
        if !known && (told || object.meta().deletion_timestamp.is_some()) {
            return;
        }
        self.put_in(state, object);
    }
}

/// Revisions of one kind are ordered as numbers; one that is none counts as new.
fn is_newer(this: &ObjectMeta, known: &ObjectMeta) -> bool {
    match (number(this), number(known)) {
        (Some(this), Some(known)) => this > known,
        _ => true,
    }
}

fn number(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

fn older_or_same(this: Option<&str>, that: &str) -> bool {
    match (this.and_then(|this| this.parse::<u64>().ok()), that.parse::<u64>().ok()) {
        (Some(this), Some(that)) => this <= that,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(name: &str, uid: &str, revision: u64) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.uid = Some(uid.to_owned());
        map.metadata.resource_version = Some(revision.to_string());
        map
    }

    /// A cache, and what its handler was told.
    fn cache() -> (Cache<ConfigMap>, Arc<Mutex<Vec<String>>>) {
        let cache = Cache(Arc::new(Shared::new(Activity::default())));
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        cache.0.on_change(Arc::new(move |change: &Change<ConfigMap>| {
            let revision = |o: &Option<Arc<ConfigMap>>| {
                o.as_ref().and_then(|o| o.metadata.resource_version.clone()).unwrap_or_default()
            };
            let line =
                format!("{} {}>{}", change.key, revision(&change.old), revision(&change.new));
            log.lock().unwrap().push(line);
        }));
        (cache, told)
    }

    #[test]
    fn nothing_is_replaced_by_something_older() {
        let (cache, told) = cache();
        cache.0.put(object("a", "1", 10));
        cache.0.put(object("a", "1", 9));
        cache.0.put(object("a", "1", 10));
        cache.0.put(object("a", "1", 11));
        assert_eq!(*told.lock().unwrap(), ["a >10", "a 10>11"]);
    }

    #[test]
    fn the_deletion_of_a_predecessor_does_not_touch_its_successor() {
        let (cache, told) = cache();
        cache.0.put(object("a", "2", 12));
        cache.0.delete(&object("a", "1", 11).metadata);
        assert_eq!(cache.len(), 1);
        cache.0.delete(&object("a", "2", 13).metadata);
        assert_eq!(*told.lock().unwrap(), ["a >12", "a 12>"]);
    }

    #[test]
    fn an_answer_that_comes_after_the_end_brings_nothing_back() {
        let (cache, told) = cache();
        cache.0.put(object("a", "1", 10));
        cache.0.reached("12");
        cache.0.delete(&object("a", "1", 12).metadata);
        cache.0.note(&object("a", "1", 11), |_| ());
        assert!(cache.is_empty(), "the watch has told of that write, and of the end");
        cache.0.note(&object("a", "2", 13), |_| ());
        assert_eq!(told.lock().unwrap().last().unwrap(), "a >13", "a write that it will tell of");
        cache.0.replace(Vec::new(), BTreeMap::new(), "14");
        cache.0.note(&object("a", "2", 13), |_| ());
        assert!(cache.is_empty(), "nor after a list");
    }

    #[test]
    fn the_answer_to_the_last_write_brings_nothing_back() {
        let (cache, told) = cache();
        let mut ending = object("a", "1", 12);
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        cache.0.put(object("a", "1", 10));
        cache.0.note(&ending, |_| ());
        assert_eq!(told.lock().unwrap().last().unwrap(), "a 10>12", "it is there still");
        cache.0.delete(&object("a", "1", 13).metadata);
        cache.0.note(&ending, |_| ());
        assert!(cache.is_empty());
    }

    #[test]
    fn a_list_deletes_what_it_lacks_but_not_what_is_newer_or_broken() {
        let (cache, told) = cache();
        for (name, revision) in [("gone", 5), ("kept", 5), ("ours", 21), ("odd", 5)] {
            cache.0.put(object(name, name, revision));
        }
        told.lock().unwrap().clear();
        let broken = BTreeMap::from([(ObjectKey::cluster("odd"), "7".to_owned())]);
        cache.0.replace(vec![object("kept", "kept", 6)], broken, "20");
        assert_eq!(*told.lock().unwrap(), ["kept 5>6", "gone 5>"]);
        assert!(cache.is_synced());
        assert_eq!(cache.broken(), [ObjectKey::cluster("odd")]);
        assert_eq!(cache.0.revisions()[&ObjectKey::cluster("odd")], "7");
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn a_namespace_is_a_range() {
        let (cache, _) = cache();
        for (namespace, name) in [("a", "x"), ("b", "z"), ("b", "y"), ("bb", "x")] {
            let mut map = object(name, name, 1);
            map.metadata.namespace = Some(namespace.to_owned());
            cache.0.put(map);
        }
        let names: Vec<_> =
            cache.in_namespace("b").iter().map(|o| o.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["y", "z"]);
    }
}
