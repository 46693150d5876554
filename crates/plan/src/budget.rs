//! One ledger of disruptions, for the fleet, each pool, each rack and each tenant.
//!
//! Two kinds of grant, held to the same limits in different ways:
//! - a **disruption** takes a node that serves. It is granted while, in every scope of the node, what
//!   is out for whatever cause plus this one stays within the limit. What is out already is
//!   subtracted: a scope that has lost nodes to faults gives none away.
//! - a **repair** works on a node that is out anyway. It takes nothing from anybody, so faults do not
//!   use up its budget, or a scope with many faults would never be repaired; but no more repairs and
//!   disruptions together are held than the limit says.
//!
//! [`grant`] is the only way into the ledger. It is applied to what is stored, by compare-and-swap,
//! so whatever raced is counted; a controller that loses the race asks again.

use api::Ledger;
use api::ledger::{Grant, Kind, LedgerSpec, LedgerStatus, Limit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a budget is kept for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every node.
    Fleet,
    /// The nodes of a pool.
    Pool(String),
    /// The nodes of a rack.
    Rack(String),
    /// The nodes of a tenant.
    Tenant(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => out.write_str("fleet"),
            Self::Pool(name) => write!(out, "pool/{name}"),
            Self::Rack(name) => write!(out, "rack/{name}"),
            Self::Tenant(name) => write!(out, "tenant/{name}"),
        }
    }
}

/// One node, as the budgets count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name.
    pub node: String,
    /// The pool it serves.
    pub pool: Option<String>,
    /// The rack it stands in.
    pub rack: String,
    /// The tenant it serves.
    pub tenant: Option<String>,
    /// Whether it takes no work now, for whatever cause.
    pub out: bool,
}

impl Counted {
    /// Every scope that it belongs to.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> {
        let pool = self.pool.clone().map(Scope::Pool);
        let tenant = self.tenant.clone().map(Scope::Tenant);
        [Some(Scope::Fleet), pool, Some(Scope::Rack(self.rack.clone())), tenant]
            .into_iter()
            .flatten()
    }
}

/// How many nodes each scope has, and which of them are out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    scopes: BTreeMap<Scope, Share>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    size: u32,
    out: BTreeSet<String>,
}

impl Census {
    /// Counts every node anew.
    pub fn of(nodes: impl IntoIterator<Item = Counted>) -> Self {
        let mut census = Self::default();
        for node in nodes {
            census.add(&node);
        }
        census
    }

    /// Counts one more node.
    pub fn add(&mut self, node: &Counted) {
        for scope in node.scopes() {
            let share = self.scopes.entry(scope).or_default();
            share.size = share.size.saturating_add(1);
            if node.out {
                share.out.insert(node.node.clone());
            }
        }
    }

    /// Takes a node back, exactly as it was added.
    pub fn remove(&mut self, node: &Counted) {
        for scope in node.scopes() {
            let Some(share) = self.scopes.get_mut(&scope) else { continue };
            share.size = share.size.saturating_sub(1);
            share.out.remove(&node.node);
            if share.size == 0 {
                self.scopes.remove(&scope);
            }
        }
    }

    /// How many nodes a scope has.
    pub fn size(&self, scope: &Scope) -> u32 {
        self.scopes.get(scope).map_or(0, |share| share.size)
    }

    /// Which nodes of a scope are out.
    pub fn out(&self, scope: &Scope) -> impl Iterator<Item = &str> {
        self.scopes.get(scope).into_iter().flat_map(|share| share.out.iter().map(String::as_str))
    }
}

/// Why a grant is not given now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The scope whose budget is used up.
    pub scope: Scope,
    /// How many are out, or worked on.
    pub used: u32,
    /// How many may be.
    pub limit: u32,
}

impl fmt::Display for Denied {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "budget {}: {} of {} are out", self.scope, self.used, self.limit)
    }
}

