//! How a machine stands, in one word for a map.

use crate::pool::takes_out;
use api::state::{Role, State};
use api::{Incident, Machine};
use k8s_openapi::api::core::v1::Node;

/// How well it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It serves a pool.
    Serving,
    /// It is kept free as a spare.
    Spare,
    /// It is on its way to production.
    Underway,
    /// It is out of service, and worked on.
    Sick,
    /// It waits for people.
    Waiting,
}

impl Mark {
    /// Every mark.
    pub const ALL: [Self; 5] =
        [Self::Serving, Self::Spare, Self::Underway, Self::Sick, Self::Waiting];

    /// What it is called where marks are counted.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Spare => "spare",
            Self::Underway => "on the way",
            Self::Sick => "out of service",
            Self::Waiting => "waiting for people",
        }
    }
}

/// How a machine stands, and the word for it: its pool, its state, or what is wrong.
pub fn slot(machine: &Machine, node: Option<&Node>, incidents: &[&Incident]) -> (Mark, String) {
    let state = machine.state();
    if let Some(incident) = incidents.iter().find(|incident| takes_out(incident, true)) {
        return (Mark::Sick, incident.spec.cause.clone());
    }
    match state {
        State::Production => {}
        State::SeaTrial | State::Zap | State::Test => return (Mark::Underway, state.to_string()),
        State::ZapFailed | State::Triage => return (Mark::Sick, state.to_string()),
        State::Onboard | State::Debug | State::Rma => return (Mark::Waiting, state.to_string()),
    }
    let Some(node) = node else { return (Mark::Underway, "joining".to_owned()) };
    if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default() {
        return (Mark::Waiting, "cordoned".to_owned());
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True") {
        return (Mark::Sick, "not ready".to_owned());
    }
    let status = machine.status.as_ref();
    match (status.map(|status| status.role), status.and_then(|status| status.pool.clone())) {
        (Some(Role::Member), Some(pool)) => (Mark::Serving, pool),
        _ => (Mark::Spare, "spare".to_owned()),
    }
}
