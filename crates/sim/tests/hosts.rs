//! Agents and kubelets of simulated machines against the embedded server, on a held clock. What the
//! controllers would write, the tests write.
#![cfg(feature = "site")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::Machine;
use api::evidence::Evidence;
use api::machine::MachineStatus;
use api::names;
use api::request::{Outcome, Power, Task};
use apiserver::ApiServer;
use apiserver::auth::User;
use controllers::heartbeats::Heartbeats as _;
use controllers::nodelifecycle::NodeLifecycle;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kit::controller::{Manager, VIRTUAL_WATCH_LIFETIME};
use kit::ids::Ids;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use plan::catalogue::Catalogue;
use plan::node::{NodeSeen, Reported};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::datacentre::{Datacentre, Delays, Demo, Hardware, Heal, Layout, Settings};
use sim::hosts::kubelet::annotations;
use sim::hosts::{Clients, Hosts, Identity, Options, Signs};
use tower::ServiceExt as _;

/// Nothing here takes this long of simulated time unless it hangs.
const PATIENCE: Duration = Duration::from_secs(7 * 86_400);

struct Site {
    client: Client,
    clients: Clients,
    clock: Clock,
    datacentre: Datacentre,
    catalogue: Arc<Catalogue>,
    requests: Arc<AtomicU64>,
    /// No request of a host reaches the API; what is being watched goes on.
    unreachable: Arc<AtomicBool>,
    hosts: Option<Hosts>,
}

fn on_a_site(machines: u32, test: impl AsyncFnOnce(Site)) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let patient = tokio::time::timeout(PATIENCE, async {
            let site = Site::new(machines).await;
            test(site).await;
        });
        patient.await.expect("it never came to be");
    });
}

