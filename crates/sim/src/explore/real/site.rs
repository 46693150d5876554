//! A small site with the shipped controllers, in which everything can be killed and started again.
//!
//! API server, hardware, hosts and controllers are the product's and the simulator's own; between them
//! stand the ways of [`super::wire`] and [`super::bmc`]. Each controller acts as its own user with
//! the role that it declares.

use super::audit;
use super::bmc;
use super::record::{CORDONER, PERSON, Record, controller};
use super::sabotage::{Sabotage, Saboteur};
use super::weather::{Link, Weather};
use super::wire::Wire;
use crate::admin::{Admin, JOINING, user};
use crate::datacentre::{Datacentre, Delays, Demo, Heal, Layout, Settings, Stands};
use crate::hosts::{self, Clients, Hosts, Signs};
use crate::people::{People, Workshop};
use ::controllers::heartbeats::{Heartbeats, Listener};
use ::controllers::{ALL, Entry};
use api::ledger::{LedgerSpec, Limit};
use api::node_pool::NodePoolSpec;
use apiserver::ApiServer;
use apiserver::auth::authn::Authenticator;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::controller::{Manager, Options as Managing, Running, VIRTUAL_WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Client;
use metal::redfish::Bmcs;
use plan::Rules;
use plan::catalogue::Catalogue;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{KeyRange, MemoryStore, Op, Store, Txn};

/// The beginning of simulated time.
const BEGINNING: &str = "2026-01-01T00:00:00Z";
/// Where the BMCs of the site are reached within the process.
const BMCS: &str = "http://bmc.site";
/// Who lists and watches for all controllers.
const READER: &str = "system:seatrial:controllers";
/// Who finds out that a node is silent.
const LEASE_MONITOR: &str = "node-lifecycle-controller";
const GROUPS: [&str; 1] = ["system:authenticated"];
const MASTERS: [&str; 2] = ["system:masters", "system:authenticated"];
/// The pool that most machines serve, and its tenant's neighbour.
pub(super) const POOLS: [&str; 2] = ["h100", "birch"];
/// As many entries as one transaction takes.
const AT_ONCE: usize = 64;

/// How large a site is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) machines: u32,
    pub(super) racks: u32,
    pub(super) spares: u32,
    /// Which makes of BMC its racks have.
    pub(super) vendor: u64,
}

/// A site as it stood at a moment, to begin from again and again.
pub(super) struct Beginning {
    pub(super) shape: Shape,
    at: Timestamp,
    entries: Vec<(bytes::Bytes, bytes::Bytes)>,
    stands: Option<Stands>,
}

impl Beginning {
    /// Delivered, and nothing switched on yet.
    pub(super) fn delivered(shape: Shape) -> Result<Self, String> {
        let at = BEGINNING.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { shape, at, entries: Vec::new(), stands: None })
    }

    /// How a site stands now.
    pub(super) fn of(shape: Shape, site: &Site) -> Result<Self, String> {
        let all = site.store.list(&KeyRange::from(Vec::new()), None, None);
        let all = all.map_err(|error| error.to_string())?;
        // What has a lease, an Event, is gone soon.
        let lasts = all.entries.iter().filter(|entry| entry.lease.is_none());
        let entries = lasts.map(|e| (e.key.clone(), e.value.clone())).collect();
        let stands = Some(site.datacentre.stands());
        Ok(Self { shape, at: site.clock.now(), entries, stands })
    }

    async fn store(&self) -> Result<Arc<dyn Store>, String> {
        let store = MemoryStore::new();
        for part in self.entries.chunks(AT_ONCE) {
            let put = |txn: Txn, (key, value): &(bytes::Bytes, bytes::Bytes)| {
                txn.then(Op::Put { key: key.clone(), value: value.clone(), lease: None })
            };
            let txn = part.iter().fold(Txn::new(), put);
            store.commit(txn).await.map_err(|error| error.to_string())?;
        }
        Ok(Arc::new(store))
    }
}

