//! Starts a site, shows how it comes to life, and runs it until it is told to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use ::controllers::{Selection, Site};
use apiserver::InFlight;
use kit::clock::Clock;
use kit::controller::Running;
use kube::Client;
use metal::redfish::Bmcs;
use sim::hosts::{self, Asking, Identity};

use crate::cmd::Outcome;
use crate::embedded::{self, Embedded, Place};
use crate::identity::{self, Acting};
use crate::site::display::Display;
use crate::site::hold::{Hold, Holder};
use crate::site::{Asked, Boots, Hall, Inhabitants, Remembered, Settings, Simulator, Story};
use crate::{controllers, install, kubeconfig, paths};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How a site is run.
pub(crate) struct Options {
    /// Where it keeps its things.
    pub(crate) directory: PathBuf,
    /// What it is.
    pub(crate) asked: Asked,
    /// Where the API listens.
    pub(crate) listen: Option<SocketAddr>,
    /// Where an administrator's kubeconfig is written too.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// By how much the hardware is faster than real.
    pub(crate) speed: f64,
    /// Stop when everything is in production.
    pub(crate) until_ready: bool,
}

/// Where the API listens if nobody says otherwise.
const API: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Runs it.
pub(crate) async fn run(options: Options, display: Display) -> Outcome {
    let (began, clock) = (Instant::now(), Clock::system());
    let directory = options.directory.as_path();
    let mut hold = Hold::take(directory)?;
    let remembered = Remembered::read(directory)?;
    let source = Remembered::settle(remembered.as_ref(), options.asked.clone(), None, directory)?;
    let mut story = Story::begin(display, began, &source, options.speed)?;
    let embedded = open_api(&options, remembered.as_ref(), &clock).await?;
    hold.say(&Holder { pid: std::process::id(), url: embedded.url.clone() })?;
    story.api(embedded.url.clone(), paths::short(directory))?;

    let hall = Hall::open(Settings {
        source: &source,
        directory,
        listen: None,
        before: remembered.as_ref().and_then(|remembered| remembered.bmc),
        speed: options.speed,
        clock: clock.clone(),
    });
    let hall = hall.await?;
    let before = remembered.as_ref().and_then(|remembered| remembered.boot);
    let boots = Boots::open(&hall.datacentre, before, &embedded.url).await?;
    let (api, bmc) = (Some(embedded.address), Some(hall.address));
    Remembered { source, api, bmc, boot: Some(boots.address), cluster: None }.write(directory)?;
    let admin = Client::new(embedded.server.service_as_admin(), "default");
    let acting = identity::within(&embedded.server);
    install::kinds(&admin).await?;
    install::apply(&install::rights::of_agents()?, &admin).await?;
    install::apply(&install::accounts()?, &admin).await?;
    hall.furnish(&admin).await?;
    let site = Simulated { hall: &hall, boots: &boots, speed: options.speed };
    let parts = Parts::start(&embedded, &site, &admin, &acting, clock).await?;

    let until_ready = options.until_ready;
    let own = paths::kubeconfig_of(directory);
    let kubeconfig = paths::short(options.kubeconfig.as_ref().unwrap_or(&own));
    let (over, is_over) = tokio::sync::oneshot::channel();
    let datacentre = hall.datacentre.clone();
    let life = tokio::spawn(async move {
        let done = story.follow(&admin, &datacentre, kubeconfig).await;
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
    // Until now, those who stopped may have spoken to them.
    drop((boots, hall));
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

/// What is simulated.
struct Simulated<'a> {
    hall: &'a Hall,
    boots: &'a Boots,
    speed: f64,
}

/// Everything that works through the API in this process.
struct Parts {
    controllers: Running,
    inhabitants: Inhabitants,
}

impl Parts {
    async fn start(
        embedded: &Embedded,
        simulated: &Simulated<'_>,
        admin: &Client,
        acting: &Acting,
        clock: Clock,
    ) -> Result<Self, Error> {
        let &Simulated { hall, boots, speed } = simulated;
        let site = Site {
            boots: Some(boots.desk.clone()),
            authority: Some(embedded.authority.clone()),
            address: Some(embedded.url.clone()),
            fleet: true,
            bmcs: Some(Bmcs::real()?.at_speed(speed)),
            ..Site::default()
        };
        let selection = Selection::all();
        let controllers =
            controllers::start(&selection, &embedded.server, &site, clock.clone()).await?;
        let asking = Asking { boots: boots.service.clone(), door: hosts::door(&embedded.server) };
        let hosts = Simulator { acting, identity: Identity::Asked(asking), speed, clock };
        let inhabitants = Inhabitants::begin(&hall.datacentre, admin, hosts).await?;
        Ok(Self { controllers, inhabitants })
    }

    /// Those first that the others look after.
    async fn stop(self) {
        self.inhabitants.stop().await;
        self.controllers.stop().await;
    }
}
