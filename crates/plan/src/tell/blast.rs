//! What a verb would disturb, told before it does.

use super::{count, some, treatment_words};
use crate::budget::{self, Census, Counted, Scope};
use crate::pod;
use api::treatment::Treatment;
use api::{Ledger, Machine, NodePool};
use k8s_openapi::api::core::v1::Pod;
use std::fmt;

/// What is disturbed if a node is taken out now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blast {
    /// How many pods of users run.
    pub pods: usize,
    /// How many of them ask to be waited for.
    pub waiting: usize,
    lines: Vec<String>,
}

impl fmt::Display for Blast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.lines.join("\n"))
    }
}

/// Counts what taking a node out would disturb.
pub fn blast(
    name: &str,
    pods: &[Pod],
    machine: Option<&Machine>,
    fleet: &[Machine],
    pool: Option<&NodePool>,
    ledger: Option<&Ledger>,
) -> Blast {
    let held: Vec<&Pod> = pods.iter().filter(|pod| pod::holds(pod)).collect();
    let waiting = held.iter().filter(|pod| pod::treatment(pod) == Treatment::Wait).count();
    let status = machine.and_then(|machine| machine.status.as_ref());
    let mut lines = vec![workload(name, &held, status.and_then(|s| s.tenant.as_deref()))];
    if let Some(pool) = pool {
        let of = pool.metadata.name.as_deref().unwrap_or_default();
        let status = pool.status.clone().unwrap_or_default();
        let spares = count(status.spares.try_into().unwrap_or(usize::MAX), "spare");
        lines.push(format!(
            "It serves pool {of}: {} of {} nodes serve, {spares} would fit.",
            status.current, status.target
        ));
    }
    if let (Some(ledger), Some(machine)) = (ledger, machine)
        && let Some(line) = budget(ledger, machine, fleet, pool)
    {
        lines.push(format!("Budget {line}."));
    }
    Blast { pods: held.len(), waiting, lines }
}

fn workload(name: &str, held: &[&Pod], tenant: Option<&str>) -> String {
    if held.is_empty() {
        return format!("{name} runs no pod of a user.");
    }
    let names: Vec<&str> =
        held.iter().map(|pod| pod.metadata.name.as_deref().unwrap_or_default()).collect();
    let of = tenant.map_or(String::new(), |tenant| format!(" of tenant {tenant}"));
    let mut kinds: Vec<String> = Vec::new();
    for treatment in Treatment::ALL {
        let number = held.iter().filter(|pod| pod::treatment(pod) == treatment).count();
        match (number, treatment) {
            (0, _) => {}
            (1, Treatment::Wait) => kinds.push("1 may not be interrupted".to_owned()),
            (n, Treatment::Wait) => kinds.push(format!("{n} may not be interrupted")),
            (n, treatment) => kinds.push(format!("{n} {}", treatment_words(treatment))),
        }
    }
    let pods = count(held.len(), "pod");
    format!("{name} runs {pods}{of} ({}); {}.", some(&names), kinds.join(", "))
}

/// How far the budget that binds first is used: `pool/h100: 1 of 2 out`.
pub(super) fn budget(
    ledger: &Ledger,
    machine: &Machine,
    fleet: &[Machine],
    pool: Option<&NodePool>,
) -> Option<String> {
    let counted = |machine: &Machine| {
        let status = machine.status.clone().unwrap_or_default();
        Counted {
            node: machine.name().to_owned(),
            rack: machine.spec.place.rack.clone(),
            pool: status.pool,
            tenant: status.tenant,
            out: false,
        }
    };
    let grants = ledger.status.iter().flat_map(|status| &status.grants).count();
    let census = Census::of(fleet.iter().map(counted));
    let tightest = counted(machine)
        .scopes()
        .map(|scope| {
            let own = pool.and_then(|pool| pool.spec.max_unavailable);
            let own = own.filter(|_| matches!(scope, Scope::Pool(_)));
            let limit = budget::limit(&ledger.spec, &scope, &census, own);
            let held = ledger.status.iter().flat_map(|status| &status.grants);
            let used = held
                .filter(|grant| match &scope {
                    Scope::Fleet => true,
                    Scope::Pool(name) => grant.pool.as_ref() == Some(name),
                    Scope::Rack(name) => grant.rack == *name,
                    Scope::Tenant(name) => grant.tenant.as_ref() == Some(name),
                })
                .count();
            (scope, used, limit)
        })
        .filter(|(_, _, limit)| *limit < u32::MAX)
        .min_by_key(|(_, used, limit)| {
            i64::from(*limit) - i64::try_from(*used).unwrap_or(i64::MAX)
        });
    match tightest {
        Some((scope, used, limit)) => Some(format!("{scope}: {used} of {limit} out on purpose")),
        None if grants > 0 => Some(format!("unlimited: {} out on purpose", count(grants, "node"))),
        None => None,
    }
}
