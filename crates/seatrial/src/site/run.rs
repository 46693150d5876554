//! Runs a simulated site on a cluster that others run, until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kit::clock::Clock;
use kube::{Api, ResourceExt as _};
use sim::hosts::{Asking, Identity};

use super::display::Display;
use super::elsewhere::boot_service;
use super::hold::{Hold, Holder};
use super::{Asked, BootUrl, Hall, Inhabitants, Remembered, Settings, Simulator, Story};
use crate::client::Cluster;
use crate::cmd::Outcome;
use crate::{embedded, identity, install, paths};

/// How it is run.
pub(crate) struct Options {
    /// Where it keeps its things.
    pub(crate) directory: PathBuf,
    /// What it is.
    pub(crate) asked: Asked,
    /// Where BMCs must answer.
    pub(crate) listen: Option<SocketAddr>,
    /// Where machines ask what they boot and who they are; identities are handed over if nowhere.
    pub(crate) boots: Vec<BootUrl>,
    /// By how much the hardware is faster than real.
    pub(crate) speed: f64,
}

/// Runs it.
pub(crate) async fn run(cluster: &Cluster, options: Options, display: Display) -> Outcome {
    let (began, clock) = (Instant::now(), Clock::system());
    let directory = options.directory.as_path();
    let mut hold = Hold::take(directory)?;
    let uid = identity_of(cluster).await?;
    let remembered = Remembered::read(directory)?;
    let source = Remembered::settle(remembered.as_ref(), options.asked, uid.as_deref(), directory)?;
    let mut story = Story::begin(display, began, &source, options.speed)?;
    hold.say(&Holder { pid: std::process::id(), url: cluster.url().to_owned() })?;
    story.api(cluster.url().to_owned(), paths::short(directory))?;

    let hall = Hall::open(Settings {
        source: &source,
        directory,
        listen: options.listen,
        before: remembered.as_ref().and_then(|remembered| remembered.bmc),
        speed: options.speed,
        clock: clock.clone(),
    });
    let hall = hall.await?;
    let bmc = Some(hall.address);
    Remembered { source, api: None, bmc, boot: None, cluster: uid }.write(directory)?;
    let admin = cluster.client();
    install::kinds(admin).await?;
    install::apply(&install::rights::of_agents()?, admin).await?;
    install::apply(&install::accounts()?, admin).await?;
    hall.furnish(admin).await?;
    let acting = identity::through(admin);
    let identity = match boot_service(&options.boots) {
        None => Identity::Declared,
        Some(boots) => {
            hall.datacentre.boot_from(boots.clone());
            Identity::Asked(Asking { boots, door: identity::door(cluster.as_nobody())? })
        }
    };
    let (acting, speed) = (&acting, options.speed);
    let simulator = Simulator { acting, identity, speed, clock };
    let inhabitants = Inhabitants::begin(&hall.datacentre, admin, simulator).await?;
    // Absolute, so that the line works from anywhere.
    let kubeconfig = paths::short(&std::path::absolute(cluster.kubeconfig())?);
    let follows = story.follow(admin, &hall.datacentre, kubeconfig);
    let lives = async {
        // One that fails has been shown: the others go on, and whoever looks after it may help.
        let _ = follows.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = embedded::terminated() => {}
        () = lives => {}
    }
    inhabitants.stop().await;
    Ok(())
}

/// What tells this cluster from every other.
async fn identity_of(cluster: &Cluster) -> Result<Option<String>, crate::client::ClientError> {
    let namespaces: Api<Namespace> = Api::all(cluster.client().clone());
    let system = namespaces.get("kube-system").await.map_err(|error| cluster.explain(error))?;
    Ok(system.uid())
}
