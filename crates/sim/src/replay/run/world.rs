//! The site that a trace is replayed on: everything that runs, and how it is brought up.

use std::sync::Arc;
use std::time::Duration;

use ::controllers::{ALL, Entry, Site};
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
use store::Store;
use tokio::time::Instant;
use tower::ServiceExt;

use super::desk::Desk;
use super::witness::{Record, Witness};
use super::{FORGET, MANY, RunError};
use crate::admin::{self, Admin};
use crate::datacentre::{Datacentre, Delay, Delays, Demo, Layout, Objects, Serving, Settings};
use crate::hosts::{self, Clients, Hosts, Signs};
use crate::people::{Hands, OPERATOR, People, Workshop};
use crate::replay::findings::{Figure, seconds};

/// The beginning of simulated time: any will do, and every replay has the same.
const BEGINNING: &str = "2026-01-01T00:00:00Z";
/// Where the BMCs of the site are reached within the process.
const BMCS: &str = "http://bmc.site";
/// Who lists and watches for all controllers.
const READER: &str = "system:seatrial:controllers";
/// Who finds out that a node is silent.
const LEASE_MONITOR: &str = "node-lifecycle-controller";
/// How often a node that runs no pod is tested, spares included. No pods run in a replay, so this is
/// also how long a defect that only a test finds stays hidden at most.
const TEST_EVERY: Duration = Duration::from_secs(7 * 86_400);

/// How long history is kept while a site comes up, as `seatrial serve` keeps it.
const HISTORY: Duration = Duration::from_secs(5 * 60);

/// How a fleet is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Described and switched off.
    Delivered,
    /// In production, the pool at its target and its spares proven, by the hardware, the objects and
    /// nobody's memory: controllers take it over as they do after a restart.
    InService,
}

/// The fleet of a site, and who looks after it.
pub(super) struct Fleet {
    /// How it is met.
    pub(super) met: Met,
    /// Nodes that the pool promises.
    pub(super) servers: usize,
    /// Nodes beside them.
    pub(super) spares: usize,
    /// Machines in a rack.
    pub(super) per_rack: u32,
    /// Decides everything that is drawn.
    pub(super) seed: u64,
    /// Whether people can mend what is broken; else a fault ends at its time.
    pub(super) cures: bool,
    /// How long people take.
    pub(super) hands: Hands,
}

/// Everything that runs.
pub(super) struct World {
    pub(super) datacentre: Datacentre,
    pub(super) record: Record,
    pub(super) people: People,
    pub(super) desk: Desk,
    clock: Clock,
    server: ApiServer,
    store: Arc<dyn Store>,
    rules: Rules,
    forgotten: u64,
    /// What runs; it ends when this is dropped.
    _running: Running,
    _hosts: Hosts,
    _stopping: tokio::sync::watch::Sender<bool>,
}

fn prepare<E: std::fmt::Display>(error: E) -> RunError {
    RunError::Prepare(error.to_string())
}

/// The people's workshop: a part is there when the fault that needs it is over.
struct Parts {
    datacentre: Datacentre,
    cures: bool,
}

impl Workshop for Parts {
    fn ready(&self, machine: &str) -> Option<Timestamp> {
        let faults = self.datacentre.machine(machine)?.faults();
        faults.iter().filter_map(|(_, fault)| fault.until).max()
    }

    fn mend(&self, machine: &str) -> String {
        let Some(hardware) = self.datacentre.machine(machine) else {
            return "there is no such machine".to_owned();
        };
        if self.cures {
            let mended = hardware.heal(&crate::datacentre::Heal::Parts);
            return format!("replaced or reseated what was broken: {mended} faults ended");
        }
        "put back into service what the recorded repair had mended".to_owned()
    }
}

