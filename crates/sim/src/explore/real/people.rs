//! What people and tenants do beside the technician and the operator, who do their work anyway.

use super::super::draw::Draw;
use super::super::tale::Disturbance;
use super::record::PERSON;
use super::site::{POOLS, Site};
use api::condition::Phase;
use api::names::{CORDONED_FOR, HANDS_OFF, TREATMENT};
use api::request::Ask;
use api::state::State;
use api::treatment::Treatment;
use api::{Breaker, Machine, NodePool};
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::rfc3339_seconds;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// What a person may ask of a machine itself.
const ASKS: [Ask; 7] =
    [Ask::Reboot, Ask::Triage, Ask::Onboard, Ask::Debug, Ask::Rma, Ask::Test, Ask::Zap];

fn by_person() -> PatchParams {
    PatchParams { field_manager: Some(PERSON.to_owned()), ..PatchParams::default() }
}

impl Site {
    /// A person or a tenant does something. Whatever the API refuses them is left as it is.
    pub(super) async fn person(&self, name: &str, what: Disturbance, draw: &mut Draw) {
        match what {
            Disturbance::Cordon => self.cordon(name, true).await,
            Disturbance::Uncordon => self.cordon(name, false).await,
            Disturbance::HandsOff => {
                let forbids = self.record.seen().truth(name).hands_off.is_some();
                self.forbid(name, !forbids).await;
            }
            Disturbance::Phase => {
                let phase = draw.pick(Phase::ALL).unwrap_or(Phase::Reboot);
                self.ask_phase(name, phase, draw.once_in(2)).await;
            }
            Disturbance::WithdrawPhase => self.withdraw_phases(name).await,
            Disturbance::Ask => {
                let ask = draw.pick(&ASKS).unwrap_or(Ask::Test);
                self.ask(name, ask).await;
            }
            Disturbance::Certify => self.certify(name).await,
            Disturbance::Acknowledge => self.acknowledge().await,
            Disturbance::Assign => {
                let (pool, more) = (draw.pick(&POOLS).unwrap_or(POOLS[0]), draw.once_in(2));
                self.scale(pool, more).await;
            }
            Disturbance::PodStarts => {
                let treatment = draw.pick(&Treatment::ALL).unwrap_or_default();
                self.start_pod(name, treatment).await;
            }
            Disturbance::PodEnds => self.end_pods(Some(name)).await,
            _ => {}
        }
    }

    /// A person cordons, or takes back whatever cordon there is. On a node that is cordoned already,
    /// taking our mark off says whose it is now.
    pub(super) async fn cordon(&self, node: &str, on: bool) {
        let nodes: Api<Node> = Api::all(self.cordoner.clone());
        let patch = Patch::Merge(json!({
            "metadata": {"annotations": {CORDONED_FOR: null}}, "spec": {"unschedulable": on},
        }));
        let _ = nodes.patch(node, &by_person(), &patch).await;
    }

    /// A person forbids repairs, or allows them again.
    pub(super) async fn forbid(&self, node: &str, forbids: bool) {
        let why = forbids.then_some("a person works on it");
        self.patch_node(node, json!({"metadata": {"annotations": {HANDS_OFF: why}}})).await;
    }

    async fn patch_node(&self, node: &str, patch: Value) {
        let nodes: Api<Node> = Api::all(self.person.clone());
        let _ = nodes.patch(node, &by_person(), &Patch::Merge(patch)).await;
    }

    /// A person asks a node for a phase.
    pub(super) async fn ask_phase(&self, node: &str, phase: Phase, at_once: bool) {
        self.record.seen().truth(node).asked = true;
        let kind = if at_once { "ImmediatePhase" } else { "PendingPhase" };
        self.set_phase(node, kind, phase.name(), "True").await;
    }

    async fn withdraw_phases(&self, node: &str) {
        for kind in ["PendingPhase", "ImmediatePhase"] {
            let there = self.record.seen().nodes.get(node).and_then(|node| {
                let all = node.status.as_ref()?.conditions.as_ref()?;
                let asks = all.iter().find(|c| c.type_ == kind && c.status == "True")?;
                asks.reason.clone()
            });
            if let Some(reason) = there {
                self.set_phase(node, kind, &reason, "False").await;
            }
        }
    }

    async fn set_phase(&self, node: &str, kind: &str, reason: &str, status: &str) {
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": "a person wants it",
            "lastTransitionTime": rfc3339_seconds(self.clock.now()),
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let nodes: Api<Node> = Api::all(self.person.clone());
        let _ = nodes.patch_status(node, &by_person(), &patch).await;
    }