impl Site {
    async fn new(machines: u32) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::in_memory(clock.clone(), Ids::seeded(1)).await.unwrap();
        let client = Client::new(server.service_as_admin(), "default");
        let catalogue = Arc::new(Catalogue::load(&[]).unwrap());
        let racks = machines.div_ceil(16);
        let demo = Demo { gpu_nodes: machines, cpu_nodes: 0, racks, spares: 0, seed: 1 };
        let settings = Settings {
            clock: clock.clone(),
            delays: Delays::load().unwrap(),
            catalogue: Arc::clone(&catalogue),
            seed: 1,
            file: None,
        };
        let datacentre = Datacentre::start(Layout::demo(&demo).unwrap(), settings).unwrap();
        let requests = Arc::<AtomicU64>::default();
        let unreachable = Arc::<AtomicBool>::default();
        let (count, cut) = (Arc::clone(&requests), Arc::clone(&unreachable));
        let clients: Clients = Arc::new(move |user, groups| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let user = User { name: user.to_owned(), groups, ..User::default() };
            let (count, cut) = (Arc::clone(&count), Arc::clone(&cut));
            let service = server.service_as(user);
            let counted = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                count.fetch_add(1, Ordering::Relaxed);
                let (service, cut) = (service.clone(), cut.load(Ordering::Relaxed));
                async move {
                    if cut {
                        return Err(std::io::Error::other("the network is cut"));
                    }
                    Ok(service.oneshot(request).await.unwrap_or_else(|never| match never {}))
                }
            });
            Client::new(counted, "default")
        });
        let mut site = Self {
            client,
            clients,
            clock,
            datacentre,
            catalogue,
            requests,
            unreachable,
            hosts: None,
        };
        site.prepare().await;
        site.start(Signs::Function);
        site
    }

    /// What an installation and an operator bring.
    async fn prepare(&self) {
        for definition in api::definitions() {
            self.create::<CustomResourceDefinition>(None, &definition).await;
        }
        self.create::<ClusterRole>(None, &agent::cluster_role()).await;
        self.create::<ClusterRoleBinding>(None, &agent::cluster_role_binding()).await;
        let space = json!({"metadata": {"name": names::MACHINES}});
        self.create::<Namespace>(None, &space).await;
        self.create::<Role>(Some(names::MACHINES), &agent::role()).await;
        self.create::<RoleBinding>(Some(names::MACHINES), &agent::role_binding()).await;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let established = async || {
            let all = definitions.list(&Default::default()).await.unwrap();
            let holds = |definition: &CustomResourceDefinition| {
                let conditions =
                    definition.status.iter().flat_map(|s| s.conditions.iter().flatten());
                { conditions }.any(|c| c.type_ == "Established" && c.status == "True")
            };
            all.iter().all(holds)
        };
        self.until(established).await;
        for machine in self.datacentre.layout().objects("http://bmcs").machines {
            self.create::<Machine>(None, &machine).await;
        }
    }

    fn start(&mut self, signs: Signs) {
        let identity = Identity::Declared;
        let options = Options { signs, ids: Ids::seeded(2), identity };
        let hosts = Hosts::start(&self.datacentre, Arc::clone(&self.clients), options).unwrap();
        self.hosts = Some(hosts);
    }

    /// The process of the hosts dies; the hardware goes on.
    async fn stop(&mut self) {
        self.hosts.take().unwrap().stop().await;
    }

    async fn create<K>(&self, namespace: Option<&str>, object: &impl Serialize) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let url = K::url_path(&(), namespace);
        let body = serde_json::to_vec(object).unwrap();
        let request = kube::core::Request::new(url).create(&PostParams::default(), body);
        self.client.request(request.unwrap()).await.unwrap()
    }

    /// Waits until something holds, looking every second.
    async fn until(&self, holds: impl AsyncFn() -> bool) {
        while !holds().await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn first(&self) -> Hardware {
        self.datacentre.machines().next().unwrap()
    }

    fn machines(&self) -> Api<Machine> {
        Api::all(self.client.clone())
    }

    async fn status(&self, name: &str) -> MachineStatus {
        self.machines().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// What the machine controller would write.
    async fn set(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams {
            field_manager: Some(names::manager::MACHINE.to_owned()),
            ..Default::default()
        };
        self.machines().patch_status(name, &params, &patch).await.unwrap();
    }

    async fn ask(&self, name: &str, id: &str, chore: &str) -> Task {
        let boot = self.status(name).await.agent.unwrap().boot;
        let task = json!({"id": id, "chore": chore, "boot": boot, "why": "a test asks"});
        self.set(name, json!({"task": task})).await;
        serde_json::from_value(task).unwrap()
    }

    async fn reported(&self, name: &str, id: &str) -> api::request::Report {
        let done = async || self.status(name).await.report.is_some_and(|report| report.id == id);
        self.until(done).await;
        self.status(name).await.report.unwrap()
    }

    /// The shipped node lifecycle controller, which hears of the hosts by function.
    fn lease_monitor(&self) -> kit::controller::Running {
        let mut manager = Manager::new(kit::controller::Options {
            client: self.client.clone(),
            clock: self.clock.clone(),
            ids: Ids::seeded(3),
            watch_lifetime: VIRTUAL_WATCH_LIFETIME,
            instance: "test".to_owned(),
        });
        let heartbeats = Arc::new(self.hosts.as_ref().unwrap().heartbeats());
        manager.add_with::<NodeLifecycle>(self.client.clone(), Some(heartbeats));
        manager.start()
    }

    async fn is_ready(&self, name: &str) -> bool {
        self.node(name).await.is_some_and(|node| is_ready(&node))
    }

    async fn node(&self, name: &str) -> Option<Node> {
        Api::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    /// Switches the machine on and brings its node up.
    async fn serve(&self, hardware: &Hardware) -> Node {
        hardware.power(Power::On, None);
        self.set(hardware.name(), json!({"state": "Production"})).await;
        let ready = async || self.node(hardware.name()).await.is_some_and(|node| is_ready(&node));
        self.until(ready).await;
        self.node(hardware.name()).await.unwrap()
    }

    /// The rows and parts that the node's conditions are read as.
    async fn faults(&self, name: &str) -> Vec<(String, Option<String>)> {
        let Some(node) = self.node(name).await else { return Vec::new() };
        let seen = seen(&node);
        let faults = plan::node::faults(&seen, &self.catalogue);
        faults.iter().map(|fault| (fault.row.id.to_string(), fault.part.clone())).collect()
    }

    async fn pod(&self, name: &str, node: &str, policy: &str, said: &[(&str, &str)]) -> Pod {
        let annotations: std::collections::BTreeMap<_, _> = said.iter().copied().collect();
        let pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": node, "restartPolicy": policy,
                "containers": [{"name": "c", "image": "train"}]},
        });
        self.create(Some("default"), &pod).await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn phase(&self, pod: &str) -> String {
        let pod = self.pods().get_opt(pod).await.unwrap();
        pod.map_or("gone".to_owned(), |pod| {
            pod.status.unwrap_or_default().phase.unwrap_or_default()
        })
    }

    async fn until_phase(&self, pod: &str, phase: &str) {
        self.until(async || self.phase(pod).await == phase).await;
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    { conditions }.any(|c| c.type_ == "Ready" && c.status == "True")
}

fn boot(node: &Node) -> String {
    node.status.as_ref().unwrap().node_info.as_ref().unwrap().boot_id.clone()
}

/// The node as the node controller reads it.
fn seen(node: &Node) -> NodeSeen {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions.map(|c| Reported {
        kind: c.type_.clone(),
        holds: c.status == "True",
        reason: c.reason.clone().unwrap_or_default(),
        message: c.message.clone().unwrap_or_default(),
        by: names::manager::AGENT.to_owned(),
        since: c.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0),
    });
    NodeSeen {
        name: node.metadata.name.clone().unwrap_or_default(),
        boot: Some(boot(node)),
        conditions: conditions.collect(),
        ..NodeSeen::default()
    }
}