/// Everything that runs.
pub(super) struct Site {
    pub(super) datacentre: Datacentre,
    pub(super) record: Record,
    pub(super) weather: Weather,
    pub(super) saboteur: Saboteur,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    /// Acts as a person; as one who cordons.
    pub(super) person: Client,
    pub(super) cordoner: Client,
    /// Acts as the node controller, past all weather.
    pub(super) forger: Client,
    seed: u64,
    starts: u64,
    server: ApiServer,
    controllers: Option<Running>,
    second: Option<Running>,
    hosts: Option<Hosts>,
    pulse: Arc<Pulse>,
    agents: Arc<Pulse>,
    _people: Running,
    _stopping: tokio::sync::watch::Sender<bool>,
}

impl Site {
    /// Starts a site where it stood; whoever calls lets controllers and hosts run.
    pub(super) async fn start(
        begin: &Beginning,
        seed: u64,
        sabotage: Option<Sabotage>,
        told: bool,
    ) -> Result<Self, String> {
        let clock = Clock::simulated(begin.at);
        let store = begin.store().await?;
        let (stopping, ends) = tokio::sync::watch::channel(false);
        let layout = layout(&begin.shape)?;
        let objects = layout.objects(BMCS);
        let settings = Settings {
            clock: clock.clone(),
            delays: Delays::load().map_err(|error| error.to_string())?,
            catalogue: Catalogue::built_in(),
            seed: begin.shape.vendor,
            file: None,
        };
        let datacentre = match &begin.stands {
            Some(stands) => Datacentre::resumed(layout, settings, stands),
            None => Datacentre::start(layout, settings),
        };
        let datacentre = datacentre.map_err(|error| error.to_string())?;
        let record = Record::new(&datacentre, told);
        let (weather, saboteur) = (Weather::new(seed), Saboteur::new(sabotage));
        let server = ApiServer::new(apiserver::Options {
            store: Arc::clone(&store),
            clock: clock.clone(),
            ids: Ids::seeded(seed),
            authenticator: Authenticator::default(),
            token_key: None,
            without: apiserver::Plugin::OF_CONTROLLERS.into(),
            audit: Some(audit::audit(&record, &saboteur)?),
            inflight: apiserver::InFlight::UNLIMITED,
            bookmark_every: None,
            stopping: ends,
        });
        let server = server.await.map_err(|error| error.to_string())?;
        let wires = Wires {
            server: server.clone(),
            weather: weather.clone(),
            record: record.clone(),
            saboteur: saboteur.clone(),
        };
        let admin = Admin(Client::new(server.service_as_admin(), "default"));
        let new = begin.stands.is_none();
        if new {
            prepare(&admin, &objects).await.map_err(|refused| refused.to_string())?;
        }
        let workshop = Arc::new(Hall(datacentre.clone()));
        let people = People { workshop, ..People::default() };
        let mut hall = manager(&wires, &clock, seed, "people", None);
        people.join(&mut hall, |user| wires.client(user, &GROUPS, None));
        let site = Self {
            person: wires.client(PERSON, &MASTERS, None),
            cordoner: wires.client(CORDONER, &MASTERS, None),
            forger: wires.client(&controller("node"), &MASTERS, None),
            pulse: Arc::new(Pulse::default()),
            agents: Arc::new(Pulse::default()),
            datacentre,
            record,
            weather,
            saboteur,
            store,
            clock,
            seed,
            starts: 0,
            server,
            controllers: None,
            second: None,
            hosts: None,
            _people: hall.start(),
            _stopping: stopping,
        };
        let described = Admin(wires.client("admin", &MASTERS, None));
        if new {
            described.all(&objects.machines).await.map_err(|refused| refused.to_string())?;
            described.all(&objects.pools).await.map_err(|refused| refused.to_string())?;
        }
        site.read(&admin).await.map_err(|error| error.to_string())?;
        Ok(site)
    }

    /// The record begins with what is there.
    async fn read(&self, admin: &Admin) -> kube::Result<()> {
        let client = || admin.0.clone();
        let all = kube::api::ListParams::default();
        let machines = kube::Api::<api::Machine>::all(client()).list(&all).await?;
        let nodes = kube::Api::all(client()).list(&all).await?;
        let incidents = kube::Api::<api::Incident>::all(client()).list(&all).await?;
        let breakers = kube::Api::<api::Breaker>::all(client()).list(&all).await?;
        let ledgers = kube::Api::<api::Ledger>::all(client()).list(&all).await?;
        let mut seen = self.record.seen();
        machines.items.into_iter().for_each(|machine| seen.machine("", machine));
        nodes.items.into_iter().for_each(|node| seen.node("", node));
        incidents.items.into_iter().for_each(|incident| seen.incident(incident));
        breakers.items.into_iter().for_each(|breaker| seen.breaker(breaker));
        ledgers.items.into_iter().for_each(|ledger| seen.ledger(ledger));
        Ok(())
    }

