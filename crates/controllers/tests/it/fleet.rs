//! A fleet for the tests: machines with nodes, and what would answer for them: a machine side that
//! carries out what is asked of a machine, and kubelets that end pods.

use std::collections::BTreeMap;

use api::breaker::Breaker;
use api::evidence::Evidence;
use api::ledger::{LedgerSpec, Limit};
use api::machine::{Agent, Assignment, Bmc, MachineSpec, MachineStatus, Place};
use api::request::{Answer, Ask, Effect, Operation, Outcome, Power, Request};
use api::state::{Role, State};
use api::{Incident, Ledger, Machine};
use controllers::Site;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::rfc3339_seconds;
use kit::controller::Running;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use plan::Rules;
use serde_json::{Value, json};

use crate::support::{Cluster, idle};

/// A fault whose first step resets a GPU and whose second reboots.
pub(crate) const XID_95: Fault =
    Fault { kind: "GpuMemoryFault", reason: "UncontainedMemoryError", part: Some("GPU-3") };

/// A condition that the agent reports.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) part: Option<&'static str>,
}

/// The cluster, with the fleet's kinds.
pub(crate) struct Fleet {
    pub(crate) cluster: Cluster,
    /// Every request that the machine side has carried out.
    pub(crate) done: BTreeMap<String, Vec<Request>>,
    /// What the machine side answers to, if not that all went well.
    pub(crate) fails: Option<Ask>,
}

impl Fleet {
    pub(crate) async fn new(cluster: Cluster) -> Self {
        let definitions: Api<CustomResourceDefinition> = cluster.api();
        for definition in api::definitions() {
            let name = definition.metadata.name.clone().unwrap();
            let apply = PatchParams::apply("test").force();
            definitions.patch(&name, &apply, &Patch::Apply(&definition)).await.unwrap();
        }
        Self { cluster, done: BTreeMap::new(), fails: None }
    }

    /// A site with the fleet's controllers; idle nodes are left in peace.
    pub(crate) fn site() -> Site {
        let rules = Rules { idle_test_every: None, ..Rules::default() };
        Site { fleet: true, rules, ..Site::default() }
    }

    pub(crate) async fn start(&self, folders: &[&str]) -> Running {
        self.cluster.start_at(folders, &Self::site()).await
    }

    /// The ledger: so many nodes of the fleet may be out.
    pub(crate) async fn ledger(&self, nodes: u32) {
        let bound = Limit { nodes: Some(nodes), percent: None };
        let ledger = Ledger::new("fleet", LedgerSpec { fleet: bound, ..LedgerSpec::default() });
        self.cluster.api().create(&PostParams::default(), &ledger).await.unwrap();
    }

    /// A machine in production with its node.
    pub(crate) async fn join(&self, name: &str, leaf: &str) {
        let spec = MachineSpec {
            instance_type: "h100".to_owned(),
            place: Place {
                site: "s".to_owned(),
                rack: format!("rack-of-{name}"),
                slot: 1,
                leaf: Some(leaf.to_owned()),
                ..Place::default()
            },
            bmc: Bmc { address: "https://bmc".to_owned(), credential: "bmc".to_owned() },
            macs: vec!["02:00:00:00:00:01".to_owned()],
            assignment: Some(Assignment {
                pool: "train".to_owned(),
                tenant: "acme".to_owned(),
                since: self.cluster.now(),
            }),
            ..MachineSpec::default()
        };
        let machines: Api<Machine> = self.cluster.api();
        machines.create(&PostParams::default(), &Machine::new(name, spec)).await.unwrap();
        let status = MachineStatus {
            state: State::Production,
            role: Role::Member,
            since: Some(self.cluster.now()),
            pool: Some("train".to_owned()),
            tenant: Some("acme".to_owned()),
            ..MachineStatus::default()
        };
        self.machine_status(name, json!(status)).await;
        // A kubelet gives its node labels; of an object that was made with nothing to own, an API
        // server never says who wrote what.
        let labels = json!({"kubernetes.io/hostname": name, api::names::MACHINE: name});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        self.cluster.create::<Node>(None, node).await;
        self.boot(name, "boot-1").await;
    }

