//! Pods that are only records go: those of nodes that are gone, those that nobody can end, and ended
//! ones beyond a threshold.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::rfc3339_seconds;
use kit::controller::{Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::{ObjectMeta, Patch};
use plan::podgc::{Ended, Place};
use plan::scheduler::node_of;
use serde_json::json;

use crate::bynode::ByNode;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod, or all that have ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pod.
    Pod(ObjectKey),
    /// All pods that have ended.
    Ended,
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(out, "pod/{key}"),
            Self::Ended => out.write_str("ended"),
        }
    }
}

/// How many ended pods a cluster keeps; [`plan::podgc::THRESHOLD`] unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Threshold(pub usize);

impl Default for Threshold {
    fn default() -> Self {
        Self(plan::podgc::THRESHOLD)
    }
}

/// See the module.
pub struct PodGc {
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    threshold: usize,
    /// Since when nodes that pods name are not there.
    gone: Mutex<BTreeMap<String, Timestamp>>,
}

/// What there is to know.
pub enum Observed {
    /// About a pod.
    Pod(Arc<Pod>, plan::podgc::Observed),
    /// About all that have ended, and how many may stay.
    Ended(Vec<Ended<ObjectKey>>, usize),
}

/// What shall be done.
pub enum Plan {
    /// About a pod.
    Pod(Arc<Pod>, plan::podgc::Plan),
    /// These go.
    Surplus(Vec<ObjectKey>),
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_out_of_service(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !ready && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

impl Controller for PodGc {
    type Key = Key;
    type Settings = Threshold;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "podgc";

    fn wire(threshold: Threshold, wiring: &mut Wiring<Key>) -> Self {
        wiring
            .about("Removes pods of nodes that are gone, and ended pods beyond a threshold")
            .may(&["delete"], "", &["pods"])
            .may(&["patch"], "", &["pods/status"])
            .may(&["get"], "", &["nodes"]);
        let pods = Watch::<Pod>::all().when(|old, new| {
            let deleting = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
            (node_of(old), has_ended(old), deleting(old))
                != (node_of(new), has_ended(new), deleting(new))
        });
        let pods = wiring.watch(pods, |pod| {
            let ended = has_ended(pod).then_some(Key::Ended);
            ended.into_iter().chain([Key::Pod(ObjectKey::of(&pod.metadata))])
        });
        let by_node = ByNode::of(&pods);
        let nodes = Watch::<Node>::all().when(|o, n| is_out_of_service(o) != is_out_of_service(n));
        let nodes = wiring.watch(nodes, move |node| {
            let here = by_node.on(node.metadata.name.as_deref().unwrap_or_default());
            here.into_iter().map(Key::Pod)
        });
        Self { pods, nodes, threshold: threshold.0, gone: Mutex::default() }
    }

    async fn observe(&self, context: &Context, key: &Key) -> Result<Option<Observed>, Error> {
        let Key::Pod(key) = key else {
            let ended = self.pods.list().into_iter().filter(|pod| has_ended(pod));
            return Ok(Some(Observed::Ended(
                ended.map(|pod| ended_pod(&pod)).collect(),
                self.threshold,
            )));
        };
        let Some(pod) = self.pods.get(key) else { return Ok(None) };
        let facts = plan::podgc::Observed {
            place: self.place(context, &pod).await?,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            now: context.now(),
        };
        Ok(Some(Observed::Pod(pod, facts)))
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Pod(pod, facts) => Plan::Pod(Arc::clone(pod), plan::podgc::plan(*facts)),
            Observed::Ended(ended, threshold) => {
                Plan::Surplus(plan::podgc::surplus(ended.clone(), *threshold))
            }
        }
    }

    async fn apply(&self, context: &Context, _: &Key, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Surplus(surplus) => {
                for pod in surplus.iter().filter_map(|key| self.pods.get(key)) {
                    remove(context, &pod, false).await?;
                }
            }
            Plan::Pod(_, plan::podgc::Plan::Keep) => {}
            Plan::Pod(_, plan::podgc::Plan::Until(end)) => return Ok(Wake::At(end)),
            Plan::Pod(pod, plan::podgc::Plan::Orphaned) => remove(context, &pod, true).await?,
            Plan::Pod(pod, plan::podgc::Plan::Abandoned) => remove(context, &pod, false).await?,
        }
        Ok(Wake::Never)
    }
}

fn ended_pod(pod: &Pod) -> Ended<ObjectKey> {
    let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    let created = pod.metadata.creation_timestamp.as_ref();
    Ended {
        pod: ObjectKey::of(&pod.metadata),
        evicted: reason == Some("Evicted"),
        created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    }
}

impl PodGc {
    /// Where a pod is. A node that the cache lacks is asked for once its time is up.
    async fn place(&self, context: &Context, pod: &Pod) -> Result<Place, Error> {
        let Some(name) = node_of(pod) else { return Ok(Place::Nowhere) };
        let known = self.nodes.get(&ObjectKey::cluster(name));
        if let Some(node) = known {
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
            return Ok(Place::Node { out_of_service: is_out_of_service(&node) });
        }
        let now = context.now();
        let since = {
            let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            *gone.entry(name.to_owned()).or_insert(now)
        };
        if now.duration_since(since) >= plan::podgc::QUARANTINE {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            if context.get::<Node>(&(), &metadata).await?.is_some() {
                return Ok(Place::Node { out_of_service: false });
            }
        }
        Ok(Place::Gone(since))
    }
}

/// Ends a pod on behalf of whoever no longer can.
async fn remove(context: &Context, pod: &Pod, orphaned: bool) -> Result<(), Error> {
    if !has_ended(pod) {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": rfc3339_seconds(context.now()),
        });
        let mut status = json!({"phase": "Failed"});
        if orphaned {
            status["conditions"] = json!([condition]);
        }
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        let patch = Patch::Strategic(patch);
        match context.patch::<Pod>(&pod.metadata, Some("status"), &patch).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => drop(other?),
        }
    }
    let how = Delete { uid: pod.metadata.uid.clone(), grace_seconds: Some(0), ..Delete::default() };
    context.delete::<Pod>(&(), &pod.metadata, how).await.map(drop)
}
