//! What runs on booted machines: agents and kubelets, for all machines of a datacentre in one process.
//!
//! One watch of Machines, one of Nodes and one of Pods serve them all. A machine costs a task at rest
//! until it boots; then it has an [`agent::Agent`] over its hardware, and, while its agent wants one,
//! a kubelet. The agent acts as its machine and the kubelet as its node towards the API: identities that
//! each boot asks the boot service for, or that are declared ([`Identity`]). All of it ends without a word
//! when the power goes.
//!
//! What is simulated is the machine: what it writes, and when, is what a real one would write. Pods run
//! nothing; [`annotations`](kubelet::annotations) say how long and how they end. Nothing ticks here but
//! the Leases on the wall clock; in virtual time, life is told by [`Heartbeats`] instead.
//!
//! Beside them stands the monitor that compares nodes with their peers, since what is slow but alive
//! shows nowhere else.
//!
//! A fault that silences the kubelet or the agent stops it; killing this process stops nothing but
//! their voices: hardware goes on, and whoever starts again takes up where they were.

mod beat;
mod fleet;
mod host;
mod identity;
mod join;
pub mod kubelet;
mod peers;
mod platform;

use std::sync::Arc;
use std::time::Duration;

use agent::{Detectors, Unreadable};
use kit::controller::{Compare, Manager, VIRTUAL_WATCH_LIFETIME, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Client;
use tokio::task::JoinSet;

use crate::datacentre::Datacentre;
use fleet::Fleet;
use host::Host;
use kubelet::Kubelets;
use peers::Monitor;

use beat::Whose;

pub use agent::Signs;
pub use beat::Heartbeats;
pub use identity::{Asking, Credential, Door, Identity, bear, door};

/// A client that acts as a user of these groups.
pub type Clients = Arc<dyn Fn(&str, &[&str]) -> Client + Send + Sync>;

/// Who watches for all of them. A real machine watches its own objects only, by its own identity;
/// thousands in one process share.
const WATCHER: (&str, [&str; 2]) =
    ("seatrial-simulator", ["system:masters", "system:authenticated"]);

/// How hosts are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How kubelets and agents say that they live: kubelets every ten seconds, as real ones do, agents
    /// every minute, or by [`Heartbeats`].
    pub signs: Signs,
    /// Where jitter and the secrets of boots come from.
    pub ids: Ids,
    /// Where identities come from.
    pub identity: Identity,
}

/// The hosts of a datacentre, as they run. They stop when this is dropped.
pub struct Hosts {
    kubelets: kit::controller::Running,
    tasks: JoinSet<()>,
    fleet: Fleet,
}

impl Hosts {
    /// Starts them: machines that run are taken up, others follow when they boot.
    ///
    /// # Errors
    /// The site's catalogue cannot be read by detectors.
    pub fn start(
        datacentre: &Datacentre,
        clients: Clients,
        options: Options,
    ) -> Result<Self, Unreadable> {
        let Options { signs, ids, identity } = options;
        let clock = datacentre.settings().clock.clone();
        let detectors = Detectors::new(datacentre.settings().catalogue.clone())?;
        let fleet = Fleet::new(datacentre.machines());
        let watch_lifetime = match signs {
            Signs::Leases => WATCH_LIFETIME,
            Signs::Function => VIRTUAL_WATCH_LIFETIME,
        };
        let mut manager = Manager::new(kit::controller::Options {
            client: clients(WATCHER.0, &WATCHER.1),
            clock: clock.clone(),
            ids: ids.clone(),
            watch_lifetime,
            instance: WATCHER.0.to_owned(),
        });
        manager.add_with::<Kubelets>(clients(WATCHER.0, &WATCHER.1), fleet.clone());
        let catalogue = Some(datacentre.settings().catalogue.clone());
        let settings = peers::Settings { fleet: fleet.clone(), catalogue };
        manager.add_with::<Monitor>(clients(WATCHER.0, &WATCHER.1), settings);
        let mut tasks = JoinSet::new();
        for hardware in datacentre.machines() {
            let host = Host {
                hardware,
                fleet: fleet.clone(),
                clients: Arc::clone(&clients),
                clock: clock.clone(),
                ids: ids.clone(),
                detectors: detectors.clone(),
                identity: identity.clone(),
                signs,
            };
            tasks.spawn(host.run());
        }
        if signs == Signs::Leases {
            tasks.spawn(beat::renew_leases(fleet.clone(), clock));
        }
        Ok(Self { kubelets: manager.start(), tasks, fleet })
    }

    /// Whose kubelet lives, for a lease monitor in virtual time.
    pub fn heartbeats(&self) -> Heartbeats {
        Heartbeats::new(self.fleet.clone(), Whose::Kubelet)
    }

    /// Whose agent lives, for who watches over agents in virtual time.
    pub fn agents(&self) -> Heartbeats {
        Heartbeats::new(self.fleet.clone(), Whose::Agent)
    }

    /// Returns when the kubelets have nothing left to do; their deadlines may lie ahead.
    ///
    /// # Errors
    /// If a list fails.
    pub async fn until_idle(&self) -> Result<(), Compare> {
        self.kubelets.until_idle().await
    }

    /// Stops them as a crash would: the hardware goes on.
    pub async fn stop(self) {
        let Self { kubelets, mut tasks, fleet: _ } = self;
        tasks.shutdown().await;
        kubelets.stop().await;
    }
}

/// How often a kubelet renews its Lease: a quarter of its duration, as upstream's.
const RENEW: Duration = Duration::from_secs(10);
/// How long a Lease lasts.
const LEASE: Duration = Duration::from_secs(40);
