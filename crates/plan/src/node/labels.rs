//! What a node wears: labels and taints that follow from its machine's object.

use super::Act;
use super::look::Look;
use api::names;
use api::state::{Role, State};
use std::collections::BTreeMap;

pub(super) fn dress(look: &mut Look<'_>) {
    let Some(node) = look.observed.node else { return };
    let machine = look.observed.machine;
    let (spec, status) = (&machine.spec, machine.status.as_ref());
    let role = status.map(|status| status.role).unwrap_or_default();
    let some = |value: &str| Some(value.to_owned());
    let labels: BTreeMap<&'static str, Option<String>> = [
        (names::MACHINE, some(machine.name())),
        (names::INSTANCE_TYPE, some(&spec.instance_type)),
        (names::ZONE, some(&spec.place.site)),
        (names::ROW, spec.place.row.clone()),
        (names::RACK, some(&spec.place.rack)),
        (names::SLOT, Some(spec.place.slot.to_string())),
        (names::LEAF, spec.place.leaf.clone()),
        (names::NVLINK_DOMAIN, spec.place.nvlink_domain.clone()),
        (names::STATE, Some(machine.state().label())),
        (names::ROLE, (role != Role::None).then(|| role.name().to_owned())),
        (names::POOL, status.and_then(|status| status.pool.clone())),
        (names::TENANT, status.filter(|s| s.pool.is_some()).and_then(|s| s.tenant.clone())),
    ]
    .into();
    let not_in_production = machine.state() != State::Production;
    let spare = role == Role::Spare;
    let worn = labels.iter().all(|(name, value)| node.labels.get(*name) == value.as_ref());
    let tainted = |key: &str| node.taints.iter().any(|taint| taint == key);
    if worn
        && tainted(names::TAINT_STATE) == not_in_production
        && tainted(names::TAINT_SPARE) == spare
    {
        return;
    }
    let why = format!("the machine is in {}, {}", machine.state(), role.name());
    look.deed(Act::Dress { labels, not_in_production, spare }, why);
}