    fn wires(&self) -> Wires {
        Wires {
            server: self.server.clone(),
            weather: self.weather.clone(),
            record: self.record.clone(),
            saboteur: self.saboteur.clone(),
        }
    }

    /// Another process of all controllers, as it begins.
    fn begin(&mut self) -> Running {
        self.starts += 1;
        let wires = self.wires();
        let exchange = bmc::exchange(
            self.datacentre.redfish(),
            self.weather.clone(),
            self.record.clone(),
            self.saboteur.clone(),
        );
        let pulse: Arc<dyn Heartbeats> = self.pulse.clone();
        let agents: Arc<dyn Heartbeats> = self.agents.clone();
        let site = ::controllers::Site {
            fleet: true,
            bmcs: Some(Bmcs::through(exchange)),
            rules: rules(),
            heartbeats: Some(pulse),
            agents: Some(agents),
            ..::controllers::Site::default()
        };
        let seed = self.seed ^ self.starts.wrapping_mul(0x9E37_79B9);
        let mut manager = manager(&wires, &self.clock, seed, "explored", Some(Link::Reader));
        for entry in ALL.iter().filter(needed) {
            let client = wires.client(&controller(entry.folder), &GROUPS, Some(Link::Controller));
            (entry.add)(&mut manager, client, &site);
        }
        manager.start()
    }

    /// The controllers run, if they do not.
    pub(super) fn start_controllers(&mut self) {
        if self.controllers.is_none() {
            self.record.seen().say(|| "-- the controllers start".to_owned());
            let running = self.begin();
            self.controllers = Some(running);
        }
    }

    /// Another instance believes that it leads.
    pub(super) fn start_second(&mut self) {
        if self.second.is_none() {
            let running = self.begin();
            self.second = Some(running);
        }
    }

    /// The controllers' process dies, wherever it is.
    pub(super) fn kill_controllers(&mut self) {
        self.controllers = None;
    }

    pub(super) fn kill_second(&mut self) {
        self.second = None;
    }

    /// Agents and kubelets run, if they do not.
    pub(super) fn start_hosts(&mut self) -> Result<(), String> {
        if self.hosts.is_some() {
            return Ok(());
        }
        self.record.seen().say(|| "-- the hosts start".to_owned());
        self.starts += 1;
        let wires = self.wires();
        let clients: Clients = Arc::new(move |user: &str, groups: &[&str]| {
            wires.client(user, groups, Some(Link::Hosts))
        });
        let ids = Ids::seeded(self.seed ^ self.starts.wrapping_mul(0x517C_C1B7));
        let options =
            hosts::Options { signs: Signs::Function, ids, identity: hosts::Identity::Declared };
        let hosts = Hosts::start(&self.datacentre, clients, options);
        let hosts = hosts.map_err(|error| error.to_string())?;
        self.pulse.follow(Arc::new(hosts.heartbeats()));
        self.agents.follow(Arc::new(hosts.agents()));
        self.hosts = Some(hosts);
        Ok(())
    }

    /// The process of the hosts dies; the hardware goes on.
    pub(super) fn kill_hosts(&mut self) {
        if self.hosts.take().is_some() {
            self.record.seen().muted();
        }
    }

    /// Lets time pass until nothing has been written for hours. False: that never comes.
    pub(super) async fn rest(&self) -> bool {
        const HOUR: Duration = Duration::from_secs(3_600);
        // Longer than anything that ends without a write: a repair takes four hours.
        let (mut quiet, mut last) = (0, self.store.revision());
        for _ in 0..24 * 21 {
            tokio::time::sleep(HOUR).await;
            let now = self.store.revision();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
            if quiet == 7 {
                return true;
            }
        }
        false
    }
}

/// Whatever has a part in the fleet.
fn needed(entry: &&Entry) -> bool {
    entry.fleet && !JOINING.contains(&entry.name) || entry.name == LEASE_MONITOR
}

fn rules() -> Rules {
    // Tests of idle nodes would be most of what happens, and need no grant.
    Rules { idle_test_every: None, ..Rules::default() }
}