/// The limit of a scope: the pool's own, the one named in the ledger, or that of its kind; of
/// several the smallest.
pub fn limit(spec: &LedgerSpec, scope: &Scope, census: &Census, own: Option<u32>) -> u32 {
    let general = match scope {
        Scope::Fleet => spec.fleet,
        Scope::Pool(_) => spec.pool,
        Scope::Rack(_) => spec.rack,
        Scope::Tenant(_) => spec.tenant,
    };
    let named: Limit = spec.named.get(&scope.to_string()).copied().unwrap_or(general);
    let own = Limit { nodes: own, percent: None };
    named.of(census.size(scope)).min(own.of(census.size(scope)))
}

/// The ledger with one more grant, or why not. A grant that is held already changes nothing.
///
/// `pool_limit` is the pool's own `maxUnavailable`.
///
/// # Errors
/// The first scope, from fleet to tenant, whose budget is used up.
pub fn grant(
    ledger: &Ledger,
    census: &Census,
    wanted: &Grant,
    pool_limit: Option<u32>,
) -> Result<LedgerStatus, Denied> {
    let mut status = ledger.status.clone().unwrap_or_default();
    if status.grants.iter().any(|held| held.node_uid == wanted.node_uid) {
        return Ok(status);
    }
    for scope in scopes(wanted) {
        let own = if matches!(scope, Scope::Pool(_)) { pool_limit } else { None };
        let limit = limit(&ledger.spec, &scope, census, own);
        let used = used(&status, census, &scope, wanted);
        if used >= limit {
            return Err(Denied { scope, used, limit });
        }
    }
    status.grants.push(wanted.clone());
    status.grants.sort_by(|a, b| a.node.cmp(&b.node));
    Ok(status)
}

/// The ledger without the grants of a node; without those of one incident alone, if it is named.
pub fn give_back(ledger: &Ledger, node_uid: &str, left_by: Option<&str>) -> LedgerStatus {
    let mut status = ledger.status.clone().unwrap_or_default();
    let meant = |of: &str| left_by.is_none_or(|left_by| of == left_by);
    status.grants.retain(|grant| grant.node_uid != node_uid || !meant(&grant.incident));
    status
}

/// How many nodes of a scope count against a grant.
fn used(status: &LedgerStatus, census: &Census, scope: &Scope, wanted: &Grant) -> u32 {
    let mut counted: BTreeSet<&str> = status
        .grants
        .iter()
        .filter(|held| scopes(held).any(|held| held == *scope))
        .map(|held| held.node.as_str())
        .collect();
    if wanted.kind == Kind::Disruption {
        counted.extend(census.out(scope));
    }
    counted.remove(wanted.node.as_str());
    u32::try_from(counted.len()).unwrap_or(u32::MAX)
}

