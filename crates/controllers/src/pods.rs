//! What all do that keep pods: claim them by a selector, make them in batches that double while all
//! goes well (so that a quota or a broken webhook is not stormed), delete them, and say so.
//!
//! A pod that we deleted counts as deleted from then on, even if the watch is behind.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use kit::controller::{
    Cache, Context, Delete, Error, Mood, Note, ObjectKey, Watchable, controller_of,
};
use kube::Resource;
use plan::claim::{Claim, claim, controller, selects};
use plan::replicaset::{batches, reference};

use crate::claim::{adopt, release};
use crate::deed::told;

/// A kind that keeps pods.
pub trait Keeper: Watchable + Resource<DynamicType = ()> {
    /// Version and kind, by which pods name it.
    const KIND: (&'static str, &'static str);
    /// Which pods are its own.
    fn selector(&self) -> LabelSelector;

    /// Whether a pod that the selector selects may be its own.
    fn may_keep(&self, _: &Pod) -> bool {
        true
    }

    /// What an event says when a pod was made or deleted, or could not be.
    fn told(&self, action: &str, pod: &ObjectMeta, error: Option<&str>) -> String {
        let name = pod.name.as_deref().unwrap_or_default();
        match (action, error) {
            ("Create", None) => format!("Created pod: {name}"),
            ("Create", Some(error)) => format!("Error creating: {error}"),
            (_, None) => format!("Deleted pod: {name}"),
            (_, Some(error)) => format!("Error deleting: {error}"),
        }
    }
}

/// The pods of the cluster, with what we did to them.
pub(crate) struct Pods {
    pub(crate) cache: Cache<Pod>,
    /// UIDs of pods that we deleted and that may not be marked so in the cache yet.
    deleted: Mutex<BTreeSet<String>>,
}

/// Who may want to know of an object: the one that controls it, or all that select it.
pub(crate) fn keepers<K: Keeper>(keepers: &Cache<K>, object: &ObjectMeta) -> Vec<ObjectKey> {
    if controller(object).is_some() {
        let object = Pod { metadata: object.clone(), ..Pod::default() };
        return controller_of::<K, Pod>(&object).into_iter().collect();
    }
    let all = keepers.in_namespace(object.namespace.as_deref().unwrap_or_default()).into_iter();
    let all = all.filter(|keeper| selects(&keeper.selector(), object.labels.as_ref()));
    all.map(|keeper| ObjectKey::of(keeper.meta())).collect()
}

/// Whether an owner is still there and stays, as the API says: what a cache has not seen deleted must
/// not adopt.
///
/// # Errors
/// It is gone or ends, or the API failed.
pub(crate) async fn may_adopt<K: Keeper>(cx: &Context, owner: &ObjectMeta) -> Result<(), Error> {
    let now = cx.get::<K>(&(), owner).await?;
    let same = now.is_some_and(|now| {
        let now = now.meta();
        now.uid == owner.uid && now.deletion_timestamp.is_none()
    });
    if same { Ok(()) } else { Err(Error::not_ready("the owner is gone or ends")) }
}

impl Pods {
    pub(crate) fn new(cache: Cache<Pod>) -> Self {
        Self { cache, deleted: Mutex::default() }
    }

    /// An owner's pods, after adopting and releasing; those that have finished only if asked for.
    pub(crate) async fn claimed<K: Keeper>(
        &self,
        cx: &Context,
        owner: &K,
        finished: bool,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        let (meta, selector) = (owner.meta(), owner.selector());
        let mut fresh = false;
        let mut pods = Vec::new();
        for pod in self.cache.in_namespace(meta.namespace.as_deref().unwrap_or_default()) {
            if !finished && plan::pod::is_finished(&pod) {
                continue;
            }
            match claim(meta, &selector, &pod.metadata) {
                Claim::Foreign => {}
                Claim::Ours => pods.push(self.marked(pod)),
                Claim::Release => {
                    release::<Pod>(cx, &pod.metadata, meta.uid.as_deref()).await?;
                }
                Claim::Adopt if !owner.may_keep(&pod) => {}
                Claim::Adopt => {
                    if !fresh {
                        may_adopt::<K>(cx, meta).await?;
                        fresh = true;
                    }
                    let owner = reference(K::KIND, meta);
                    pods.push(Arc::new(adopt::<Pod>(cx, &pod.metadata, owner).await?));
                }
            }
        }
        Ok(pods)
    }