    async fn machine_status(&self, name: &str, status: Value) {
        let machines: Api<Machine> = self.cluster.api();
        let patch = Patch::Merge(json!({"status": status}));
        machines.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Agent and kubelet say which boot runs, and the kubelet that it is ready.
    pub(crate) async fn boot(&self, node: &str, boot: &str) {
        let agent = Agent {
            boot: boot.to_owned(),
            image: "image-1".to_owned(),
            kernel: None,
            since: self.cluster.now(),
        };
        self.machine_status(node, json!({"agent": agent})).await;
        let info = json!({"bootID": boot, "architecture": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": ""});
        let ready = json!({"type": "Ready", "status": "True", "reason": "Kubelet",
            "lastTransitionTime": rfc3339_seconds(self.cluster.now())});
        self.node_status(node, json!({"nodeInfo": info, "conditions": [ready]})).await;
    }

    async fn node_status(&self, node: &str, status: Value) {
        let nodes: Api<Node> = self.cluster.api();
        let patch = Patch::Strategic(json!({"status": status}));
        let agent = PatchParams { field_manager: Some("agent".to_owned()), ..Default::default() };
        nodes.patch_status(node, &agent, &patch).await.unwrap();
    }

    /// The agent reports a fault of this boot.
    pub(crate) async fn strike(&self, node: &str, fault: Fault, boot: &str) {
        let evidence = Evidence {
            text: "GPU 3 reported XID 95".to_owned(),
            boot: Some(boot.to_owned()),
            part: fault.part.map(str::to_owned),
            count: None,
        };
        self.condition(node, fault.kind, true, fault.reason, &evidence.to_string()).await;
    }

    /// The agent sees the fault no more.
    pub(crate) async fn heal(&self, node: &str, fault: Fault) {
        self.condition(node, fault.kind, false, fault.reason, "").await;
    }

    pub(crate) async fn condition(
        &self,
        node: &str,
        kind: &str,
        holds: bool,
        reason: &str,
        message: &str,
    ) {
        let condition = json!({"type": kind, "status": if holds { "True" } else { "False" },
            "reason": reason, "message": message,
            "lastTransitionTime": rfc3339_seconds(self.cluster.now())});
        self.node_status(node, json!({"conditions": [condition]})).await;
    }

    /// A pod on a node that asks to be treated so.
    pub(crate) async fn pod(&self, namespace: &str, name: &str, node: &str, treatment: &str) {
        let object = json!({
            "metadata": {"name": name,
                "labels": {"app": name, api::names::TREATMENT: treatment}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        });
        self.cluster.create::<Pod>(Some(namespace), object).await;
        let ready = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), namespace);
        let patch = Patch::Strategic(ready);
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Kubelets end the pods that are to end.
    pub(crate) async fn end_pods(&self) {
        for pod in self.cluster.api::<Pod>().list(&Default::default()).await.unwrap() {
            if pod.metadata.deletion_timestamp.is_some() {
                let namespace = pod.metadata.namespace.as_deref().unwrap();
                let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), namespace);
                let at_once = DeleteParams::default().grace_period(0);
                pods.delete(pod.metadata.name.as_deref().unwrap(), &at_once).await.unwrap();
            }
        }
    }

    /// The machine side carries out what is asked and not answered; says whether there was something.
    pub(crate) async fn answer(&mut self) -> bool {
        let mut any = false;
        for machine in self.cluster.api::<Machine>().list(&Default::default()).await.unwrap() {
            let name = machine.name().to_owned();
            let Some(request) = machine.spec.request.clone() else { continue };
            let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
            if answer.is_some_and(|answer| answer.id == request.id) {
                continue;
            }
            any = true;
            self.done.entry(name.clone()).or_default().push(request.clone());
            self.carry_out(&name, &request).await;
        }
        any
    }

    async fn carry_out(&self, name: &str, request: &Request) {
        let fails = self.fails == Some(request.ask);
        // It says what it does before it does it.
        let now = self.cluster.now();
        let operation = Operation {
            id: format!("{}-0", request.id),
            effect: Effect::Power(Power::GracefulRestart),
            target: None,
            request: Some(request.id.clone()),
            boot: None,
            reset_before: None,
            told: Some(now),
            why: request.why.clone(),
            since: now,
            deadline: now,
        };
        self.machine_status(name, json!({"operation": operation})).await;
        if request.ask.leaves() {
            self.machine_status(name, json!({"state": "Triage", "pool": null})).await;
            let nodes: Api<Node> = self.cluster.api();
            nodes.delete(name, &DeleteParams::default()).await.unwrap();
        } else if request.ask.disrupts() && !fails {
            if matches!(request.ask, Ask::Reboot | Ask::PowerCycle) {
                self.boot(name, &format!("after-{}", request.id)).await;
            }
            self.heal(name, XID_95).await;
        }
        let answer = Answer {
            id: request.id.clone(),
            outcome: if fails { Outcome::Failed } else { Outcome::Succeeded },
            why: "so it is".to_owned(),
            boot: None,
            at: self.cluster.now(),
        };
        self.machine_status(name, json!({"answer": answer, "operation": null})).await;
    }

    /// Time passes in steps of five seconds, and all that is asked is answered.
    pub(crate) async fn live(&mut self, running: &Running, seconds: u64) {
        for _ in 0..seconds / 5 {
            idle(running).await;
            while self.answer().await {
                idle(running).await;
            }
            self.end_pods().await;
            self.cluster.pass(5).await;
        }
        idle(running).await;
    }

    /// The same, until nothing is open or asked.
    pub(crate) async fn rest(&mut self, running: &Running) {
        for _ in 0..100 {
            idle(running).await;
            let mut busy = self.answer().await;
            for incident in self.incidents().await {
                busy |= incident.status.is_none_or(|status| status.closed.is_none());
            }
            if !busy {
                return;
            }
            self.cluster.pass(5).await;
        }
        panic!("it never came to rest");
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.cluster.api().get(name).await.unwrap()
    }

    /// Whether a node is cordoned, and for which incident.
    pub(crate) async fn cordon(&self, name: &str) -> (bool, Option<String>) {
        let node = self.node(name).await;
        let mark = node.metadata.annotations.unwrap_or_default();
        let cordoned = node.spec.unwrap_or_default().unschedulable == Some(true);
        (cordoned, mark.get(api::names::CORDONED_FOR).cloned())
    }

    /// Status, reason and message of a condition of a node.
    pub(crate) async fn says(&self, name: &str, kind: &str) -> (String, String, String) {
        let all = self.node(name).await.status.unwrap().conditions.unwrap();
        let condition = all.into_iter().find(|c| c.type_ == kind).unwrap();
        (
            condition.status,
            condition.reason.unwrap_or_default(),
            condition.message.unwrap_or_default(),
        )
    }

    pub(crate) async fn machine(&self, name: &str) -> Machine {
        self.cluster.api().get(name).await.unwrap()
    }

    /// What is asked of a machine.
    pub(crate) async fn asked(&self, name: &str) -> Option<Request> {
        self.machine(name).await.spec.request
    }

    /// What the machine side has done for a machine.
    pub(crate) fn done(&self, name: &str) -> Vec<Ask> {
        self.done.get(name).into_iter().flatten().map(|request| request.ask).collect()
    }

    pub(crate) async fn incidents(&self) -> Vec<Incident> {
        self.cluster.api::<Incident>().list(&Default::default()).await.unwrap().items
    }

    pub(crate) async fn breakers(&self) -> Vec<Breaker> {
        self.cluster.api::<Breaker>().list(&Default::default()).await.unwrap().items
    }

    /// The nodes that hold a grant.
    pub(crate) async fn granted(&self) -> Vec<String> {
        let ledger: Ledger = self.cluster.api().get("fleet").await.unwrap();
        ledger.status.unwrap_or_default().grants.into_iter().map(|grant| grant.node).collect()
    }

    /// A person cordons or uncordons a node.
    pub(crate) async fn set_cordon(&self, name: &str, cordoned: Option<bool>) {
        let nodes: Api<Node> = self.cluster.api();
        let kubectl =
            PatchParams { field_manager: Some("kubectl".to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(json!({"spec": {"unschedulable": cordoned}}));
        nodes.patch(name, &kubectl, &patch).await.unwrap();
    }

    /// Every node serves, nothing is asked, held, cordoned or open.
    pub(crate) async fn assert_at_rest(&self, name: &str) {
        assert_eq!(self.cordon(name).await, (false, None));
        assert_eq!(self.says(name, "InService").await.1, "Serving");
        assert!(self.granted().await.is_empty());
        for incident in self.incidents().await {
            assert!(incident.status.as_ref().is_some_and(|s| s.closed.is_some()), "{incident:?}");
        }
    }
}