fn scopes(grant: &Grant) -> impl Iterator<Item = Scope> {
    let pool = grant.pool.clone().map(Scope::Pool);
    let tenant = grant.tenant.clone().map(Scope::Tenant);
    [Some(Scope::Fleet), pool, Some(Scope::Rack(grant.rack.clone())), tenant].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn ledger(fleet: u32, pool: u32, rack: u32) -> Ledger {
        let bound = |nodes| Limit { nodes: Some(nodes), percent: None };
        let spec = LedgerSpec {
            fleet: bound(fleet),
            pool: bound(pool),
            rack: bound(rack),
            ..LedgerSpec::default()
        };
        Ledger::new("fleet", spec)
    }

    fn node(index: usize, out: bool) -> Counted {
        Counted {
            node: format!("n{index:02}"),
            pool: Some(format!("p{}", index % 2)),
            rack: format!("r{}", index % 3),
            tenant: None,
            out,
        }
    }

    fn wanted(node: &Counted, kind: Kind) -> Grant {
        Grant {
            node: node.node.clone(),
            node_uid: format!("uid-{}", node.node),
            incident: "i".to_owned(),
            kind,
            pool: node.pool.clone(),
            rack: node.rack.clone(),
            tenant: node.tenant.clone(),
            since: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_is_out_already_is_subtracted_from_disruptions_only() {
        let nodes: Vec<Counted> = (0..12).map(|index| node(index, index < 2)).collect();
        let census = Census::of(nodes.clone());
        let ledger = ledger(2, 9, 9);
        let denied = grant(&ledger, &census, &wanted(&nodes[5], Kind::Disruption), None);
        assert_eq!(denied, Err(Denied { scope: Scope::Fleet, used: 2, limit: 2 }));
        assert!(grant(&ledger, &census, &wanted(&nodes[0], Kind::Repair), None).is_ok());
        assert_eq!(
            denied.map_err(|d| d.to_string()),
            Err("budget fleet: 2 of 2 are out".to_owned())
        );
    }

    #[test]
    fn the_pools_own_limit_counts_too() {
        let nodes: Vec<Counted> = (0..12).map(|index| node(index, false)).collect();
        let census = Census::of(nodes.clone());
        let mut ledger = ledger(9, 9, 9);
        ledger.status =
            Some(grant(&ledger, &census, &wanted(&nodes[0], Kind::Disruption), Some(1)).unwrap());
        let same_pool = grant(&ledger, &census, &wanted(&nodes[2], Kind::Disruption), Some(1));
        assert_eq!(same_pool.unwrap_err().scope, Scope::Pool("p0".to_owned()));
        assert!(grant(&ledger, &census, &wanted(&nodes[1], Kind::Disruption), Some(1)).is_ok());
    }

    #[test]
    fn named_limits_pass_over_the_general() {
        let nodes: Vec<Counted> = (0..12).map(|index| node(index, false)).collect();
        let census = Census::of(nodes.clone());
        let mut ledger = ledger(9, 1, 9);
        ledger.spec.named.insert("pool/p1".to_owned(), Limit { nodes: Some(0), percent: None });
        let denied = grant(&ledger, &census, &wanted(&nodes[1], Kind::Repair), None);
        assert_eq!(denied.unwrap_err().limit, 0);
        assert!(grant(&ledger, &census, &wanted(&nodes[0], Kind::Repair), None).is_ok());
    }

    proptest! {
        #[test]
        fn no_order_of_asking_and_giving_back_passes_a_limit(
            fleet in 0_u32..6, pool in 0_u32..4, rack in 0_u32..3,
            out in proptest::collection::vec(any::<bool>(), 24),
            steps in proptest::collection::vec((0_usize..24, any::<bool>(), any::<bool>()), 0..80),
        ) {
            let nodes: Vec<Counted> = out.iter().enumerate().map(|(i, out)| node(i, *out)).collect();
            let census = Census::of(nodes.clone());
            let mut ledger = ledger(fleet, pool, rack);
            for (index, ask, repair) in steps {
                let node = &nodes[index];
                if !ask {
                    ledger.status = Some(give_back(&ledger, &format!("uid-{}", node.node), None));
                    continue;
                }
                let kind = if repair { Kind::Repair } else { Kind::Disruption };
                let asked = wanted(node, kind);
                if let Ok(status) = grant(&ledger, &census, &asked, None) {
                    let held = status.grants.clone();
                    let fresh = ledger.status.as_ref().is_none_or(|s| s.grants.len() < held.len());
                    ledger.status = Some(status);
                    for scope in node.scopes() {
                        let bound = limit(&ledger.spec, &scope, &census, None);
                        let of_scope = held.iter().filter(|g| scopes(g).any(|s| s == scope)).count();
                        prop_assert!(of_scope <= bound as usize);
                        let mut all: BTreeSet<&str> = census.out(&scope).collect();
                        all.extend(held.iter().filter(|g| scopes(g).any(|s| s == scope)).map(|g| g.node.as_str()));
                        prop_assert!(kind == Kind::Repair || !fresh || all.len() <= bound as usize);
                    }
                }
            }
        }

        #[test]
        fn counting_one_by_one_is_counting_anew(
            steps in proptest::collection::vec((0_usize..12, any::<bool>()), 0..40),
        ) {
            let mut census = Census::default();
            let mut there: BTreeMap<usize, Counted> = BTreeMap::new();
            for (index, out) in steps {
                let fresh = node(index, out);
                if let Some(old) = there.insert(index, fresh.clone()) {
                    census.remove(&old);
                }
                census.add(&fresh);
            }
            prop_assert_eq!(census, Census::of(there.into_values()));
        }
    }
}
