//! Machines that join by the boot service: in virtual time, with every identity asked for and every
//! credential judged. What the lifecycle would write, the tests write.
#![cfg(feature = "site")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ::controllers::boot::{Addresses, Desk, joining, namespace};
use ::controllers::{ALL, Entry, Site as Settings};
use api::{Machine, names};
use apiserver::auth::User;
use apiserver::auth::authn::Authenticator;
use apiserver::auth::certificate::ClientCertificates;
use apiserver::{ApiServer, InFlight, Plugin};
use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kit::controller::{Manager, Options as Managing, Running, VIRTUAL_WATCH_LIFETIME};
use kit::ids::Ids;
use kit::pki::Pki;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource};
use metal::boot::{Claim, Identity as Told, NotGiven};
use metal::{Exchange, Unreachable};
use plan::catalogue::Catalogue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::datacentre::{BootService, Datacentre, Delays, Demo, Hardware, Layout};
use sim::hosts::{Asking, Clients, Credential, Door, Hosts, Identity, Options, Signs, door};
use tower::ServiceExt as _;

/// Nothing here takes this long of simulated time unless it hangs.
const PATIENCE: Duration = Duration::from_secs(7 * 86_400);
const URL: &str = "http://boot.site";
const RBAC: &str = "rbac.authorization.k8s.io";
const READER: &str = "system:seatrial:controllers";
const FOLDERS: [&str; 5] = ["boot", "joinapproving", "csrapproving", "csrsigning", "tokencleaner"];

struct Site {
    client: Client,
    clock: Clock,
    datacentre: Datacentre,
    clients: Clients,
    door: Door,
    /// To the boot service, as machines reach it.
    boots: Exchange,
    /// The boot service is out of reach.
    away: Arc<AtomicBool>,
    /// What hosts asked of the API.
    requests: Arc<AtomicU64>,
    hosts: Option<Hosts>,
    running: Running,
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
        let directory = tempfile::tempdir().unwrap();
        let pki = Pki::open(directory.path().join("pki"), clock.clone()).unwrap();
        let authority = pki.authority("ca", "test").unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let root = authority.certificate_pem().as_bytes();
        roots.add(CertificateDer::from_pem_slice(root).unwrap()).unwrap();
        let (_, stopping) = tokio::sync::watch::channel(false);
        let server = ApiServer::new(apiserver::Options {
            store: Arc::new(store::MemoryStore::new()),
            clock: clock.clone(),
            ids: Ids::seeded(1),
            authenticator: Authenticator {
                client_certificates: Some(ClientCertificates::new(Arc::new(roots)).unwrap()),
                ..Authenticator::default()
            },
            token_key: None,
            without: Plugin::OF_CONTROLLERS.into(),
            audit: None,
            inflight: InFlight::UNLIMITED,
            bookmark_every: None,
            stopping,
        });
        let server = server.await.unwrap();
        let client = Client::new(server.service_as_admin(), "default");
        let demo = Demo {
            gpu_nodes: machines,
            cpu_nodes: 0,
            racks: machines.div_ceil(16),
            spares: 0,
            seed: 1,
        };
        let settings = sim::datacentre::Settings {
            clock: clock.clone(),
            delays: Delays::load().unwrap(),
            catalogue: Arc::new(Catalogue::load(&[]).unwrap()),
            seed: 1,
            file: None,
        };
        let datacentre = Datacentre::start(Layout::demo(&demo).unwrap(), settings).unwrap();
        let desk = Desk::new(Addresses { service: URL.to_owned(), ..Addresses::default() });
        let away = Arc::<AtomicBool>::default();
        let boots = cut(desk.exchange(), Arc::clone(&away));
        datacentre.boot_from(BootService { exchange: boots.clone(), url: URL.to_owned() });
        let settings = Settings {
            fleet: true,
            authority: Some(authority),
            boots: Some(desk),
            ..Settings::default()
        };
        let requests = Arc::<AtomicU64>::default();
        let door = counted(door(&server), Arc::clone(&requests));
        let clients: Clients = Arc::new(move |user, groups| acting(&server, user, groups));
        prepare(&client, &datacentre).await;
        let running = start(&client, &clients, &clock, &settings).await;
        let hosts = None;
        let mut site = Self {
            client,
            clock,
            datacentre,
            clients,
            door,
            boots,
            away,
            requests,
            hosts,
            running,
        };
        site.start();
        site
    }

    fn start(&mut self) {
        let boots = BootService { exchange: self.boots.clone(), url: URL.to_owned() };
        let asking = Asking { boots, door: Arc::clone(&self.door) };
        let options = Options {
            signs: Signs::Function,
            ids: Ids::seeded(2),
            identity: Identity::Asked(asking),
        };
        let hosts = Hosts::start(&self.datacentre, Arc::clone(&self.clients), options).unwrap();
        self.hosts = Some(hosts);
    }

    /// The process of the hosts dies; the hardware goes on.
    async fn stop(&mut self) {
        self.hosts.take().unwrap().stop().await;
    }

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

    async fn machine(&self, name: &str) -> Machine {
        self.machines().get(name).await.unwrap()
    }

    /// What the lifecycle would write.
    async fn set(&self, name: &str, state: &str) {
        let patch = Patch::Merge(json!({"status": {"state": state}}));
        self.machines().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn node(&self, name: &str) -> Option<Node> {
        Api::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    /// The boot that the node's kubelet has said.
    async fn boot(&self, name: &str) -> Option<String> {
        let status = self.node(name).await?.status?;
        Some(status.node_info?.boot_id)
    }

    /// Switches a machine on and waits until its node has joined.
    async fn serve(&self, hardware: &Hardware) {
        hardware.power(api::request::Power::On, None);
        self.set(hardware.name(), "Production").await;
        self.until(async || self.boot(hardware.name()).await.is_some()).await;
    }

    async fn requested(&self) -> Vec<CertificateSigningRequest> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        requests.list(&ListParams::default()).await.unwrap().items
    }

    async fn enrol(&self, hardware: &Hardware, boot: &str) -> Result<Told, NotGiven> {
        let mac = hardware.plan().macs[0].clone();
        let claim = Claim { mac, boot: boot.to_owned(), secret: "s".repeat(32) };
        metal::boot::enrol(&self.boots, URL, &claim).await
    }
}

