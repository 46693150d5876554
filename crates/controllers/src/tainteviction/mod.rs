//! Pods leave nodes whose taints drive them away, when they endure them no longer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Delete, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use plan::scheduler::node_of;
use plan::tainteviction::{NO_EXECUTE, Plan};
use serde_json::json;

use crate::bynode::ByNode;

/// See the module.
pub struct TaintEviction {
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    /// Since when pods are known to be on tainted nodes, with the UID.
    since: Mutex<BTreeMap<ObjectKey, (String, Timestamp)>>,
}

/// A pod and what there is to know about it.
pub struct Observed {
    pod: Arc<Pod>,
    facts: plan::tainteviction::Observed,
}

impl TaintEviction {
    fn memory(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (String, Timestamp)>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for TaintEviction {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = (Arc<Pod>, Plan);
    const NAME: &'static str = "tainteviction";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Evicts pods from nodes whose taints drive them away")
            .may(&["delete"], "", &["pods"])
            .may(&["patch"], "", &["pods/status"])
            .records_events();
        let pods = wiring.own(Watch::<Pod>::all().when(|old, new| {
            let endures = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
            node_of(old) != node_of(new) || endures(old) != endures(new)
        }));
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
        let by_node = ByNode::of(&pods);
        let nodes = Watch::<Node>::all().when(move |old, new| taints(old) != taints(new));
        let nodes = wiring.watch(nodes, move |node| {
            by_node.on(node.metadata.name.as_deref().unwrap_or_default())
        });
        Self { pods, nodes, since: Mutex::default() }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(pod) = self.pods.get(key) else {
            self.memory().remove(key);
            return Ok(None);
        };
        let node = node_of(&pod).and_then(|name| self.nodes.get(&ObjectKey::cluster(name)));
        let taints = node.and_then(|node| node.spec.as_ref()?.taints.clone()).unwrap_or_default();
        let tainted = taints.iter().any(|taint| taint.effect == NO_EXECUTE);
        if !tainted || pod.metadata.deletion_timestamp.is_some() {
            self.memory().remove(key);
            return Ok(None);
        }
        let now = (pod.metadata.uid.clone().unwrap_or_default(), context.now());
        let mut memory = self.memory();
        let known = memory.get(key).filter(|known| known.0 == now.0).cloned().unwrap_or(now);
        memory.insert(key.clone(), known.clone());
        let since = known.1;
        drop(memory);
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
        let facts = plan::tainteviction::Observed {
            deleting: false,
            tolerations: tolerations.unwrap_or_default(),
            taints,
            since,
            now: context.now(),
        };
        Ok(Some(Observed { pod, facts }))
    }

    fn plan(observed: &Observed) -> (Arc<Pod>, Plan) {
        (Arc::clone(&observed.pod), plan::tainteviction::plan(&observed.facts))
    }

    async fn apply(
        &self,
        context: &Context,
        key: &ObjectKey,
        (pod, plan): (Arc<Pod>, Plan),
    ) -> Result<Wake, Error> {
        match plan {
            Plan::Keep => return Ok(Wake::Never),
            Plan::Until(end) => return Ok(Wake::At(end)),
            Plan::Evict => {}
        }
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339_seconds(context.now()),
        });
        let patch = json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [condition]},
        });
        match context.patch::<Pod>(&pod.metadata, Some("status"), &Patch::Strategic(patch)).await {
            Err(error) if error.is_not_found() => return Ok(Wake::Never),
            other => drop(other?),
        }
        let how = Delete { uid: pod.metadata.uid.clone(), ..Delete::default() };
        if context.delete::<Pod>(&(), &pod.metadata, how).await? {
            let note = Note {
                mood: Mood::Normal,
                reason: "TaintManagerEviction".to_owned(),
                action: "Evict".to_owned(),
                text: format!("Marking for deletion Pod {key}"),
            };
            context.record::<Pod>(&(), &pod.metadata, note).await;
        }
        Ok(Wake::Never)
    }
}