impl World {
    pub(super) async fn start(fleet: &Fleet, catalogue: Arc<Catalogue>) -> Result<Self, RunError> {
        let clock = Clock::simulated(BEGINNING.parse().map_err(prepare)?);
        let store: Arc<dyn Store> = Arc::new(store::MemoryStore::new());
        let (stopping, ends) = tokio::sync::watch::channel(false);
        let server = ApiServer::new(apiserver::Options {
            store: Arc::clone(&store),
            clock: clock.clone(),
            ids: Ids::seeded(fleet.seed),
            authenticator: Authenticator::default(),
            token_key: None,
            without: apiserver::Plugin::OF_CONTROLLERS.into(),
            audit: None,
            inflight: apiserver::InFlight::UNLIMITED,
            bookmark_every: None,
            stopping: ends,
        });
        let server = server.await.map_err(prepare)?;
        let layout = layout(fleet)?;
        let objects = layout.objects(BMCS);
        let delays = Delays::load().map_err(prepare)?;
        let request = delays.of(Delay::ApiRequest);
        let settings = Settings {
            clock: clock.clone(),
            delays,
            catalogue: Arc::clone(&catalogue),
            seed: fleet.seed,
            file: None,
        };
        let datacentre = Datacentre::start(layout, settings).map_err(prepare)?;
        let workshop = Arc::new(Parts { datacentre: datacentre.clone(), cures: fleet.cures });
        let people = People { workshop, hands: fleet.hands, ..People::default() };
        let record = Record::new(clock.clone(), fleet.spares);
        let rules = Rules { idle_test_every: Some(TEST_EVERY), ..Rules::default() };

        let admin = Admin(Client::new(server.service_as_admin(), "default"));
        admin.prepare(&objects).await?;
        if fleet.met == Met::InService {
            serve(fleet, &datacentre, &objects, &admin, clock.now()).await?;
        }

        let clients = clients(&server, request);
        let hosting = hosts::Options {
            signs: Signs::Function,
            ids: Ids::seeded(fleet.seed ^ 1),
            identity: hosts::Identity::Declared,
        };
        let hosts = Hosts::start(&datacentre, Arc::clone(&clients), hosting).map_err(prepare)?;
        let site = Site {
            fleet: true,
            bmcs: Some(Bmcs::through(datacentre.redfish())),
            rules: rules.clone(),
            heartbeats: Some(Arc::new(hosts.heartbeats())),
            agents: Some(Arc::new(hosts.agents())),
            ..Site::default()
        };
        let mut manager = Manager::new(Managing {
            client: clients(READER, &["system:authenticated"]),
            clock: clock.clone(),
            ids: Ids::seeded(fleet.seed ^ 2),
            watch_lifetime: VIRTUAL_WATCH_LIFETIME,
            instance: "replay".to_owned(),
        });
        let needed = |entry: &&Entry| {
            entry.fleet && !admin::JOINING.contains(&entry.name) || entry.name == LEASE_MONITOR
        };
        for entry in ALL.iter().filter(needed) {
            let user = format!("system:seatrial:controller:{}", entry.folder);
            admin.grant(&(entry.declare)(), &[&user, READER]).await?;
            (entry.add)(&mut manager, clients(&user, &["system:authenticated"]), &site);
        }
        for (user, declaration) in People::declarations() {
            admin.grant(&declaration, &[user, READER]).await?;
        }
        people.join(&mut manager, |user| clients(user, &["system:authenticated"]));
        admin.grant(&kit::controller::declaration::<Witness>(), &[READER]).await?;
        let witness = clients("witness", &["system:authenticated"]);
        manager.add_with::<Witness>(witness, record.clone());
        let own = clients(OPERATOR, &["system:authenticated"]);
        let desk = Desk::new(own, record.clone(), people.acts.clone(), fleet.seed ^ 3);
        let running = manager.start();
        if fleet.met == Met::Delivered {
            admin.all(&objects.machines).await?;
            admin.all(&objects.pools).await?;
        }
        Ok(Self {
            datacentre,
            record,
            people,
            desk,
            clock,
            server,
            store,
            rules,
            forgotten: 0,
            _running: running,
            _hosts: hosts,
            _stopping: stopping,
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until the pool has what it promises, and its spares.
    pub(super) async fn until_up(&mut self, patience: Duration) -> Result<(), RunError> {
        let mut up = self.record.up();
        let deadline = Instant::now() + patience;
        loop {
            let until = deadline.min(Instant::now() + HISTORY);
            let done = tokio::time::timeout_at(until, up.wait_for(|up| *up)).await;
            match done.map(|up| up.is_ok()) {
                Ok(true) => break,
                Err(_) if until < deadline => self.tidy(MANY).await,
                _ => return Err(self.record.not_up()),
            }
        }
        self.tidy(0).await;
        Ok(())
    }

    /// Lets time pass. History that nobody will ask for again is forgotten on the way.
    pub(super) async fn rest_until(&mut self, until: Instant) {
        while Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + FORGET)).await;
            self.tidy(MANY).await;
        }
    }