#[test]
fn a_machine_that_is_switched_on_speaks_within_its_delay() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let began = site.clock.now();
        hardware.power(Power::On, None);
        site.until(async || site.status(hardware.name()).await.agent.is_some()).await;
        let agent = site.status(hardware.name()).await.agent.unwrap();
        let took = agent.since.duration_since(began).as_secs();
        assert!((390..420).contains(&took), "150 s to DHCP and 240 s to boot, not {took}");
        assert!(agent.kernel.is_some());
        site.pass(3_600).await;
        assert_eq!(site.status(hardware.name()).await.agent, Some(agent));
        assert!(site.node(hardware.name()).await.is_none(), "it is not in production");
    });
}

#[test]
fn a_task_is_carried_out_once_whoever_dies_meanwhile() {
    on_a_site(1, async |mut site| {
        let name = site.first().name().to_owned();
        site.first().power(Power::On, None);
        site.until(async || site.status(&name).await.agent.is_some()).await;
        let task = site.ask(&name, "t1", "Inventory").await;
        let report = site.reported(&name, "t1").await;
        assert_eq!((report.outcome, &report.boot), (Outcome::Succeeded, &task.boot));
        let status = site.status(&name).await;
        assert_eq!(status.inventory.unwrap().gpus, 8);
        assert!(!status.firmware.is_empty());

        site.stop().await;
        site.start(Signs::Function);
        site.pass(3_600).await;
        assert_eq!(site.status(&name).await.report.unwrap(), report, "it is not done again");

        let began = site.clock.now();
        site.ask(&name, "t2", "TestQuick").await;
        site.pass(120).await;
        site.stop().await;
        site.pass(60).await;
        site.start(Signs::Function);
        let report = site.reported(&name, "t2").await;
        assert_eq!(report.outcome, Outcome::Succeeded);
        let took = report.at.duration_since(began).as_secs();
        assert!((590..620).contains(&took), "it went on where it was: {took} s");

        // A task of another boot is not this agent's.
        let other = json!({"id": "t3", "chore": "TestReadiness", "boot": "other", "why": "late"});
        site.set(&name, json!({"task": other})).await;
        site.pass(3_600).await;
        assert_eq!(site.status(&name).await.report.unwrap().id, "t2");
    });
}

#[test]
fn a_test_of_idle_time_gives_way_to_work() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        site.serve(&hardware).await;
        site.ask(hardware.name(), "idle-1", "TestIdle").await;
        site.pass(5).await;
        site.pod("work", hardware.name(), "Never", &[]).await;
        site.pass(4 * 3_600).await;
        let report = site.status(hardware.name()).await.report;
        assert_eq!(report, None, "what was given up is no verdict");
        assert_eq!(site.phase("work").await, "Running");
        site.set(hardware.name(), json!({"task": null})).await;
        site.ask(hardware.name(), "proof", "TestQuick").await;
        assert_eq!(site.reported(hardware.name(), "proof").await.outcome, Outcome::Succeeded);
    });
}