/// A boot service that can be out of reach.
fn cut(exchange: Exchange, away: Arc<AtomicBool>) -> Exchange {
    Exchange::new(tower::service_fn(move |request: http::Request<Bytes>| {
        let (exchange, cut) = (exchange.clone(), away.load(Ordering::Relaxed));
        async move {
            if cut {
                let (host, why) = ("boot.site".to_owned(), "the network is cut".to_owned());
                return Err(Unreachable { host, why });
            }
            exchange.oneshot(request).await
        }
    }))
}

fn counted(door: Door, requests: Arc<AtomicU64>) -> Door {
    Arc::new(move |credential| {
        let (client, requests) = (door(credential), Arc::clone(&requests));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            requests.fetch_add(1, Ordering::Relaxed);
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    })
}

fn acting(server: &ApiServer, user: &str, groups: &[&str]) -> Client {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let user = User { name: user.to_owned(), groups, ..User::default() };
    Client::new(server.service_as(user), "default")
}

async fn create<K>(client: &Client, object: &K)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let url = K::url_path(&(), object.meta().namespace.as_deref());
    let body = serde_json::to_vec(object).unwrap();
    let request = kube::core::Request::new(url).create(&PostParams::default(), body);
    client.request::<K>(request.unwrap()).await.unwrap();
}

fn user(name: &str) -> Subject {
    let (api_group, kind) = (Some(RBAC.to_owned()), "User".to_owned());
    Subject { api_group, kind, name: name.to_owned(), namespace: None }
}

fn reference(kind: &str, role: &ObjectMeta) -> RoleRef {
    let (api_group, name) = (RBAC.to_owned(), role.name.clone().unwrap());
    RoleRef { api_group, kind: kind.to_owned(), name }
}

/// What an installation and an operator bring.
async fn prepare(client: &Client, datacentre: &Datacentre) {
    for definition in api::definitions() {
        create::<CustomResourceDefinition>(client, &definition).await;
    }
    create::<ClusterRole>(client, &agent::cluster_role()).await;
    create::<ClusterRoleBinding>(client, &agent::cluster_role_binding()).await;
    for (policy, binding) in agent::policies() {
        create::<ValidatingAdmissionPolicy>(client, &policy).await;
        create::<ValidatingAdmissionPolicyBinding>(client, &binding).await;
    }
    create::<Namespace>(client, &namespace()).await;
    for binding in joining() {
        create::<ClusterRoleBinding>(client, &binding).await;
    }
    let objects = datacentre.layout().objects("http://bmcs");
    for kind in &objects.instance_types {
        create(client, kind).await;
    }
    for machine in &objects.machines {
        create(client, machine).await;
    }
}

