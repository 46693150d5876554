//! The boot service's knowledge and its word: what machines boot, who they are, and how they join.
//!
//! [`Desk`] answers `metal::boot` by the caches, so that ten thousand machines that come up at once
//! cost the API no lists. What a machine is to be given (an identity for its agent, a token to join) is
//! asked for at the desk and given by the controller, one ask of a machine after the other, as
//! [`plan::boot`] decides: written down first in the Machine's status, over the one that was looked at;
//! then told in an Event; then made; then handed out. So of two askers one is first, whoever is killed
//! in between has given nothing twice, and several replicas may serve at once.
//!
//! An identity is a token of the machine's own service account in [`names::MACHINES`]; a token to join
//! is a bootstrap token in `kube-system`. Neither is ever logged or kept here.

mod desk;
mod give;
mod rights;

use std::sync::Arc;

use api::{GROUP, InstanceType, Machine, NodePool, names};
use kit::controller::{Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};

pub use desk::{Addresses, Desk};
pub use rights::{joining, namespace};

use desk::{Ask, Caches, What};

/// Where bootstrap tokens lie.
const KUBE_SYSTEM: &str = "kube-system";

/// So many machines are served at once: each waits for a few writes.
const CONCURRENCY: usize = 32;

/// See the module.
pub struct Boots {
    desk: Desk,
}

/// An ask, and the machine that it is about.
pub struct Observed {
    ask: Arc<Ask>,
    machine: Arc<Machine>,
    now: jiff::Timestamp,
}

/// What shall be done about an ask.
pub struct Plan {
    ask: Arc<Ask>,
    machine: Arc<Machine>,
    deed: Deed,
}

/// What is decided.
enum Deed {
    Enrol(plan::boot::Enrol),
    Join(plan::boot::Join, jiff::Timestamp),
}

impl Controller for Boots {
    type Key = ObjectKey;
    type Settings = Desk;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "boot";

    fn wire(desk: Desk, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Says what machines boot and who they are, and gives them tokens to join")
            .concurrency(CONCURRENCY)
            .may(&["patch"], GROUP, &["machines/status"])
            // Tokens to join, and accounts and tokens of machines, each where they lie.
            .may_in(KUBE_SYSTEM, &["create"], "", &["secrets"])
            .may_in(names::MACHINES, &["create"], "", &["serviceaccounts", "serviceaccounts/token"])
            .records_events();
        let caches = Caches {
            machines: wiring.read(Watch::<Machine>::all()),
            kinds: wiring.read(Watch::<InstanceType>::all()),
            pools: wiring.read(Watch::<NodePool>::all()),
        };
        desk.open(caches, wiring.adder());
        Self { desk }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(ask) = self.desk.next(key) else { return Ok(None) };
        let Some(machine) = self.desk.machine_of(key) else {
            ask.fail(&format!("there is no Machine {key} any more"));
            return Ok(None);
        };
        Ok(Some(Observed { ask, machine, now: context.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        let Observed { ask, machine, now } = observed;
        let deed = match ask.what {
            What::Enrol => Deed::Enrol(plan::boot::enrol(machine, &ask.boot, &ask.proof, *now)),
            What::Join => Deed::Join(plan::boot::join(machine, &ask.boot, &ask.proof, *now), *now),
        };
        Plan { ask: Arc::clone(ask), machine: Arc::clone(machine), deed }
    }

    async fn apply(&self, context: &Context, key: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let ask = Arc::clone(&plan.ask);
        match give::give(context, plan).await {
            Ok(answer) => ask.answer(answer),
            // Somebody wrote in between: the same ask is looked at anew.
            Err(error) if error.is_conflict() => {
                self.desk.put_back(key, ask);
                return Err(Error::not_ready("the machine has changed since it was looked at"));
            }
            Err(error) => {
                ask.fail(&kit::error::chain(&error).to_string());
                return Err(error);
            }
        }
        Ok(Wake::Never)
    }
}