    /// A person asks the machine itself: one thing at a time, as whoever overwrites a request takes
    /// its answer from whoever asked.
    pub(super) async fn ask(&self, name: &str, ask: Ask) {
        let machine = self.record.seen().machines.get(name).cloned();
        let Some(machine) = machine.filter(|m| !super::super::verdict::unanswered(m)) else {
            return;
        };
        let now = self.clock.now();
        let request = json!({
            "id": format!("ada-{}", now.as_millisecond()), "ask": ask, "by": PERSON,
            "why": "a person wants it", "at": now,
            "target": null, "evidence": null, "incident": null, "nodeUid": null, "boot": null,
        });
        self.record.seen().truth(name).asked = true;
        self.patch_machine(
            name,
            json!({
                "metadata": {"resourceVersion": machine.metadata.resource_version},
                "spec": {"request": request},
            }),
        )
        .await;
    }

    async fn certify(&self, name: &str) {
        let needed = self
            .record
            .seen()
            .machines
            .get(name)
            .and_then(|machine| machine.status.as_ref().map(|status| status.onboardings));
        self.patch_machine(name, json!({"spec": {"certified": needed.unwrap_or(1)}})).await;
    }

    async fn patch_machine(&self, name: &str, patch: Value) {
        let machines: Api<Machine> = Api::all(self.person.clone());
        let _ = machines.patch(name, &by_person(), &Patch::Merge(patch)).await;
    }

    /// A person acknowledges every breaker that is open.
    async fn acknowledge(&self) {
        let open: Vec<Breaker> = {
            let seen = self.record.seen();
            seen.breakers.values().filter(|breaker| breaker.is_open()).cloned().collect()
        };
        let breakers: Api<Breaker> = Api::all(self.person.clone());
        for breaker in open {
            let openings = breaker.status.as_ref().map_or(0, |status| status.openings);
            let patch = Patch::Merge(json!({"spec": {"acknowledged": openings, "by": PERSON}}));
            let name = breaker.metadata.name.unwrap_or_default();
            let _ = breakers.patch(&name, &by_person(), &patch).await;
        }
    }

    async fn scale(&self, pool: &str, more: bool) {
        let pools: Api<NodePool> = Api::all(self.person.clone());
        let Ok(Some(there)) = pools.get_opt(pool).await else { return };
        let target = there.spec.target_nodes.unwrap_or(1);
        let target = if more { target.saturating_add(1) } else { target.saturating_sub(1) };
        let patch = Patch::Merge(json!({"spec": {"targetNodes": target}}));
        let _ = pools.patch(pool, &by_person(), &patch).await;
    }

    async fn start_pod(&self, node: &str, treatment: Treatment) {
        let serves = {
            let seen = self.record.seen();
            seen.nodes.contains_key(node) && seen.state(node) == State::Production
        };
        if !serves {
            return;
        }
        let name = format!("train-{}", self.clock.now().as_millisecond());
        let pod = serde_json::from_value::<Pod>(json!({
            "metadata": {"name": name, "labels": {TREATMENT: treatment.name()}},
            "spec": {"nodeName": node, "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "train"}]},
        }));
        let Ok(pod) = pod else { return };
        let pods: Api<Pod> = Api::namespaced(self.person.clone(), "default");
        let _ = pods.create(&PostParams::default(), &pod).await;
    }

    /// Jobs end: those on a node, or all.
    pub(super) async fn end_pods(&self, node: Option<&str>) {
        let pods: Api<Pod> = Api::namespaced(self.person.clone(), "default");
        let Ok(all) = pods.list(&Default::default()).await else { return };
        for pod in all {
            let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            if node.is_none() || on == node {
                let name = pod.metadata.name.unwrap_or_default();
                let _ = pods.delete(&name, &DeleteParams::default()).await;
            }
        }
    }

    /// People take back what they forbade, and their jobs end.
    pub(super) async fn release(&self) {
        self.end_pods(None).await;
        let (cordoned, names) = {
            let seen = self.record.seen();
            (seen.cordoned(), seen.names())
        };
        for name in &cordoned {
            self.cordon(name, false).await;
        }
        for name in &names {
            if self.record.seen().truth(name).hands_off.is_some() {
                self.forbid(name, false).await;
            }
        }
    }
}
