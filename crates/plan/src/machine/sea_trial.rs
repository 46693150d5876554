//! SeaTrial: the first voyage. The machine is switched on, boots from the network, and shows that
//! parts and cables are those of its type. Ends in Zap, or after three tries or two hours in Triage.

use super::Next;
use super::look::Look;
use api::request::{Chore, Effect, Power};
use api::state::State;

pub(super) fn next(look: &Look<'_>) -> Next {
    let Some(kind) = look.observed.kind else {
        let why = format!(
            "waits for the InstanceType {:?}: there is none of that name",
            look.observed.machine.spec.instance_type
        );
        return Next::Wait { stage: "no instance type", why, until: None };
    };
    let progress = &look.status.progress;
    if progress.booted.is_none() {
        let why = "boot from the network for the first time".to_owned();
        return Next::Do { stage: "boot", effect: Effect::Power(Power::Cycle), target: None, why };
    }
    if progress.inventoried.is_none() {
        let why = "take the inventory".to_owned();
        return Next::Do {
            stage: "inventory",
            effect: Effect::Chore(Chore::Inventory),
            target: None,
            why,
        };
    }
    let found = look.status.inventory.clone().unwrap_or_default();
    let differences = found.differences(&kind.spec.expected);
    if differences.is_empty() {
        let why =
            format!("parts and cables are those of {}", look.observed.machine.spec.instance_type);
        return Next::Go { to: State::Zap, why };
    }
    Next::Fail { why: format!("parts or cables differ: {}", differences.join(", ")) }
}
