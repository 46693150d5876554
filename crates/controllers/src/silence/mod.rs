//! Nodes of which nothing is heard, and nodes whose agent says nothing, are reported as a fault of the
//! fleet: `plan::silence`, carried out.
//!
//! For nodes it rests on the mark that `nodelifecycle` (or a kube-controller-manager) puts on a silent
//! one; for agents on the Lease that each renews.

mod agents;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Machine;
use api::evidence::Evidence;
use api::names;
use api::request::Outcome;
use api::state::State;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kit::clock::rfc3339_seconds;
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use plan::catalogue::Condition;
use plan::silence::{Observed as Facts, Plan, Report, Silent};
use serde_json::json;

use crate::heartbeats::Heartbeats;
use crate::node::seen;
use agents::Agents;

/// See the module.
pub struct Silences {
    nodes: Cache<Node>,
    machines: Cache<Machine>,
    agents: Arc<Mutex<Agents>>,
}

/// A node, the boot that runs on it, and what there is to know.
pub struct Observed {
    node: Arc<Node>,
    facts: Facts,
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Whose silence is reported on a node.
fn reported(node: &Node) -> Option<Silent> {
    seen::shows(node, Condition::NodeSilent.as_str()).and_then(Silent::of)
}

/// The node of a machine. The usual case is that they have one name; its status says it where they do
/// not.
fn node_of(machine: &Machine) -> ObjectKey {
    let named = machine.status.as_ref().and_then(|status| status.node.as_ref());
    ObjectKey::cluster(named.map_or(machine.name(), |node| &node.name))
}

fn locked(agents: &Mutex<Agents>) -> MutexGuard<'_, Agents> {
    agents.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Where heartbeats of agents come from beside Leases.
    type Settings = Option<Arc<dyn Heartbeats>>;
    type Observed = Observed;
    type Plan = (Arc<Node>, Plan);
    const NAME: &'static str = "silence";

    fn wire(elsewhere: Self::Settings, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Reports nodes of which nothing is heard, or not of their agent, as a fault")
            .may(&["patch"], "", &["nodes/status"])
            .records_events();
        let nodes = wiring.own(Watch::<Node>::all().when(seen::node_matters));
        let all = nodes.clone();
        let machines =
            Watch::<Machine>::all().when(|old, new| is_left_alone(old) != is_left_alone(new));
        let machines = wiring.watch(machines, move |machine| {
            let node = node_of(machine);
            all.get(&node).map(|_| node)
        });
        let leases = wiring.read(Watch::<Lease>::all().in_namespace(names::MACHINES));
        // Whose agent was reported and speaks again is looked at now; the others when they are due.
        let (known, all, adder) = (machines.clone(), nodes.clone(), wiring.adder());
        let called_silent = move |machine: &str| {
            let node = node_of(known.get(&ObjectKey::cluster(machine))?.as_ref());
            all.get(&node).filter(|node| reported(node) == Some(Silent::Agent)).map(|_| node)
        };
        let agents = Arc::new(Mutex::new(Agents::new(elsewhere.clone())));
        let memory = Arc::clone(&agents);
        leases.on_change(move |change| {
            let machine = &change.key.name;
            let lives = locked(&memory).see(machine, change.old.as_deref(), change.new.as_deref());
            if let Some(node) = lives.then(|| called_silent(machine)).flatten() {
                adder.add(node);
            }
        });
        if let Some(elsewhere) = elsewhere {
            let (known, adder) = (machines.clone(), wiring.adder());
            elsewhere.listen(Arc::new(move |machine| {
                if let Some(machine) = known.get(&ObjectKey::cluster(machine)) {
                    adder.add(node_of(&machine));
                }
            }));
        }
        Self { nodes, machines, agents }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(node) = self.nodes.get(key) else { return Ok(None) };
        let Some(machine) = self.machines.get(&ObjectKey::cluster(seen::machine_of(&node))) else {
            return Ok(None);
        };
        let ready = condition(&node, "Ready").filter(|ready| ready.status == "Unknown");
        let now = context.now();
        let facts = Facts {
            unknown: ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0)),
            agent: locked(&self.agents).life(machine.name(), now),
            reported: reported(&node),
            unexpected: is_left_alone(&machine),
            now,
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
        let Some(report) = plan.report else { return Ok(Wake::earliest(plan.next)) };
        let (silent, who) = match report {
            Report::Silent(who) => (true, who),
            Report::Heard(who) => (false, who),
        };
        let (text, mood, event) = telling(report);
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let boot = info.map(|info| info.boot_id.clone()).filter(|boot| !boot.is_empty());
        let evidence = Evidence { text: text.to_owned(), boot, ..Evidence::default() };
        let condition = json!({
            "type": Condition::NodeSilent.as_str(),
            "status": if silent { "True" } else { "False" },
            "reason": who.reason(),
            "message": evidence.to_string(),
            "lastTransitionTime": rfc3339_seconds(context.now()),
        });
        let metadata = &node.metadata;
        let pinned = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let patch = json!({"metadata": pinned, "status": {"conditions": [condition]}});
        context.patch::<Node>(metadata, Some("status"), &Patch::Strategic(patch)).await?;
        let note = Note {
            mood,
            reason: event.to_owned(),
            action: "Report".to_owned(),
            text: text.to_owned(),
        };
        context.record::<Node>(&(), metadata, note).await;
        Ok(Wake::earliest(plan.next))
    }
}

/// A report as a sentence, and the Event that tells it.
const fn telling(report: Report) -> (&'static str, Mood, &'static str) {
    match report {
        Report::Silent(Silent::Node) => {
            ("nothing has been heard of the node for 50 s", Mood::Warning, "NodeSilent")
        }
        Report::Silent(Silent::Agent) => (
            "its agent has been silent for 180 s, its kubelet is not",
            Mood::Warning,
            "AgentSilent",
        ),
        Report::Heard(Silent::Node) => ("the node is heard of again", Mood::Normal, "NodeHeard"),
        Report::Heard(Silent::Agent) => ("its agent speaks again", Mood::Normal, "AgentHeard"),
    }
}
