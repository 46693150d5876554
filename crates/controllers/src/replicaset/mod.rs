//! ReplicaSets and ReplicationControllers, by the same code: as many pods as they want.

mod kind;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use plan::claim::controller;
use plan::replicaset::{Observed, fail, failure};

pub use self::kind::Kind;
use crate::pods::{Pods, keepers};

/// See the module.
pub struct Replicas<K> {
    sets: Cache<K>,
    pods: Pods,
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
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| keepers(&all, &pod.metadata));
        Self { sets, pods: Pods::new(pods) }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Seen<K>>, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(None) };
        let pods = self.pods.claimed(context, &*set, false).await?;
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
            Some((pod, count)) => {
                let pods: Vec<&Pod> = std::iter::repeat_n(&**pod, *count).collect();
                self.pods.create(cx, &*set, &pods).await.1
            }
            None => Ok(()),
        };
        let outcome = match made {
            Ok(()) => {
                self.pods.delete(cx, &*set, &todo.delete).await.map_err(|e| ("FailedDelete", e))
            }
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
    /// Pods of all sets that the same owner controls.
    fn related(&self, set: &K, own: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(owner) = controller(set.metadata()) else { return own.to_vec() };
        let namespace = set.metadata().namespace.as_deref().unwrap_or_default();
        let same = |owned: Option<&OwnerReference>| owned.is_some_and(|by| by.uid == owner.uid);
        let sets = self.sets.in_namespace(namespace);
        let sets = sets.iter().filter(|other| same(controller(other.metadata())));
        let uids: BTreeSet<_> = sets.filter_map(|set| set.metadata().uid.clone()).collect();
        let mut pods = self.pods.cache.in_namespace(namespace);
        pods.retain(|pod| controller(&pod.metadata).is_some_and(|by| uids.contains(&by.uid)));
        pods
    }
}
