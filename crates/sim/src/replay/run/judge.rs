//! Whether what was done was right, by the hidden truth.
//!
//! A trace breaks servers one by one and neither leaves nor racks, so an act has evidence only if that
//! very server was ill: that its neighbours were is no excuse here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::names::CORDONED_FOR;
use api::{Ledger, Machine};
use k8s_openapi::api::core::v1::Node;
use kit::controller::Change;
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

/// A cordon that no incident answers for is a person's: nobody else lifts it, and nobody makes it theirs.
/// Who gives a node back has said so before.
pub(super) fn cordons(seen: &mut Seen, name: &str, old: &Node, new: &Node) {
    let cordoned = |node: &Node| node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
    let persons = |node: &Node| cordoned(node) && !node.annotations().contains_key(CORDONED_FOR);
    if seen.kept.contains(name) && persons(old) && !persons(new) {
        seen.verdict.against_person += 1;
    }
}

/// Something is asked of a machine, by one of ours: not while a person keeps it.
pub(super) fn asked(seen: &mut Seen, name: &str) {
    if seen.kept.contains(name) {
        seen.verdict.against_person += 1;
    }
}

/// An operation begins on a machine: not while a person keeps it.
pub(super) fn operation(seen: &mut Seen, change: &Change<Machine>) {
    let id = |machine: &Option<Arc<Machine>>| {
        let status = machine.as_ref()?.status.as_ref()?;
        status.operation.as_ref().map(|operation| operation.id.clone())
    };
    let (old, new) = (id(&change.old), id(&change.new));
    if new.is_some() && old != new && seen.kept.contains(&change.key.name) {
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

#[cfg(test)]
mod tests {
    use super::super::witness::Record;
    use super::*;
    use serde_json::json;

    fn node(cordoned: bool, incident: Option<&str>) -> Node {
        let marks: serde_json::Map<_, _> =
            incident.map(|i| (CORDONED_FOR.to_owned(), i.into())).into_iter().collect();
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "annotations": marks},
            "spec": {"unschedulable": cordoned},
        }))
        .unwrap()
    }

    #[test]
    fn who_crosses_the_operator_is_counted() {
        let record = Record::default();
        let (persons, free) = (node(true, None), node(false, None));
        let count = |old: &Node, new: &Node| {
            let mut seen = record.lock();
            cordons(&mut seen, "n1", old, new);
            seen.verdict.against_person
        };
        assert_eq!(count(&persons, &free), 0, "nobody keeps it");
        assert!(record.keep("n1") && !record.keep("n1"));
        assert_eq!(count(&persons, &free), 1, "lifted");
        assert_eq!(count(&persons, &node(true, Some("i1"))), 2, "taken for an incident's");
        assert_eq!(count(&node(true, Some("i1")), &free), 2, "it was not a person's");
        asked(&mut record.lock(), "n1");
        asked(&mut record.lock(), "n2");
        assert_eq!(record.lock().verdict.against_person, 3);
        record.let_go("n1");
        assert_eq!(count(&persons, &free), 3, "given back");
    }
}
