//! Tells how a site comes to life, from its first machine to the last.

use std::time::Instant;

use api::Machine;
use api::state::Role;
use kube::api::ListParams;
use kube::{Api, Client};
use sim::datacentre::{Datacentre, Layout};
use sim::scenario::Scenario;

use super::display::{Display, Said, seconds};
use super::play::Stage;
use super::progress::Step;
use super::{Source, watch};
use crate::cmd::{Outcome, version};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// See the module.
pub(crate) struct Story {
    display: Display,
    began: Instant,
    speed: f64,
    scenario: Option<Scenario>,
}

impl Story {
    /// Begins with what the site is.
    ///
    /// # Errors
    /// If nobody listens any more, or the site cannot be.
    pub(crate) fn begin(
        mut display: Display,
        began: Instant,
        source: &Source,
        speed: f64,
    ) -> Outcome<Self> {
        display.show(&Said::Site {
            version: version::LINE.to_owned(),
            about: format!("{} · seed {}", about(&source.layout()?), source.seed()),
        })?;
        Ok(Self { display, began, speed, scenario: source.scenario()? })
    }

    /// The API answers.
    ///
    /// # Errors
    /// If nobody listens any more.
    pub(crate) fn api(&mut self, url: String, data: String) -> std::io::Result<()> {
        self.display.show(&Said::Api { seconds: seconds(self.began.elapsed()), url, data })
    }

    /// Shows how machines come to production, until all have, and plays the scenario if there is one;
    /// `kubeconfig` is what to give to kubectl.
    ///
    /// # Errors
    /// If one does not, or nobody listens any more.
    pub(crate) async fn follow(
        mut self,
        admin: &Client,
        datacentre: &Datacentre,
        kubeconfig: String,
    ) -> Outcome {
        let scenario = self.scenario.take();
        let began = self.began;
        let stage = scenario.as_ref().map(|scenario| Stage { admin, datacentre, scenario, began });
        // A script that was begun goes on whatever is broken meanwhile.
        let plays = match &stage {
            Some(stage) => stage.is_under_way().await?,
            None => false,
        };
        if !plays {
            let done = watch::until_production(admin, |step, done, total| {
                let about = self.detail(step, datacentre);
                let seconds = seconds(self.began.elapsed());
                self.display.show(&Said::Step { step, done, total, seconds, about })
            });
            if let Err(error) = done.await {
                return self.failed(error);
            }
        }
        self.display.show(&Said::Ready {
            seconds: seconds(self.began.elapsed()),
            kubeconfig,
            example: example(admin).await.unwrap_or_default(),
        })?;
        let Some(stage) = stage else { return Ok(()) };
        match stage.play(&mut self.display).await {
            Ok(()) => Ok(()),
            Err(error) => self.failed(error),
        }
    }

    /// Says why it does not go on.
    fn failed(&mut self, error: Error) -> Outcome {
        self.display.show(&Said::Failed { why: kit::error::chain(&*error).to_string() })?;
        Err(error)
    }

    /// What stands beside a step.
    fn detail(&self, step: Step, datacentre: &Datacentre) -> String {
        match step {
            Step::Boot => format!("hardware delays divided by {} (--speed)", self.speed),
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
}

/// A machine that has GPUs to break: one that serves, where one does already.
async fn example(admin: &Client) -> Option<String> {
    let machines: Api<Machine> = Api::all(admin.clone());
    let all = machines.list(&ListParams::default()).await.ok()?.items;
    let gpus = |machine: &&Machine| {
        let inventory = machine.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.is_some_and(|inventory| inventory.gpus > 0)
    };
    let serves = |machine: &&&Machine| {
        machine.status.as_ref().is_some_and(|status| status.role == Role::Member)
    };
    let breakable: Vec<&Machine> = all.iter().filter(gpus).collect();
    let serving: Vec<&Machine> = breakable.iter().filter(serves).copied().collect();
    let chosen = if serving.is_empty() { breakable } else { serving };
    chosen.get(chosen.len() / 3).map(|machine| machine.name().to_owned())
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
