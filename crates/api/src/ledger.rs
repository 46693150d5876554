//! `Ledger`: the one account of what is taken out of service on purpose.
//!
//! People own the limits; the node controller alone writes the grants, by compare-and-swap on the
//! object, so that two of its passes can never both take the last one. Whoever else wants a node out
//! of service asks the node controller by a phase and has no way round it.

use jiff::Timestamp;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many may be out at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// At most as many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub nodes: Option<u32>,
    /// At most this share of the scope's nodes, in percent, rounded down but never below one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub percent: Option<u32>,
}

impl Limit {
    /// How many of `size` nodes may be out: the smaller of both bounds; all if there is none. A
    /// percentage of a scope that is not empty allows at least one, or small scopes would never be
    /// repaired.
    pub fn of(&self, size: u32) -> u32 {
        let share = self.percent.map_or(u32::MAX, |percent| match percent {
            0 => 0,
            percent => {
                u32::try_from(u64::from(size) * u64::from(percent) / 100).unwrap_or(u32::MAX).max(1)
            }
        });
        share.min(self.nodes.unwrap_or(u32::MAX))
    }
}

/// The limits. Named ones pass over the default of their kind.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Ledger",
    plural = "ledgers",
    shortname = "ldg",
    category = "seatrial",
    doc = "What may be out of service on purpose, and what is.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "LedgerStatus",
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".spec.fleet.nodes"),
    printcolumn(name = "Percent", type_ = "integer", json_path = ".spec.fleet.percent"),
    printcolumn(name = "Out", type_ = "string", json_path = ".status.grants[*].node")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"))]
pub struct LedgerSpec {
    /// Over the whole fleet.
    #[serde(default)]
    pub fleet: Limit,
    /// In each pool.
    #[serde(default)]
    pub pool: Limit,
    /// In each rack.
    #[serde(default)]
    pub rack: Limit,
    /// For each tenant.
    #[serde(default)]
    pub tenant: Limit,
    /// For scopes that need another limit than their kind, by `pool/NAME`, `rack/NAME` or
    /// `tenant/NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024))]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^(pool|rack|tenant)/.+$'))")
        .message("names must be pool/NAME, rack/NAME or tenant/NAME"))]
    pub named: BTreeMap<String, Limit>,
}

/// Why a grant is held.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The node served, and is taken out.
    #[default]
    Disruption,
    /// The node was out already, and is worked on.
    Repair,
}

/// One node, out of service on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The node.
    pub node: String,
    /// The node's UID.
    pub node_uid: String,
    /// The incident it is out for.
    pub incident: String,
    /// Whether it served before.
    pub kind: Kind,
    /// The pool it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The rack it stands in.
    pub rack: String,
    /// The tenant it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// What is out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LedgerStatus {
    /// Every node that is out on purpose.
    #[schemars(length(max = 4096))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"]))]
    pub grants: Vec<Grant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_bound_counts() {
        let limit = |nodes, percent| Limit { nodes, percent };
        assert_eq!(limit(None, None).of(10), u32::MAX);
        assert_eq!(limit(Some(2), None).of(10), 2);
        assert_eq!(limit(Some(20), Some(10)).of(100), 10);
        assert_eq!(limit(Some(5), Some(10)).of(100), 5);
        assert_eq!(limit(None, Some(10)).of(4), 1, "small scopes are repaired too");
        assert_eq!(limit(None, Some(0)).of(400), 0, "nothing means nothing");
        assert_eq!(limit(Some(0), Some(50)).of(400), 0);
    }
}