#[test]
fn a_machine_in_production_has_a_node_and_one_that_leaves_has_none() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let node = site.serve(&hardware).await;
        let labels = node.metadata.labels.clone().unwrap();
        assert_eq!(labels[names::MACHINE], hardware.name());
        let status = node.status.clone().unwrap();
        assert_eq!(status.capacity.unwrap()["nvidia.com/gpu"].0, "8");
        assert_eq!(boot(&node), site.status(hardware.name()).await.agent.unwrap().boot);
        assert!(node.spec.unwrap().provider_id.unwrap().ends_with(hardware.name()));
        let heartbeats = site.hosts.as_ref().unwrap().heartbeats();
        let last = heartbeats.last(hardware.name(), site.clock.now()).unwrap();
        assert!(site.clock.now().duration_since(last).as_secs() < 10);
        assert!(heartbeats.beats(hardware.name()));

        site.set(hardware.name(), json!({"state": "Triage"})).await;
        site.pass(5).await;
        let nodes: Api<Node> = Api::all(site.client.clone());
        nodes.delete(hardware.name(), &DeleteParams::default()).await.unwrap();
        let left = site.clock.now();
        site.pass(3_600).await;
        assert!(site.node(hardware.name()).await.is_none());
        let last = heartbeats.last(hardware.name(), site.clock.now()).unwrap();
        assert!(last <= left, "{last}");
        // A node that is deleted under a kubelet stays away until the kubelet starts anew.
        site.set(hardware.name(), json!({"state": "Production"})).await;
        site.until(async || site.node(hardware.name()).await.is_some()).await;
        nodes.delete(hardware.name(), &DeleteParams::default()).await.unwrap();
        site.pass(3_600).await;
        assert!(site.node(hardware.name()).await.is_none());
        hardware.power(Power::ForceRestart, None);
        site.until(async || site.node(hardware.name()).await.is_some()).await;
    });
}

#[test]
fn pods_run_end_and_do_not_survive_their_node() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        site.serve(&hardware).await;
        let runs = [(annotations::RUNS_FOR, "90s")];
        site.pod("job", hardware.name(), "Never", &runs).await;
        site.pod("service", hardware.name(), "Always", &[]).await;
        site.pod("train", hardware.name(), "Never", &[]).await;
        site.until_phase("job", "Running").await;
        let pod = site.pods().get("job").await.unwrap().status.unwrap();
        assert!(pod.pod_ip.is_some() && pod.start_time.is_some());
        site.until_phase("job", "Succeeded").await;
        site.until_phase("train", "Running").await;

        hardware.power(Power::ForceRestart, None);
        site.until_phase("train", "Failed").await;
        site.until_phase("service", "Running").await;
        let restarts = async || {
            let status = site.pods().get("service").await.unwrap().status.unwrap();
            status.container_statuses.unwrap()[0].restart_count
        };
        site.until(async || restarts().await == 1).await;
        site.pods().delete("service", &DeleteParams::default()).await.unwrap();
        site.until_phase("service", "gone").await;
        // Nobody ends a pod on a machine without power.
        site.pod("stranded", hardware.name(), "Always", &[]).await;
        site.until_phase("stranded", "Running").await;
        hardware.power(Power::Off, None);
        site.pass(60).await;
        site.pods().delete("stranded", &DeleteParams::default()).await.unwrap();
        site.pass(3_600).await;
        assert_eq!(site.phase("stranded").await, "Running");
    });
}