    async fn tidy(&mut self, many: u64) {
        let revision = self.store.revision();
        if revision.0.saturating_sub(self.forgotten) <= many {
            return;
        }
        self.server.expire().await;
        // A store that cannot forget yet forgets at the next occasion.
        if self.store.compact(revision).await.is_ok() {
            self.forgotten = revision.0;
        }
    }

    /// What the server has counted, in the text form that Prometheus reads.
    pub(super) async fn metrics(&self) -> Result<String, RunError> {
        let client = Client::new(self.server.service_as_admin(), "default");
        let request = http::Request::get("/metrics").body(Vec::new()).map_err(prepare)?;
        client.request_text(request).await.map_err(prepare)
    }

    /// What every figure of a report rests on.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let figure = |name: &str, time: Duration, source: &str| Figure {
            name: name.to_owned(),
            seconds: seconds(time),
            source: source.to_owned(),
        };
        let kebab = |name: String| {
            let mut words = String::new();
            for c in name.chars() {
                if c.is_ascii_uppercase() && !words.is_empty() {
                    words.push('-');
                }
                words.push(c.to_ascii_lowercase());
            }
            words
        };
        let lines = self.datacentre.settings().delays.lines();
        let mut figures: Vec<Figure> = lines
            .map(|(delay, time, source)| figure(&kebab(format!("{delay:?}")), time, source))
            .collect();
        let Hands { certify, acknowledge, repair, debug } = self.people.hands;
        let people = "assumed: simulated people, around the clock";
        figures.extend([
            figure("person-certifies", certify, people),
            figure("person-acknowledges", acknowledge, people),
            figure("person-repairs", repair, people),
            figure("person-debugs", debug, people),
        ]);
        if let Some(every) = self.rules.idle_test_every {
            let source =
                "how often a node without pods is tested in a replay; a site's default is an hour";
            figures.push(figure("idle-test-every", every, source));
        }
        figures
    }
}

/// Puts the fleet into production: the first machines are members of the pool, the others its spares.
async fn serve(
    fleet: &Fleet,
    datacentre: &Datacentre,
    objects: &Objects,
    admin: &Admin,
    since: Timestamp,
) -> Result<(), RunError> {
    admin.all(&objects.pools).await?;
    datacentre.serve();
    let layout = datacentre.layout();
    for (number, (plan, machine)) in layout.machines.iter().zip(&objects.machines).enumerate() {
        let hardware = datacentre.machine(&plan.name);
        let running = hardware.and_then(|hardware| hardware.running().borrow().clone());
        let Some(running) = running else { continue };
        let pool = objects.pools.first().filter(|_| number < fleet.servers);
        let (boot, kernel) = (running.boot.as_str(), Some(running.kernel.as_str()));
        let stands = Serving { boot, kernel, node: None, pool, since };
        let (machine, status) = layout.serving(plan, machine.clone(), &stands);
        admin.create(None, &machine).await?;
        admin.stand(&machine, &status).await?;
    }
    Ok(())
}

fn layout(fleet: &Fleet) -> Result<Layout, RunError> {
    let count = |n: usize| u32::try_from(n).map_err(prepare);
    let (servers, spares) = (count(fleet.servers)?, count(fleet.spares)?);
    let nodes = servers.saturating_add(spares);
    let demo = Demo {
        gpu_nodes: nodes,
        cpu_nodes: 0,
        racks: nodes.div_ceil(fleet.per_rack.max(1)),
        spares,
        seed: fleet.seed,
    };
    Layout::demo(&demo).map_err(prepare)
}

/// Clients of users of this server. A request takes as long as the way to a server and back does; what a
/// watch tells comes at once, as a server sends it before the writer has its answer.
fn clients(server: &ApiServer, request: Duration) -> Clients {
    let server = server.clone();
    Arc::new(move |user: &str, groups: &[&str]| {
        let service = server.service_as(admin::user(user, groups));
        let far = tower::service_fn(move |asked| {
            let service = service.clone();
            async move {
                tokio::time::sleep(request).await;
                service.oneshot(asked).await
            }
        });
        Client::new(far, "default")
    })
}