/// Kinds, rights, and the site itself.
async fn prepare(
    admin: &Admin,
    objects: &crate::datacentre::Objects,
) -> Result<(), crate::admin::Refused> {
    admin.prepare(objects).await?;
    for account in &api::audit::ACCOUNTS {
        let (policy, binding) = account.policy();
        admin.create(None, &policy).await?;
        admin.create(None, &binding).await?;
    }
    for entry in ALL.iter().filter(needed) {
        let user = controller(entry.folder);
        admin.grant(&(entry.declare)(), &[&user, READER]).await?;
    }
    for (user, declaration) in People::declarations() {
        admin.grant(&declaration, &[user, READER]).await?;
    }
    Ok(())
}

fn manager(wires: &Wires, clock: &Clock, seed: u64, name: &str, link: Option<Link>) -> Manager {
    Manager::new(Managing {
        client: wires.client(READER, &GROUPS, link),
        clock: clock.clone(),
        ids: Ids::seeded(seed),
        watch_lifetime: VIRTUAL_WATCH_LIFETIME,
        instance: name.to_owned(),
    })
}

fn layout(shape: &Shape) -> Result<Layout, String> {
    let demo = Demo {
        gpu_nodes: shape.machines,
        cpu_nodes: 0,
        racks: shape.racks,
        spares: shape.spares,
        seed: shape.vendor,
    };
    let mut layout = Layout::demo(&demo).map_err(|error| error.to_string())?;
    let bound = |nodes| Limit { nodes: Some(nodes), percent: None };
    layout.ledger = LedgerSpec { fleet: bound(2), rack: bound(1), ..LedgerSpec::default() };
    // One machine serves another tenant.
    if let Some(pool) = layout.pools.get_mut(POOLS[0]) {
        pool.target_nodes = pool.target_nodes.map(|target| target.saturating_sub(1).max(1));
        let other = NodePoolSpec {
            tenant: POOLS[1].to_owned(),
            target_nodes: Some(1),
            spares: Some(0),
            ..pool.clone()
        };
        layout.pools.insert(POOLS[1].to_owned(), other);
    }
    Ok(layout)
}

/// Ways to the server.
struct Wires {
    server: ApiServer,
    weather: Weather,
    record: Record,
    saboteur: Saboteur,
}

impl Wires {
    fn client(&self, name: &str, groups: &[&str], link: Option<Link>) -> Client {
        let wire = Wire {
            server: self.server.service_as(user(name, groups)),
            user: name.into(),
            link,
            weather: self.weather.clone(),
            record: self.record.clone(),
            saboteur: self.saboteur.clone(),
        };
        Client::new(wire, "default")
    }
}

/// Where parts are always there.
struct Hall(Datacentre);

impl Workshop for Hall {
    fn ready(&self, _: &str) -> Option<Timestamp> {
        None
    }

    fn mend(&self, machine: &str) -> String {
        let mended = self.0.machine(machine).map_or(0, |hardware| hardware.heal(&Heal::Parts));
        format!("replaced or reseated what was broken: {mended} faults ended")
    }
}

/// Heartbeats of whatever process the hosts are in now; what an older one knew last still counts.
#[derive(Default)]
struct Pulse(Mutex<Beats>);

#[derive(Default)]
struct Beats {
    sources: Vec<Arc<dyn Heartbeats>>,
    listeners: Vec<Listener>,
}

impl fmt::Debug for Pulse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pulse")
    }
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, Beats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, source: Arc<dyn Heartbeats>) {
        let mut beats = self.lock();
        beats.listeners.iter().for_each(|listener| source.listen(Arc::clone(listener)));
        beats.sources.push(source);
    }
}

impl Heartbeats for Pulse {
    fn last(&self, node: &str, now: Timestamp) -> Option<Timestamp> {
        let sources = self.lock().sources.clone();
        sources.iter().filter_map(|source| source.last(node, now)).max()
    }

    fn beats(&self, node: &str) -> bool {
        let source = self.lock().sources.last().cloned();
        source.is_some_and(|source| source.beats(node))
    }

    fn listen(&self, listener: Listener) {
        let mut beats = self.lock();
        if let Some(source) = beats.sources.last() {
            source.listen(Arc::clone(&listener));
        }
        beats.listeners.push(listener);
    }
}
