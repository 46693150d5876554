//! Whether what was done was right, by the hidden truth.

use std::collections::BTreeSet;
use std::time::Duration;

use api::Ledger;
use api::names::CORDONED_FOR;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use plan::budget::{Census, Counted, limit};

use super::witness::{Seen, Stand};

/// A machine is worked on now as if it were ill: was something wrong with it, at the latest when the
/// incident was opened for which this is done?
pub(super) fn evidence(seen: &mut Seen, name: &str) {
    let Some(now) = seen.time() else { return };
    let opened = seen.stands.get(name).and_then(|stand| stand.incident).unwrap_or(now);
    let ill = seen.cases.iter().any(|case| {
        // A repair that was cut short by the fault's end is one for that fault.
        let over = case.end.saturating_add(Duration::from_secs(1));
        case.node == name && case.at <= now && over >= opened
    });
    if !ill {
        seen.verdict.no_evidence += 1;
    }
}

/// A cordon that no incident answers for is a person's; nobody else lifts it.
pub(super) fn cordons(seen: &mut Seen, old: &Node, new: &Node) {
    let cordoned = |node: &Node| node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
    let persons = |node: &Node| cordoned(node) && !node.annotations().contains_key(CORDONED_FOR);
    if seen.start.is_some() && persons(old) && !cordoned(new) {
        seen.verdict.against_person += 1;
    }
}

/// A grant was given: was there room for it in every scope?
pub(super) fn budget(seen: &mut Seen, old: Option<&Ledger>, new: &Ledger) {
    let grants = |ledger: &Ledger| ledger.status.clone().unwrap_or_default().grants;
    let known: BTreeSet<String> =
        old.map(grants).unwrap_or_default().into_iter().map(|grant| grant.node_uid).collect();
    let grants = grants(new);
    let given: Vec<_> = grants.iter().filter(|grant| !known.contains(&grant.node_uid)).collect();
    if given.is_empty() {
        return;
    }
    let census = Census::of(seen.stands.iter().filter_map(counted));
    for grant in given {
        let asks = Counted {
            node: grant.node.clone(),
            pool: grant.pool.clone(),
            rack: grant.rack.clone(),
            tenant: grant.tenant.clone(),
            out: true,
        };
        let over = asks.scopes().any(|scope| {
            let held = grants.iter().filter(|other| {
                let other = Counted {
                    node: other.node.clone(),
                    pool: other.pool.clone(),
                    rack: other.rack.clone(),
                    tenant: other.tenant.clone(),
                    out: true,
                };
                other.scopes().any(|of| of == scope)
            });
            let held = u32::try_from(held.count()).unwrap_or(u32::MAX);
            held > limit(&new.spec, &scope, &census, None)
        });
        if over {
            seen.verdict.over_budget += 1;
        }
    }
}

fn counted((name, stand): (&String, &Stand)) -> Option<Counted> {
    let machine = stand.machine.as_ref()?;
    stand.node.as_ref()?;
    let status = machine.status.as_ref()?;
    Some(Counted {
        node: name.clone(),
        pool: status.pool.clone(),
        rack: machine.spec.place.rack.clone(),
        tenant: status.tenant.clone(),
        out: false,
    })
}
