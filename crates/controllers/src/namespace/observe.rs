//! What is left in a namespace that ends.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
use kit::controller::{AnyMeta, Cache, Change, Context, Error, ObjectKey, Watch};
use plan::namespace::{Left, Resource};

use super::{Namespaces, Observed};
use crate::kinds::{Served, discover};

/// The finalizer that is the content's.
pub(super) const FINALIZER: &str = "kubernetes";

impl Namespaces {
    pub(super) async fn observe_end(
        &self,
        context: &Context,
        key: &ObjectKey,
    ) -> Result<Option<Observed>, Error> {
        let Some(namespace) = self.namespaces.get(key).filter(|namespace| ends(namespace)) else {
            return Ok(None);
        };
        let served = discover(context.client()).await?.into_values();
        let kinds: Vec<Served> = served.filter(|kind| kind.namespaced).collect();
        // All are opened before any is waited for.
        let watched = kinds.iter().filter(|kind| kind.watched && !kind.is_event());
        let caches: Vec<_> = watched.map(|kind| (kind, self.follow(kind))).collect();
        let mut left = BTreeMap::new();
        for (kind, cache) in caches {
            if !cache.is_synced() {
                let plural = &kind.resource.plural;
                return Err(Error::not_ready(format!("{plural} are not listed yet")));
            }
            let objects = cache.in_namespace(&key.name);
            if !objects.is_empty() {
                left.insert(resource(kind), count(&objects));
            }
        }
        let content = plan::namespace::Observed { left, failures: BTreeMap::new() };
        Ok(Some(Observed { namespace, kinds, content }))
    }

    /// The cache of a kind; from now on its changes bring the namespaces that end.
    fn follow(&self, kind: &Served) -> Cache<AnyMeta> {
        let cache = self.opener.open(&Watch::<AnyMeta>::metadata_of(kind.resource.clone()));
        let name = (kind.resource.group.clone(), kind.resource.plural.clone());
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if !followed.get(&name).is_some_and(|known| known.is(&cache)) {
            let (namespaces, adder) = (self.namespaces.clone(), self.adder.clone());
            cache.on_change(move |change: &Change<AnyMeta>| {
                let key = ObjectKey::cluster(change.key.namespace.clone());
                if namespaces.get(&key).is_some_and(|namespace| ends(&namespace)) {
                    adder.add(key);
                }
            });
            followed.insert(name, cache.clone());
        }
        cache
    }
}

fn ends(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers.into_iter().any(|finalizer| finalizer == FINALIZER)
}

pub(super) fn resource(kind: &Served) -> Resource {
    Resource { plural: kind.resource.plural.clone(), group: kind.resource.group.clone() }
}

fn count(objects: &[Arc<AnyMeta>]) -> Left {
    let mut left = Left { objects: objects.len(), ..Left::default() };
    for object in objects {
        left.untouched += usize::from(object.metadata.deletion_timestamp.is_none());
        for finalizer in object.metadata.finalizers.iter().flatten() {
            *left.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    left
}