#[test]
fn a_fault_becomes_evidence_and_a_reboot_clears_it() {
    on_a_site(1, async |mut site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        let first = boot(&site.serve(&hardware).await);
        let fault = site.datacentre.faults().named("gpu-firmware").unwrap();
        let row = fault.row.clone().unwrap();
        let struck = site.clock.now();
        hardware.strike(fault);
        site.until(async || !site.faults(&name).await.is_empty()).await;
        let found = site.faults(&name).await;
        assert_eq!(found[0].0, row);
        assert!(found[0].1.is_some(), "the part is named");
        let node = site.node(&name).await.unwrap();
        let shown = node.status.unwrap().conditions.unwrap();
        let shown =
            shown.iter().find(|c| c.message.as_deref().is_some_and(|m| m.contains("boot=")));
        let shown = shown.unwrap();
        let evidence = Evidence::read(shown.message.as_deref().unwrap());
        assert_eq!(evidence.boot.as_deref(), Some(first.as_str()));
        let since = shown.last_transition_time.as_ref().unwrap().0;
        assert!(since.duration_since(struck).as_secs() <= 1, "{since}");

        // A restarted agent forgets nothing, and says nothing twice.
        site.stop().await;
        site.start(Signs::Function);
        site.pass(3_600).await;
        assert_eq!(site.faults(&name).await, found);
        let again = site.node(&name).await.unwrap().status.unwrap().conditions.unwrap();
        let again = again.iter().find(|c| c.type_ == shown.type_).unwrap();
        assert_eq!(again.last_transition_time, shown.last_transition_time);

        hardware.power(Power::ForceRestart, None);
        let rebooted = async || {
            let node = site.node(&name).await.unwrap();
            boot(&node) != first && is_ready(&node)
        };
        site.until(rebooted).await;
        site.pass(60).await;
        assert_eq!(site.faults(&name).await, []);
        let node = site.node(&name).await.unwrap();
        let left =
            seen(&node).conditions.into_iter().filter(|c| c.holds && c.message.contains("boot="));
        assert_eq!(left.count(), 0);
    });
}

#[test]
fn a_number_that_is_back_takes_its_condition_back() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        site.serve(&hardware).await;
        hardware.strike(site.datacentre.faults().named("gpu-hot").unwrap());
        site.until(async || !site.faults(&name).await.is_empty()).await;
        hardware.heal(&Heal::All);
        site.until(async || site.faults(&name).await.is_empty()).await;
    });
}

#[test]
fn what_is_slow_beside_its_peers_is_the_monitors_to_say() {
    on_a_site(1, async |mut site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        site.serve(&hardware).await;
        hardware.strike(site.datacentre.faults().named("straggler").unwrap());
        site.until(async || !site.faults(&name).await.is_empty()).await;
        let found = site.faults(&name).await;
        assert_eq!(found[0].0, "perf/straggler");
        let node = site.node(&name).await.unwrap();
        let writers: Vec<_> = node.metadata.managed_fields.iter().flatten().collect();
        let wrote = |manager: &str| writers.iter().any(|w| w.manager.as_deref() == Some(manager));
        assert!(wrote(names::manager::MONITOR) && !wrote(names::manager::AGENT));
        site.stop().await;
        site.start(Signs::Function);
        site.pass(600).await;
        assert_eq!(site.faults(&name).await, found);
        hardware.heal(&Heal::All);
        site.until(async || site.faults(&name).await.is_empty()).await;
    });
}

#[test]
fn an_api_that_is_out_of_reach_loses_nothing() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        site.serve(&hardware).await;
        site.unreachable.store(true, Ordering::Relaxed);
        let before = site.requests.load(Ordering::Relaxed);
        hardware.strike(site.datacentre.faults().named("gpu-firmware").unwrap());
        hardware.strike(site.datacentre.faults().named("gpu-hot").unwrap());
        site.ask(&name, "t1", "Inventory").await;
        site.pod("work", &name, "Always", &[]).await;
        site.pass(1_800).await;
        let asked = site.requests.load(Ordering::Relaxed) - before;
        assert!((10..250).contains(&asked), "more and more rarely: {asked}");
        assert_eq!(site.faults(&name).await, []);
        assert_eq!(site.status(&name).await.report, None);

        site.unreachable.store(false, Ordering::Relaxed);
        site.until(async || site.faults(&name).await.len() == 2).await;
        assert_eq!(site.reported(&name, "t1").await.outcome, Outcome::Succeeded);
        site.until_phase("work", "Running").await;
    });
}

