//! A simple scheduler: gives ordinary pods their nodes, and says why others have none.
//!
//! All pods that wait are one unit of work, since each placement changes what the next may take. What
//! was bound counts as bound from then on, even if the watch is behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::Resource as _;
use kube::api::{Patch, PostParams};
use kube::core::Request;
use plan::scheduler::{Observed, Verdict, node_of, waits};
use serde_json::{Value, json};

/// See the module.
pub struct Scheduler {
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    /// The nodes of pods that we bound, by UID, until the cache knows.
    bound: Mutex<BTreeMap<String, String>>,
}

impl Controller for Scheduler {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Vec<Verdict>;
    const NAME: &'static str = "scheduler";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Gives pods their nodes")
            .concurrency(1)
            .may(&["create"], "", &["pods/binding"])
            .may(&["patch"], "", &["pods/status"])
            .records_events();
        let all = || [ObjectKey::cluster("pods")];
        let nodes = wiring.watch(Watch::<Node>::all().when(differs), move |_| all());
        let pods = Watch::<Pod>::all().when(|old, new| {
            old.spec != new.spec
                || plan::pod::is_finished(old) != plan::pod::is_finished(new)
                || plan::pod::is_terminating(old) != plan::pod::is_terminating(new)
        });
        let pods = wiring.watch(pods, move |_| all());
        Self { nodes, pods, bound: Mutex::default() }
    }

    async fn observe(&self, _: &Context, _: &ObjectKey) -> Result<Option<Observed>, Error> {
        let pods = self.known();
        if !pods.iter().any(|pod| waits(pod)) {
            return Ok(None);
        }
        Ok(Some(Observed { nodes: self.nodes.list(), pods }))
    }

    fn plan(observed: &Observed) -> Vec<Verdict> {
        plan::scheduler::plan(observed)
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, all: Vec<Verdict>) -> Result<Wake, Error> {
        let mut failed = None;
        for Verdict { pod, node } in all {
            let done = match node {
                Ok(node) => self.bind(cx, &pod, &node).await,
                Err(why) => refuse(cx, &pod, &why).await,
            };
            match done {
                // It was deleted meanwhile, or another bound it.
                Err(error) if error.is_not_found() => {}
                Err(error) => drop(failed.get_or_insert(error)),
                Ok(()) => {}
            }
        }
        failed.map_or(Ok(Wake::Never), Err)
    }
}

/// What of a node counts: heartbeats and images do not.
fn differs(old: &Node, new: &Node) -> bool {
    let allocatable =
        |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.spec != new.spec
        || old.metadata.labels != new.metadata.labels
        || allocatable(old) != allocatable(new)
}

impl Scheduler {
    /// The pods as the cache has them, with the nodes that we gave them since.
    fn known(&self) -> Vec<Arc<Pod>> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let mut still = BTreeMap::new();
        let mut pods = self.pods.list();
        for pod in pods.iter_mut().filter(|pod| node_of(pod).is_none()) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            if let Some(node) = bound.remove(&uid) {
                let mut placed = (**pod).clone();
                placed.spec.get_or_insert_default().node_name = Some(node.clone());
                *pod = Arc::new(placed);
                still.insert(uid, node);
            }
        }
        *bound = still;
        pods
    }

    fn remember(&self, uid: String, node: &str) {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.insert(uid, node.to_owned());
    }

    async fn bind(&self, cx: &Context, pod: &Pod, node: &str) -> Result<(), Error> {
        let meta = &pod.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let what = || format!("bind pod {name:?} to node {node:?}");
        let body = serde_json::to_vec(&body).map_err(|e| Error::bug("write JSON", e))?;
        let request = Request::new(Pod::url_path(&(), Some(namespace)))
            .create_subresource("binding", name, &PostParams::default(), body)
            .map_err(|error| Error::during(what(), kube::Error::BuildRequest(error)))?;
        let answer = cx.client().request::<Value>(request).await;
        answer.map_err(|error| Error::during(what(), error))?;
        self.remember(meta.uid.clone().unwrap_or_default(), node);
        let note = Note {
            mood: Mood::Normal,
            reason: "Scheduled".to_owned(),
            action: "Binding".to_owned(),
            text: format!("Successfully assigned {namespace}/{name} to {node}"),
        };
        cx.record::<Pod>(&(), meta, note).await;
        Ok(())
    }
}

/// Says why a pod has no node, once for each reason.
async fn refuse(cx: &Context, pod: &Pod, why: &str) -> Result<(), Error> {
    let known = plan::pod::condition(pod, "PodScheduled");
    if known.is_some_and(|k| k.status == "False" && k.message.as_deref() == Some(why)) {
        return Ok(());
    }
    let since = known.filter(|known| known.status == "False");
    let since = since.and_then(|known| known.last_transition_time.as_ref()).map(|time| time.0);
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": why,
        "lastTransitionTime": rfc3339_seconds(since.unwrap_or_else(|| cx.now())),
    });
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"conditions": [condition]},
    }));
    cx.patch::<Pod>(&pod.metadata, Some("status"), &patch).await?;
    let note = Note {
        mood: Mood::Warning,
        reason: "FailedScheduling".to_owned(),
        action: "Scheduling".to_owned(),
        text: why.to_owned(),
    };
    cx.record::<Pod>(&(), &pod.metadata, note).await;
    Ok(())
}