/// The controllers that take part, each with exactly its role.
async fn start(client: &Client, clients: &Clients, clock: &Clock, site: &Settings) -> Running {
    let mut manager = Manager::new(Managing {
        client: clients(READER, &["system:authenticated"]),
        clock: clock.clone(),
        ids: Ids::seeded(3),
        watch_lifetime: VIRTUAL_WATCH_LIFETIME,
        instance: "test".to_owned(),
    });
    let takes_part = |entry: &&Entry| FOLDERS.contains(&entry.folder);
    for entry in ALL.iter().filter(takes_part) {
        let (declaration, name) = ((entry.declare)(), format!("controller:{}", entry.folder));
        let role = declaration.cluster_role();
        let subjects = Some(vec![user(&name), user(READER)]);
        let role_ref = reference("ClusterRole", &role.metadata);
        let metadata = ObjectMeta { name: role.metadata.name.clone(), ..ObjectMeta::default() };
        create(client, &role).await;
        create(client, &ClusterRoleBinding { metadata, role_ref, subjects }).await;
        for role in declaration.roles() {
            let (metadata, subjects) = (role.metadata.clone(), Some(vec![user(&name)]));
            let role_ref = reference("Role", &role.metadata);
            create(client, &role).await;
            create(client, &RoleBinding { metadata, role_ref, subjects }).await;
        }
        (entry.add)(&mut manager, clients(&name, &["system:authenticated"]), site);
    }
    manager.start()
}

/// The rows that `kubectl get` prints of a kind, each cell under its column.
async fn printed(client: &Client, path: &str) -> Vec<Value> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    let table: Value = client.request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].clone());
    let names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
    let row = |row: &Value| {
        let cells = row["cells"].as_array().unwrap().iter().cloned();
        Value::Object(names.iter().cloned().zip(cells).collect())
    };
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_machine_joins_by_a_token_of_its_own() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        hardware.power(api::request::Power::On, None);
        let speaks = async || site.machine(&name).await.status.is_some_and(|s| s.agent.is_some());
        site.until(speaks).await;
        site.pass(3_600).await;
        assert!(site.node(&name).await.is_none(), "it is not in production");
        assert!(site.requested().await.is_empty());

        site.serve(&hardware).await;
        let rows = printed(&site.client, "/apis/certificates.k8s.io/v1/certificatesigningrequests");
        let rows = rows.await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0]["Condition"], "Approved,Issued");
        let status = site.machine(&name).await.status.unwrap();
        let (enrolment, spent) = (status.enrolment.unwrap(), status.admission.unwrap());
        let token = enrolment.token.unwrap();
        assert_eq!(rows[0]["Requestor"], format!("system:bootstrap:{}", token.id));
        assert_eq!(site.boot(&name).await, Some(enrolment.boot));
        assert_eq!((spent.token, token.count), (token.id, 1));

        // Nothing is left of the token but its record.
        let secrets: Api<Secret> = Api::namespaced(site.client.clone(), "kube-system");
        let tokens = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        site.until(async || secrets.list(&tokens).await.unwrap().items.is_empty()).await;
        assert!(site.clock.now().duration_since(token.expires).as_secs() < 2);
        site.running.stop().await;
    });
}

#[test]
fn an_agent_speaks_for_its_own_machine_only() {
    on_a_site(2, async |site| {
        let machines: Vec<Hardware> = site.datacentre.machines().collect();
        let (own, other) = (machines[0].name(), machines[1].name());
        site.serve(&machines[0]).await;
        site.serve(&machines[1]).await;
        let told = site.enrol(&machines[0], "another-boot").await.unwrap();
        let agent = (site.door)(Credential::token(told.token));
        let says = async |name: &str, status: Value| {
            let params = PatchParams::apply(names::manager::AGENT).force();
            let body = json!({"apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine",
                "status": status});
            let machines: Api<Machine> = Api::all(agent.clone());
            machines.patch_status(name, &params, &Patch::Apply(body)).await.map(drop)
        };
        let word = json!({"agent": {"boot": "x", "image": "i", "since": "2026-01-01T00:00:00Z"}});
        says(own, word.clone()).await.unwrap();
        let refused = |done: kube::Result<()>, why: &str| {
            let Err(kube::Error::Api(status)) = done else { panic!("{why}: {done:?}") };
            assert!(status.code == 403 && status.message.contains(why), "{status:?}");
        };
        refused(says(other, word).await, "its own machine and node only");
        for theft in [
            json!({"state": "RMA"}),
            json!({"tenant": "mine"}),
            json!({"enrolment": {"boot": "x", "proof": "y", "since": "2026-01-01T00:00:00Z"}}),
            json!({"admission": {"token": "x", "request": "y"}}),
        ] {
            refused(says(own, theft).await, "an agent writes agent, inventory");
        }
        let nodes: Api<Node> = Api::all(agent.clone());
        let params = PatchParams::default();
        let hot = json!({"status": {"conditions": [{"type": "Hot", "status": "True"}]}});
        let shows = async |name: &str| {
            nodes.patch_status(name, &params, &Patch::Strategic(hot.clone())).await.map(drop)
        };
        shows(own).await.unwrap();
        refused(shows(other).await, "its own machine and node only");
        let secrets: Api<Secret> = Api::namespaced(agent.clone(), names::NAMESPACE);
        refused(secrets.list(&ListParams::default()).await.map(drop), "forbidden");
        site.running.stop().await;
    });
}

