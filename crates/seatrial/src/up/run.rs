//! Starts a site, shows how it comes to life, and runs it until it is told to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::controllers::{Selection, Site};
use api::Machine;
use api::state::Role;
use apiserver::auth::User;
use apiserver::{ApiServer, InFlight};
use kit::clock::Clock;
use kit::controller::{Manager, Running, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::api::ListParams;
use kube::{Api, Client};
use metal::redfish::Bmcs;
use plan::catalogue::Catalogue;
use sim::datacentre::{Datacentre, Delays, Hardware, Heal, Layout, Settings};
use sim::hosts::{self, Hosts, Signs};
use sim::people::{Hands, People, Workshop};
use tokio::net::TcpListener;

use super::display::{Display, Said, seconds};
use super::hold::{Hold, Holder};
use super::progress::Step;
use super::site::{Remembered, Source, install};
use super::{control, watch};
use crate::cmd::{Outcome, version};
use crate::embedded::{self, Embedded, Place};
use crate::{controllers, kubeconfig, paths};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How a site is run.
pub(crate) struct Options {
    /// Where it keeps its things.
    pub(crate) directory: PathBuf,
    /// What it is, where somebody said so.
    pub(crate) asked: Option<Source>,
    /// What it is if nobody ever said so.
    pub(crate) otherwise: Source,
    /// Where the API listens.
    pub(crate) listen: Option<SocketAddr>,
    /// Where an administrator's kubeconfig is written too.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// By how much the hardware is faster than real.
    pub(crate) speed: f64,
    /// Stop when everything is in production.
    pub(crate) until_ready: bool,
}

/// Why a site does not come up.
#[derive(Debug, thiserror::Error)]
enum UpError {
    #[error("the fault catalogue is damaged: {0}")]
    Catalogue(String),
    #[error("cannot listen for BMCs on {address}")]
    ListenBmc { address: SocketAddr, source: std::io::Error },
}

/// Where the API listens if nobody says otherwise.
const API: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Runs it.
pub(crate) async fn run(options: Options, mut display: Display) -> Outcome {
    let began = Instant::now();
    let clock = Clock::system();
    let mut hold = Hold::take(&options.directory)?;
    let remembered = Remembered::read(&options.directory)?;
    let source = source(&options, remembered.as_ref())?;
    let layout = source.layout()?;
    display.show(&Said::Site {
        version: version::LINE.to_owned(),
        about: format!("{} · seed {}", about(&layout), source.seed()),
    })?;
    let embedded = open_api(&options, remembered.as_ref(), &clock).await?;
    hold.say(&Holder { pid: std::process::id(), url: embedded.url.clone() })?;
    display.show(&Said::Api {
        seconds: seconds(began.elapsed()),
        url: embedded.url.clone(),
        data: paths::short(&options.directory),
    })?;

    let bmcs = listen_for_bmcs(remembered.as_ref().and_then(|r| r.bmc)).await?;
    let bmc = bmcs.local_addr()?;
    let settings = Settings {
        clock: clock.clone(),
        delays: Delays::load()?.divided_by(options.speed)?,
        catalogue: catalogue()?,
        seed: source.seed(),
        file: Some(options.directory.join("hardware.json")),
    };
    Remembered { source, api: Some(embedded.address), bmc: Some(bmc) }.write(&options.directory)?;
    let datacentre = Datacentre::start(layout, settings)?;
    let control = control::listen(&options.directory)?;
    let admin = Client::new(embedded.server.service_as_admin(), "default");
    install(&admin, datacentre.layout().objects(&format!("http://{bmc}"))).await?;
    let parts = Parts::start(&embedded, &datacentre, options.speed, clock).await?;

    let (hardware, breakable) = (datacentre.clone(), datacentre.clone());
    let background = tokio::spawn(async move {
        tokio::join!(control::serve(control, breakable), hardware.serve_redfish(bmcs))
    });
    let until_ready = options.until_ready;
    let (over, is_over) = tokio::sync::oneshot::channel();
    let life = tokio::spawn(async move {
        let done = live(&admin, &options, &datacentre, display, began).await;
        // Whoever waits may be gone, as the server is about to stop.
        let _ = over.send(());
        done
    });
    let stop = async move {
        tokio::select! {
            () = embedded::terminated() => {}
            Ok(()) = is_over, if until_ready => {}
        }
        parts.stop().await;
    };
    embedded.serve(stop).await?;
    background.abort();
    if until_ready { life.await? } else { Ok(()) }
}

/// The API of the site, where it was before unless somebody wants it elsewhere.
async fn open_api(
    options: &Options,
    remembered: Option<&Remembered>,
    clock: &Clock,
) -> Result<Embedded, Error> {
    let before = remembered.and_then(|remembered| remembered.api);
    let settings = embedded::Options {
        place: Place::Disk(options.directory.clone()),
        listen: options.listen.or(before).unwrap_or(API),
        tls_names: Vec::new(),
        token_auth_file: None,
        audit_policy_file: None,
        audit_log_path: None,
        without: Vec::new(),
        // A whole site's nodes speak from this process, and all at once when they boot.
        inflight: InFlight::UNLIMITED,
    };
    let embedded = Embedded::open(settings, clock).await?;
    if let Some(asked) = &options.kubeconfig {
        kubeconfig::write(asked, &embedded.kubeconfig)?;
    }
    Ok(embedded)
}

/// Everything that works through the API in this process.
struct Parts {
    controllers: Running,
    people: Running,
    machines: Hosts,
}

impl Parts {
    async fn start(
        embedded: &Embedded,
        datacentre: &Datacentre,
        speed: f64,
        clock: Clock,
    ) -> Result<Self, Error> {
        let site = Site {
            authority: Some(embedded.authority.clone()),
            address: Some(embedded.url.clone()),
            fleet: true,
            bmcs: Some(Bmcs::real()?.at_speed(speed)),
            ..Site::default()
        };
        let server = embedded.server.clone();
        let controllers =
            controllers::start(&Selection::all(), &server, &site, clock.clone()).await?;
        let people = hire(&server, datacentre, speed, clock).await?;
        let clients = move |name: &str, groups: &[&str]| acts_as(&server, name, groups);
        let options = hosts::Options { signs: Signs::Leases, ids: Ids::system() };
        let machines = Hosts::start(datacentre, Arc::new(clients), options)?;
        Ok(Self { controllers, people, machines })
    }

    /// Those first that the others look after.
    async fn stop(self) {
        self.machines.stop().await;
        self.people.stop().await;
        self.controllers.stop().await;
    }
}

/// Shows how the site comes to life, until it lives.
async fn live(
    admin: &Client,
    options: &Options,
    datacentre: &Datacentre,
    mut display: Display,
    began: Instant,
) -> Outcome {
    let done = watch::until_production(admin, |step, done, total| {
        let (about, seconds) = (detail(step, options, datacentre), seconds(began.elapsed()));
        display.show(&Said::Step { step, done, total, seconds, about })
    });
    if let Err(error) = done.await {
        display.show(&Said::Failed { why: kit::error::chain(&*error).to_string() })?;
        return Err(error);
    }
    let own = paths::kubeconfig_of(&options.directory);
    Ok(display.show(&Said::Ready {
        seconds: seconds(began.elapsed()),
        kubeconfig: paths::short(options.kubeconfig.as_ref().unwrap_or(&own)),
        example: example(admin).await.unwrap_or_default(),
    })?)
}

/// The spare parts of a simulated site.
struct Store(Datacentre);

impl Workshop for Store {
    fn ready(&self, _: &str) -> Option<jiff::Timestamp> {
        None
    }

    fn mend(&self, machine: &str) -> String {
        match self.0.machine(machine).map(|machine: Hardware| machine.heal(&Heal::Parts)) {
            Some(mended @ 1..) => format!("replaced {mended} parts"),
            _ => "found nothing to mend".to_owned(),
        }
    }
}

/// Whoever sits at this terminal is the operator: nobody else acknowledges a breaker in time.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A technician, who works as fast as the hardware does.
async fn hire(
    server: &ApiServer,
    datacentre: &Datacentre,
    speed: f64,
    clock: Clock,
) -> Result<Running, Error> {
    let people = People {
        hands: Hands { acknowledge: NEVER, ..Hands::default().divided(speed) },
        workshop: Arc::new(Store(datacentre.clone())),
        ..People::default()
    };
    let admin = Client::new(server.service_as_admin(), "default");
    for (user, declaration) in People::declarations() {
        controllers::grant(&admin, &declaration.cluster_role(), &[user, controllers::READER])
            .await?;
    }
    let mut manager = Manager::new(kit::controller::Options {
        client: acts_as(server, controllers::READER, &[]),
        clock,
        ids: Ids::system(),
        watch_lifetime: WATCH_LIFETIME,
        instance: "people".to_owned(),
    });
    people.join(&mut manager, |user| acts_as(server, user, &[]));
    Ok(manager.start())
}

/// What is started: what the directory holds, else what was asked for.
fn source(options: &Options, remembered: Option<&Remembered>) -> Result<Source, Error> {
    match (remembered, &options.asked) {
        (None, asked) => Ok(asked.clone().unwrap_or_else(|| options.otherwise.clone())),
        (Some(remembered), None) => Ok(remembered.source.clone()),
        (Some(remembered), Some(asked)) if remembered.source == *asked => Ok(asked.clone()),
        (Some(_), Some(_)) => {
            Err(super::site::SiteError::Another { path: options.directory.clone() }.into())
        }
    }
}

/// Where the BMCs answered before, so that nothing must be told anew; else anywhere.
async fn listen_for_bmcs(before: Option<SocketAddr>) -> Result<TcpListener, Error> {
    if let Some(address) = before
        && let Ok(listener) = TcpListener::bind(address).await
    {
        return Ok(listener);
    }
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let listener = TcpListener::bind(address).await;
    Ok(listener.map_err(|source| UpError::ListenBmc { address, source })?)
}

fn catalogue() -> Result<Arc<Catalogue>, Error> {
    let catalogue = Catalogue::load(&[]);
    let damaged = |errors: Vec<_>| {
        let errors: Vec<String> =
            errors.iter().map(plan::catalogue::CatalogueError::to_string).collect();
        UpError::Catalogue(errors.join("; "))
    };
    Ok(Arc::new(catalogue.map_err(damaged)?))
}

/// A machine that serves and has GPUs to break, where there is one.
async fn example(admin: &Client) -> Option<String> {
    let machines: Api<Machine> = Api::all(admin.clone());
    let all = machines.list(&ListParams::default()).await.ok()?.items;
    let serves = |machine: &&Machine| {
        let status = machine.status.as_ref();
        let gpus = status.and_then(|status| status.inventory.as_ref()).map_or(0, |i| i.gpus);
        gpus > 0 && status.is_some_and(|status| status.role == Role::Member)
    };
    let names: Vec<&str> = all.iter().filter(serves).map(Machine::name).collect();
    names.get(names.len() / 3).map(|name| (*name).to_owned())
}

/// A client that acts as somebody, in this process.
fn acts_as(server: &ApiServer, name: &str, groups: &[&str]) -> Client {
    let groups =
        groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
    let user = User { name: name.to_owned(), groups, ..User::default() };
    Client::new(server.service_as(user), "default")
}

/// A site in words: `simulated site "demo": 4 racks, 32 GPU nodes (8x H100), …`
fn about(layout: &Layout) -> String {
    use api::instance_type::Class;
    use api::switch::Tier;
    let class = |name: &str| layout.types.get(name).map(|kind| kind.class);
    let count = |class_: Class| {
        layout.machines.iter().filter(|m| class(&m.instance_type) == Some(class_)).count()
    };
    let tier = |tier: Tier| layout.switches.values().filter(|switch| switch.tier == tier).count();
    format!(
        "simulated site {:?}: {} racks, {} GPU nodes, {} CPU nodes, {} spines, {} leaves",
        layout.site,
        layout.racks.len(),
        count(Class::Gpu),
        count(Class::Cpu),
        tier(Tier::Spine),
        tier(Tier::Leaf),
    )
}

/// What stands beside a step.
fn detail(step: Step, options: &Options, datacentre: &Datacentre) -> String {
    match step {
        Step::Boot => format!("hardware delays divided by {} (--speed)", options.speed),
        Step::Production => {
            let wanted: u32 =
                datacentre.layout().pools.values().filter_map(|pool| pool.target_nodes).sum();
            let machines = datacentre.layout().machines.len();
            let spares = machines.saturating_sub(usize::try_from(wanted).unwrap_or(usize::MAX));
            format!("{wanted} in pools, {spares} kept as hot spares")
        }
        _ => step.about().to_owned(),
    }
}