    /// The pod, marked if we deleted it.
    fn marked(&self, pod: Arc<Pod>) -> Arc<Pod> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        if pod.metadata.deletion_timestamp.is_some() || !deleted.contains(uid) {
            return pod;
        }
        let mut marked = (*pod).clone();
        marked.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        Arc::new(marked)
    }

    /// Makes pods, and says how many were made.
    ///
    /// # Errors
    /// The first failure; what would have come after its batch is not tried.
    pub(crate) async fn create<K: Keeper>(
        &self,
        cx: &Context,
        owner: &K,
        pods: &[&Pod],
    ) -> (usize, Result<(), Error>) {
        let mut count = 0;
        let mut rest = pods;
        for batch in batches(pods.len()) {
            let (now, later) = rest.split_at(batch.min(rest.len()));
            rest = later;
            let mut failed = None;
            let made = join_all(now.iter().map(|pod| cx.create::<Pod>(pod))).await;
            for (pod, made) in now.iter().zip(made) {
                let meta = made.as_ref().map_or(&pod.metadata, |made| &made.metadata);
                note(cx, owner, "Create", meta, made.as_ref().err()).await;
                count += usize::from(made.is_ok());
                failed = failed.or(made.err());
            }
            if let Some(error) = failed {
                return (count, Err(error));
            }
        }
        (count, Ok(()))
    }

    /// Deletes pods.
    ///
    /// # Errors
    /// One of the failures; all are tried.
    pub(crate) async fn delete<K: Keeper>(
        &self,
        cx: &Context,
        owner: &K,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        self.forget();
        let delete = |pod: &Arc<Pod>| {
            let pod = Arc::clone(pod);
            async move {
                let how = Delete { uid: pod.metadata.uid.clone(), ..Delete::default() };
                let done = cx.delete::<Pod>(&(), &pod.metadata, how).await;
                (pod, done)
            }
        };
        let mut failed = None;
        for (pod, done) in join_all(pods.iter().map(delete)).await {
            note(cx, owner, "Delete", &pod.metadata, done.as_ref().err()).await;
            match done {
                Ok(_) => {
                    let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
                    deleted.extend(pod.metadata.uid.clone());
                }
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Strikes off what the cache itself knows to be deleted.
    fn forget(&self) {
        let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        if deleted.is_empty() {
            return;
        }
        let alive = self.cache.list();
        let alive = alive.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let alive: BTreeSet<_> = alive.filter_map(|pod| pod.metadata.uid.clone()).collect();
        deleted.retain(|uid| alive.contains(uid));
    }
}

async fn note<K: Keeper>(
    cx: &Context,
    owner: &K,
    action: &str,
    pod: &ObjectMeta,
    error: Option<&Error>,
) {
    let (mood, reason) = match error {
        None => (Mood::Normal, format!("Successful{action}")),
        Some(_) => (Mood::Warning, format!("Failed{action}")),
    };
    let error = error.map(|error| kit::error::chain(error).to_string());
    let text = owner.told(action, pod, error.as_deref());
    let note = Note { mood, reason, action: action.to_owned(), text };
    cx.record::<K>(&(), owner.meta(), note).await;
}

/// Tells what a plan has to tell.
pub(crate) async fn tell<K: Keeper>(cx: &Context, owner: &K, action: &str, event: plan::Event) {
    cx.record::<K>(&(), owner.meta(), told(&event, action)).await;
}