#[test]
fn every_boot_has_its_own_identity_and_a_restart_keeps_it() {
    on_a_site(1, async |mut site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        site.serve(&hardware).await;
        let first = site.boot(&name).await.unwrap();
        assert_eq!(site.requested().await.len(), 1);

        // Who starts again during a boot goes on with what lies in the machine's memory.
        site.stop().await;
        site.pass(600).await;
        site.start();
        site.pass(600).await;
        assert_eq!(site.requested().await.len(), 1);

        let enrolment = site.machine(&name).await.status.unwrap().enrolment.unwrap();
        hardware.power(api::request::Power::ForceRestart, None);
        site.until(async || site.boot(&name).await.is_some_and(|boot| boot != first)).await;
        let second = site.machine(&name).await.status.unwrap().enrolment.unwrap();
        assert_ne!((&second.boot, &second.proof), (&enrolment.boot, &enrolment.proof));
        assert_eq!(site.boot(&name).await, Some(second.boot.clone()));
        assert_eq!(site.requested().await.len(), 2);

        // The boot that is over gets no token any more, whoever still knows its secret.
        let mac = hardware.plan().macs[0].clone();
        let old = Claim { mac, boot: first, secret: "s".repeat(32) };
        let refused = metal::boot::join(&site.boots, URL, &old).await.unwrap_err();
        assert!(refused.why.starts_with("403"), "{refused}");
        site.running.stop().await;
    });
}

#[test]
fn a_boot_service_that_is_away_delays_and_loses_nothing() {
    on_a_site(1, async |site| {
        let hardware = site.first();
        let name = hardware.name().to_owned();
        hardware.power(api::request::Power::On, None);
        site.until(async || hardware.running().borrow().is_some()).await;
        site.away.store(true, Ordering::Relaxed);
        site.set(&name, "Production").await;
        site.pass(1_800).await;
        assert!(site.node(&name).await.is_none());
        site.away.store(false, Ordering::Relaxed);
        site.until(async || site.boot(&name).await.is_some()).await;

        // Its agent's identity ends after twelve hours; it has asked for another before.
        let told = async || site.machine(&name).await.status.unwrap().report;
        site.pass(3 * 86_400).await;
        let boot = site.boot(&name).await.unwrap();
        let task = json!({"id": "t", "chore": "Inventory", "boot": boot, "why": "a test asks"});
        let patch = Patch::Merge(json!({"status": {"task": task}}));
        site.machines().patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        site.until(async || told().await.is_some_and(|report| report.id == "t")).await;
        site.running.stop().await;
    });
}

#[test]
fn a_thousand_machines_join_at_once() {
    const MANY: u32 = 1_000;
    on_a_site(MANY, async |site| {
        for hardware in site.datacentre.machines() {
            hardware.power(api::request::Power::On, None);
            site.set(hardware.name(), "Production").await;
        }
        let nodes: Api<Node> = Api::all(site.client.clone());
        let joined =
            async || nodes.list_metadata(&ListParams::default()).await.unwrap().items.len();
        site.until(async || joined().await == MANY as usize).await;
        site.pass(3_600).await;
        assert_eq!(site.requested().await.len(), MANY as usize, "one request each");
        // Of each machine its word, its request with a list and a watch until it is issued, its node.
        assert_eq!(site.requests.load(Ordering::Relaxed), 5 * u64::from(MANY));
        site.running.stop().await;
    });
}
