//! DaemonSets: one pod on every node that may have one.
//!
//! How often pods failed on a node is remembered in the process only: after a restart the first one is
//! deleted at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use plan::daemonset::{Failures, KIND, Observed, has_revision, revision_name};

use crate::pods::{Keeper, Pods, keepers, tell};
use crate::revisions;

/// After this long without a failure, a node has none.
const FORGIVEN: SignedDuration = SignedDuration::from_mins(30);

/// See the module.
pub struct DaemonSets {
    sets: Cache<DaemonSet>,
    nodes: Cache<Node>,
    pods: Pods,
    revisions: Cache<ControllerRevision>,
    /// By the set's UID and the node.
    failures: Mutex<BTreeMap<(String, String), Failures>>,
}

/// A DaemonSet, and what shall be done about it.
pub struct Plan {
    set: Box<DaemonSet>,
    todo: plan::daemonset::Plan,
}

impl Keeper for DaemonSet {
    const KIND: (&'static str, &'static str) = KIND;

    fn selector(&self) -> LabelSelector {
        self.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default()
    }
}

impl Controller for DaemonSets {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "daemonset";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Keeps a pod of each DaemonSet on every node that may have one")
            .may(&["create", "delete", "patch"], "", &["pods"])
            .may(&["get"], "apps", &["daemonsets"])
            .may(&["patch"], "apps", &["daemonsets/status"])
            .may(&["update"], "apps", &["daemonsets/finalizers"])
            .records_events();
        revisions::rights(wiring);
        let sets = wiring.own(Watch::<DaemonSet>::all());
        let all = sets.clone();
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| keepers(&all, &pod.metadata));
        let all = sets.clone();
        let revisions = wiring.watch(Watch::<ControllerRevision>::all(), move |revision| {
            keepers::<DaemonSet>(&all, &revision.metadata)
        });
        let all = sets.clone();
        // Heartbeats do not matter.
        let nodes = Watch::<Node>::all()
            .when(|old, new| old.spec != new.spec || old.metadata.labels != new.metadata.labels);
        let nodes = wiring.watch(nodes, move |_| {
            all.list().iter().map(|set| ObjectKey::of(&set.metadata)).collect::<Vec<_>>()
        });
        Self { sets, nodes, pods: Pods::new(pods), revisions, failures: Mutex::default() }
    }

    async fn observe(&self, cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(None) };
        let revisions = revisions::claimed(cx, &self.revisions, &*set).await?;
        let pods = self.pods.claimed(cx, &*set, true).await?;
        let taken = || self.revisions.get(&ObjectKey::new(&key.namespace, revision_name(&set)));
        let collides = !has_revision(&set, &revisions) && taken().is_some();
        let failures = self.failures(set.metadata.uid.as_deref().unwrap_or_default(), cx.now());
        let set = (*set).clone();
        let (nodes, now) = (self.nodes.list(), cx.now());
        Ok(Some(Observed { set, nodes, pods, revisions, collides, failures, now }))
    }

    fn plan(observed: &Observed) -> Plan {
        Plan { set: Box::new(observed.set.clone()), todo: plan::daemonset::plan(observed) }
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let Plan { set, todo } = plan;
        revisions::apply(cx, todo.revisions).await?;
        for event in todo.events {
            tell(cx, &*set, "Sync", event).await;
        }
        self.fail(&set, &todo.failed, cx.now());
        let pods: Vec<&Pod> = todo.create.iter().collect();
        let (_, made) = self.pods.create(cx, &*set, &pods).await;
        let deleted = self.pods.delete(cx, &*set, &todo.delete).await;
        match cx.apply_status(&*set, &todo.status).await {
            // It was deleted meanwhile.
            Err(error) if error.is_not_found() => return Ok(Wake::Never),
            other => other?,
        }
        made.and(deleted)?;
        Ok(Wake::earliest(todo.wake))
    }
}

impl DaemonSets {
    fn failures(&self, uid: &str, now: Timestamp) -> BTreeMap<String, Failures> {
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| now.duration_since(known.last) < FORGIVEN);
        let own = all.iter().filter(|((set, _), _)| set == uid);
        own.map(|((_, node), known)| (node.clone(), *known)).collect()
    }

    fn fail(&self, set: &DaemonSet, nodes: &[String], now: Timestamp) {
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            let known = all.entry((uid.clone(), node.clone()));
            let known = known.or_insert(Failures { count: 0, last: now });
            *known = Failures { count: known.count.saturating_add(1), last: now };
        }
    }
}
