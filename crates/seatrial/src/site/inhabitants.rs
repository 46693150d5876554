//! Who lives at a site: agents and kubelets on its machines, the programs of training jobs, and the
//! people in its hall. Each acts as
//! itself, with its own rights.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::Clock;
use kit::controller::{Manager, Running, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Client;
use sim::datacentre::{Datacentre, Hardware, Heal};
use sim::hosts::{self, Hosts, Identity, Signs};
use sim::people::{Hands, People, Workshop};
use sim::trainer::{self, Ears};

use crate::identity::Acting;
use crate::install::{self, rights};

/// Whoever sits at a terminal is the operator: nobody else acknowledges a breaker in time.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Who lists and watches for the people.
const READER: &str = "seatrial-people";

/// How a site is lived in.
pub(crate) struct Simulator<'a> {
    /// Whoever acts.
    pub(crate) acting: &'a Acting,
    /// Where agents and kubelets have their identities from.
    pub(crate) identity: Identity,
    /// By how much people are faster than real.
    pub(crate) speed: f64,
    /// The time.
    pub(crate) clock: Clock,
}

/// See the module.
pub(crate) struct Inhabitants {
    people: Running,
    trainer: (Running, Ears),
    machines: Hosts,
}

impl Inhabitants {
    /// Lets them live; the fleet's kinds and the rights of agents are installed.
    ///
    /// # Errors
    /// If the people's roles cannot be written, or the catalogue cannot be read.
    pub(crate) async fn begin(
        datacentre: &Datacentre,
        admin: &Client,
        simulator: Simulator<'_>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let Simulator { acting, identity, speed, clock } = simulator;
        let people = hire(datacentre, admin, acting, speed, clock.clone()).await?;
        let trainer = employ(datacentre, admin, acting, clock).await?;
        let options = hosts::Options { signs: Signs::Leases, ids: Ids::system(), identity };
        let machines = Hosts::start(datacentre, Arc::clone(acting), options)?;
        Ok(Self { people, trainer, machines })
    }

    /// Stops them as a crash would: the hardware goes on.
    pub(crate) async fn stop(self) {
        self.machines.stop().await;
        self.trainer.0.stop().await;
        self.people.stop().await;
    }
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

/// A technician, who works as fast as the hardware does.
async fn hire(
    datacentre: &Datacentre,
    admin: &Client,
    acting: &Acting,
    speed: f64,
    clock: Clock,
) -> Result<Running, Box<dyn std::error::Error + Send + Sync>> {
    let people = People {
        hands: Hands { acknowledge: NEVER, ..Hands::default().divided(speed) },
        workshop: Arc::new(Store(datacentre.clone())),
        ..People::default()
    };
    install::apply(&rights::of_people()?, admin).await?;
    install::apply(&rights::of_simulated_people(READER)?, admin).await?;
    let mut manager = manager(acting, READER, clock, "people");
    people.join(&mut manager, |user| acting(user, &[]));
    Ok(manager.start())
}

/// The program of training jobs that tenants start.
async fn employ(
    datacentre: &Datacentre,
    admin: &Client,
    acting: &Acting,
    clock: Clock,
) -> Result<(Running, Ears), Box<dyn std::error::Error + Send + Sync>> {
    install::apply(&rights::of_trainer()?, admin).await?;
    let mut manager = manager(acting, trainer::USER, clock, "trainer");
    let ears = trainer::join(&mut manager, acting(trainer::USER, &[]), datacentre);
    Ok((manager.start(), ears))
}

/// Who lists and watches for those who are no controllers of the fleet.
fn manager(acting: &Acting, reader: &str, clock: Clock, instance: &str) -> Manager {
    Manager::new(kit::controller::Options {
        client: acting(reader, &[]),
        clock,
        ids: Ids::system(),
        watch_lifetime: WATCH_LIFETIME,
        instance: instance.to_owned(),
    })
}
