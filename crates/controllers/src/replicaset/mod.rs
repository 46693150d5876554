//! ReplicaSets and ReplicationControllers, by the same code: as many pods as they want.
//!
//! Pods are made in batches that double while all goes well, so that a quota or a broken webhook is
//! not stormed. A pod that we deleted counts as deleted from then on, even if the watch is behind.

mod kind;

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kit::controller::{
    Cache, Context, Controller, Delete, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
    controller_of,
};
use plan::claim::{Claim, claim, controller, selects};
use plan::replicaset::{Observed, batches, fail, failure, reference};

pub use self::kind::Kind;
use crate::claim::{adopt, release};

/// See the module.
pub struct Replicas<K> {
    sets: Cache<K>,
    pods: Cache<Pod>,
    /// UIDs of pods that we deleted and that may not be marked so in the cache yet.
    deleted: Mutex<BTreeSet<String>>,
    kind: PhantomData<K>,
}

/// A set, and what the decision about it rests on.
pub struct Seen<K> {
    set: Arc<K>,
    observed: Observed,
}

/// What shall be done about a set.
pub struct Plan<K> {
    set: Arc<K>,
    todo: plan::replicaset::Plan,
}

impl<K: Kind> Controller for Replicas<K> {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Seen<K>;
    type Plan = Plan<K>;
    const NAME: &'static str = K::NAME;

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        let (group, plural) = K::RESOURCE;
        wiring
            .about(K::ABOUT)
            .may(&["create", "delete", "patch"], "", &["pods"])
            .may(&["get"], group, &[plural])
            .may(&["patch"], group, &[&format!("{plural}/status")])
            .may(&["update"], group, &[&format!("{plural}/finalizers")])
            .records_events();
        let sets = wiring.own(Watch::<K>::all());
        let all = sets.clone();
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| {
            if controller(&pod.metadata).is_some() {
                return controller_of::<K, Pod>(pod).into_iter().collect::<Vec<_>>();
            }
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let sets = all.in_namespace(namespace).into_iter();
            let sets = sets.filter(|set| selects(&set.selector(), pod.metadata.labels.as_ref()));
            sets.map(|set| ObjectKey::of(set.metadata())).collect()
        });
        Self { sets, pods, deleted: Mutex::default(), kind: PhantomData }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Seen<K>>, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(None) };
        let pods = self.claimed(context, &set).await?;
        let (replicas, min_ready, template) = set.wanted();
        let observed = Observed {
            meta: set.metadata().clone(),
            kind: K::KIND,
            replicas,
            min_ready,
            template,
            status: set.report(),
            reports_terminating: K::REPORTS_TERMINATING,
            related: self.related(&set, &pods),
            pods,
            now: context.now(),
        };
        Ok(Some(Seen { set, observed }))
    }

    fn plan(seen: &Seen<K>) -> Plan<K> {
        Plan { set: Arc::clone(&seen.set), todo: plan::replicaset::plan(&seen.observed) }
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan<K>) -> Result<Wake, Error> {
        let Plan { set, todo } = plan;
        let mut status = todo.status;
        let made = match &todo.create {
            Some((pod, count)) => self.create(cx, &set, pod, *count).await,
            None => Ok(()),
        };
        let outcome = match made {
            Ok(()) => self.delete(cx, &set, &todo.delete).await.map_err(|e| ("FailedDelete", e)),
            Err(error) => Err(("FailedCreate", error)),
        };
        if let Err((reason, error)) = &outcome {
            let known = set.report();
            status.conditions.get_or_insert_default().extend(failure(&known).cloned());
            fail(&mut status, reason, kit::error::chain(error).to_string(), cx.now());
        }
        match cx.apply_status(&*set, &status).await {
            // It was deleted meanwhile.
            Err(error) if error.is_not_found() => return Ok(Wake::Never),
            other => other?,
        }
        outcome.map_err(|(_, error)| error)?;
        Ok(Wake::earliest(todo.wake))
    }
}

impl<K: Kind> Replicas<K> {
    /// The set's own pods that have not finished, after adopting and releasing.
    async fn claimed(&self, context: &Context, set: &K) -> Result<Vec<Arc<Pod>>, Error> {
        let (meta, selector) = (set.metadata(), set.selector());
        let mut fresh = false;
        let mut pods = Vec::new();
        for pod in self.pods.in_namespace(meta.namespace.as_deref().unwrap_or_default()) {
            match claim(meta, &selector, &pod.metadata) {
                _ if plan::pod::is_finished(&pod) => {}
                Claim::Foreign => {}
                Claim::Ours => pods.push(self.marked(pod)),
                Claim::Release => {
                    release::<Pod>(context, &pod.metadata, meta.uid.as_deref()).await?;
                }
                Claim::Adopt => {
                    // What the cache has not seen deleted must not adopt.
                    if !fresh {
                        fresh = true;
                        let now = context.get::<K>(&(), meta).await?;
                        let same = now.is_some_and(|now| {
                            let now = now.metadata();
                            now.uid == meta.uid && now.deletion_timestamp.is_none()
                        });
                        if !same {
                            return Err(Error::not_ready("the set is gone or ends"));
                        }
                    }
                    let owner = reference(K::KIND, meta);
                    pods.push(Arc::new(adopt::<Pod>(context, &pod.metadata, owner).await?));
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

    /// Pods of all sets that the same owner controls.
    fn related(&self, set: &K, own: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(owner) = controller(set.metadata()) else { return own.to_vec() };
        let namespace = set.metadata().namespace.as_deref().unwrap_or_default();
        let same = |owned: Option<&OwnerReference>| owned.is_some_and(|by| by.uid == owner.uid);
        let sets = self.sets.in_namespace(namespace);
        let sets = sets.iter().filter(|other| same(controller(other.metadata())));
        let uids: BTreeSet<_> = sets.filter_map(|set| set.metadata().uid.clone()).collect();
        let mut pods = self.pods.in_namespace(namespace);
        pods.retain(|pod| controller(&pod.metadata).is_some_and(|by| uids.contains(&by.uid)));
        pods
    }

    async fn create(&self, cx: &Context, set: &K, pod: &Pod, count: usize) -> Result<(), Error> {
        for batch in batches(count) {
            let mut failed = None;
            for made in join_all((0..batch).map(|_| cx.create(pod))).await {
                let text = match &made {
                    Ok(pod) => {
                        format!("Created pod: {}", pod.metadata.name.as_deref().unwrap_or(""))
                    }
                    Err(error) => format!("Error creating: {}", kit::error::chain(error)),
                };
                note(cx, set, made.is_ok(), "Create", text).await;
                failed = failed.or(made.err());
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn delete(&self, cx: &Context, set: &K, pods: &[Arc<Pod>]) -> Result<(), Error> {
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
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let text = match &done {
                Ok(_) => format!("Deleted pod: {name}"),
                Err(error) => format!("Error deleting: {}", kit::error::chain(error)),
            };
            note(cx, set, done.is_ok(), "Delete", text).await;
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
        let alive = self.pods.list();
        let alive = alive.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let alive: BTreeSet<_> = alive.filter_map(|pod| pod.metadata.uid.clone()).collect();
        deleted.retain(|uid| alive.contains(uid));
    }
}

async fn note<K: Kind>(cx: &Context, set: &K, good: bool, action: &str, text: String) {
    let (mood, reason) = match (good, action) {
        (true, action) => (Mood::Normal, format!("Successful{action}")),
        (false, action) => (Mood::Warning, format!("Failed{action}")),
    };
    let note = Note { mood, reason, action: action.to_owned(), text };
    cx.record::<K>(&(), set.metadata(), note).await;
}