#[test]
fn a_kubelet_that_falls_silent_is_heard_of_no_more() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        site.serve(&hardware).await;
        let heartbeats = site.hosts.as_ref().unwrap().heartbeats();
        let running = site.lease_monitor();
        let told = Arc::<AtomicU64>::default();
        let count = Arc::clone(&told);
        heartbeats.listen(Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        site.pod("service", &name, "Always", &[]).await;
        site.until_phase("service", "Running").await;

        let struck = site.clock.now();
        hardware.strike(site.datacentre.faults().named("node-silent").unwrap());
        site.pass(60).await;
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert!(!site.is_ready(&name).await, "the lease monitor has found it silent");
        let last = heartbeats.last(&name, site.clock.now()).unwrap();
        assert!(last <= struck && !heartbeats.beats(&name), "{last}");
        site.pods().delete("service", &DeleteParams::default()).await.unwrap();
        site.pass(600).await;
        assert_eq!(site.phase("service").await, "Running", "nobody hears of it");

        hardware.heal(&Heal::All);
        site.until_phase("service", "gone").await;
        assert_eq!(told.load(Ordering::Relaxed), 2);
        assert!(heartbeats.beats(&name));
        site.until(async || site.is_ready(&name).await).await;
        site.pass(600).await;
        assert!(site.is_ready(&name).await, "no Lease is renewed, and none is missed");
        running.stop().await;
    });
}

#[test]
fn a_thousand_machines_at_rest_ask_nothing() {
    on_a_site(1_000, async |site| {
        for hardware in site.datacentre.machines() {
            hardware.power(Power::On, None);
            site.set(hardware.name(), json!({"state": "Production"})).await;
        }
        let nodes: Api<Node> = Api::all(site.client.clone());
        let all = async || nodes.list(&Default::default()).await.unwrap().items;
        site.until(async || all().await.iter().filter(|node| is_ready(node)).count() == 1_000)
            .await;
        site.pass(600).await;
        let settled = site.requests.load(Ordering::Relaxed);
        site.pass(3_600).await;
        assert_eq!(site.requests.load(Ordering::Relaxed) - settled, 0);
        // Three watches; of each machine its word and its node.
        assert_eq!(settled, 3 + 2 * 1_000);
    });
}

#[test]
fn an_agent_on_the_wall_clock_renews_its_own_lease_and_nobody_elses() {
    on_a_site(2, async |mut site| {
        site.stop().await;
        for (policy, binding) in agent::policies() {
            site.create::<ValidatingAdmissionPolicy>(None, &policy).await;
            site.create::<ValidatingAdmissionPolicyBinding>(None, &binding).await;
        }
        site.start(Signs::Leases);
        let hardware = site.first();
        hardware.power(Power::On, None);
        let leases: Api<Lease> = Api::namespaced(site.client.clone(), names::MACHINES);
        let lease = async || leases.get_opt(hardware.name()).await.unwrap();
        site.until(async || lease().await.is_some()).await;
        let renewed = |lease: &Lease| lease.spec.as_ref().unwrap().renew_time.clone().unwrap().0;
        let first = lease().await.unwrap();
        let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Machine", hardware.name()));
        site.pass(600).await;
        let age = site.clock.now().duration_since(renewed(&lease().await.unwrap()));
        assert!(age.as_secs() <= 61, "{age:#}");

        // Its kubelet may live; a fault that silences the agent ends its Lease.
        hardware.strike(site.datacentre.faults().named("agent-dead").unwrap());
        site.pass(1).await;
        let last = renewed(&lease().await.unwrap());
        site.pass(600).await;
        assert_eq!(renewed(&lease().await.unwrap()), last);

        let other = site.datacentre.machines().nth(1).unwrap();
        let user = format!("{}{}", names::MACHINE_USER, other.name());
        let client = (site.clients)(&user, &[names::MACHINE_GROUP, "system:authenticated"]);
        let foreign: Api<Lease> = Api::namespaced(client, names::MACHINES);
        let patch = Patch::Merge(json!({"spec": {"renewTime": null}}));
        let refused = foreign.patch(hardware.name(), &PatchParams::default(), &patch).await;
        let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
        assert_eq!(status.code, 403);
        assert!(status.message.contains("speaks for its own machine"), "{}", status.message);
        site.stop().await;
    });
}
