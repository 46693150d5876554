//! Nodes of which nothing is heard are reported as a fault of the fleet: `plan::silence`, carried out.
//!
//! It rests on the mark that `nodelifecycle` (or a kube-controller-manager) puts on a silent node.

use std::sync::Arc;

use api::Machine;
use api::evidence::Evidence;
use api::request::Outcome;
use api::state::State;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use plan::catalogue::Condition;
use plan::silence::{Observed as Facts, Plan, REASON};
use serde_json::json;

use crate::node::seen;

/// See the module.
pub struct Silences {
    nodes: Cache<Node>,
    machines: Cache<Machine>,
}

/// A node, the boot that runs on it, and what there is to know.
pub struct Observed {
    node: Arc<Node>,
    facts: Facts,
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Whether nothing is being done to a machine in production that would silence its node.
fn is_left_alone(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let answer = status.and_then(|status| status.answer.as_ref());
    let asked = machine.spec.request.as_ref().is_some_and(|request| {
        answer.is_none_or(|a| a.id != request.id || a.outcome == Outcome::Running)
    });
    let worked_on = status.is_some_and(|status| status.operation.is_some());
    machine.state() == State::Production && !asked && !worked_on
}

impl Controller for Silences {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = (Arc<Node>, Plan);
    const NAME: &'static str = "silence";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Reports nodes of which nothing is heard as a fault")
            .may(&["patch"], "", &["nodes/status"])
            .records_events();
        let nodes = wiring.own(Watch::<Node>::all().when(seen::node_matters));
        let all = nodes.clone();
        let machines =
            Watch::<Machine>::all().when(|old, new| is_left_alone(old) != is_left_alone(new));
        let machines = wiring.watch(machines, move |machine| {
            // The usual case is that they have one name; the label says it where they do not.
            let same = ObjectKey::cluster(machine.name());
            let named = machine.status.as_ref().and_then(|status| status.node.as_ref());
            let named = named.map(|node| ObjectKey::cluster(&node.name));
            [named.unwrap_or(same)]
                .into_iter()
                .filter(|key| all.get(key).is_some())
                .collect::<Vec<_>>()
        });
        Self { nodes, machines }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(node) = self.nodes.get(key) else { return Ok(None) };
        let Some(machine) = self.machines.get(&ObjectKey::cluster(seen::machine_of(&node))) else {
            return Ok(None);
        };
        let ready = condition(&node, "Ready").filter(|ready| ready.status == "Unknown");
        let reported = condition(&node, Condition::NodeSilent.as_str()).is_some_and(|silent| {
            silent.status == "True" && silent.reason.as_deref() == Some(REASON)
        });
        let facts = Facts {
            unknown: ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0)),
            reported,
            unexpected: is_left_alone(&machine),
            now: context.now(),
        };
        Ok(Some(Observed { node, facts }))
    }

    fn plan(observed: &Observed) -> Self::Plan {
        (Arc::clone(&observed.node), plan::silence::plan(&observed.facts))
    }

    async fn apply(
        &self,
        context: &Context,
        _: &ObjectKey,
        (node, plan): Self::Plan,
    ) -> Result<Wake, Error> {
        let Some(silent) = plan.report else { return Ok(Wake::earliest(plan.next)) };
        let text = if silent {
            "nothing has been heard of the node for 50 s"
        } else {
            "the node is heard of again"
        };
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let boot = info.map(|info| info.boot_id.clone()).filter(|boot| !boot.is_empty());
        let evidence = Evidence { text: text.to_owned(), boot, ..Evidence::default() };
        let condition = json!({
            "type": Condition::NodeSilent.as_str(),
            "status": if silent { "True" } else { "False" },
            "reason": REASON,
            "message": evidence.to_string(),
            "lastTransitionTime": rfc3339_seconds(context.now()),
        });
        let metadata = &node.metadata;
        let pinned = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let patch = json!({"metadata": pinned, "status": {"conditions": [condition]}});
        context.patch::<Node>(metadata, Some("status"), &Patch::Strategic(patch)).await?;
        let (mood, reason) =
            if silent { (Mood::Warning, "NodeSilent") } else { (Mood::Normal, "NodeHeard") };
        let note = Note {
            mood,
            reason: reason.to_owned(),
            action: "Report".to_owned(),
            text: text.to_owned(),
        };
        context.record::<Node>(&(), metadata, note).await;
        Ok(Wake::Never)
    }
}
