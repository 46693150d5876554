//! `NodePool`: how many nodes of a type a tenant wants, and why there are as many as there are.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which nodes leave when a pool shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ScaleDown {
    /// Only nodes on which nothing runs.
    #[default]
    IdleOnly,
    /// Idle nodes first, then the others as their pods allow.
    PreferIdle,
}

/// What a tenant wants.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "np",
    category = "seatrial",
    doc = "Nodes of one type for one tenant.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "NodePoolStatus",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "Target", type_ = "integer", json_path = ".status.target"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.current"),
    printcolumn(name = "InProgress", type_ = "integer", json_path = ".status.inProgress"),
    printcolumn(name = "Prefill", type_ = "integer", json_path = ".status.prefill"),
    printcolumn(name = "Spares", type_ = "integer", json_path = ".status.spares"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(name = "Tenant", type_ = "string", json_path = ".spec.tenant", priority = 1),
    printcolumn(name = "Queued", type_ = "integer", json_path = ".status.queued", priority = 1),
    printcolumn(name = "Until", type_ = "string", json_path = ".status.until", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("has(self.targetNodes) != has(self.targetRacks)")
        .message("exactly one of targetNodes and targetRacks must be given"),
    validation = Rule::new("!has(self.minNodes) || !has(self.targetNodes) || self.minNodes <= self.targetNodes")
        .message("targetNodes must be at least minNodes").field_path(".targetNodes"),
    validation = Rule::new("!has(self.maxNodes) || !has(self.targetNodes) || self.targetNodes <= self.maxNodes")
        .message("targetNodes must be at most maxNodes").field_path(".targetNodes"),
    validation = Rule::new("!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes")
        .message("minNodes must be at most maxNodes").field_path(".minNodes"),
    validation = Rule::new("self.instanceType == oldSelf.instanceType")
        .message("instanceType cannot be changed: make another pool and let this one shrink").field_path(".instanceType"),
    validation = Rule::new("self.tenant == oldSelf.tenant")
        .message("tenant cannot be changed: make another pool and let this one shrink").field_path(".tenant")
)]
pub struct NodePoolSpec {
    /// The name of the [`InstanceType`](crate::InstanceType).
    #[schemars(length(min = 1, max = 63))]
    pub instance_type: String,
    /// Whom the nodes serve.
    #[schemars(length(min = 1, max = 63))]
    pub tenant: String,
    /// How many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub target_nodes: Option<u32>,
    /// How many racks, for types that are sold by the rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub target_racks: Option<u32>,
    /// Never fewer, whatever an autoscaler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub min_nodes: Option<u32>,
    /// Never more, whatever an autoscaler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub max_nodes: Option<u32>,
    /// How many spares are kept for the pool; sized from measured rates if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub spares: Option<u32>,
    /// How many nodes of the tenant's quota the pool may use; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub quota: Option<u32>,
    /// Labels of the nodes; keys of `fleet.seatrial.dev`, and those that say where a node stands, are left
    /// as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub taints: Vec<Taint>,
    /// The boot image, where it differs from that of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub image: Option<String>,
    /// Which nodes leave when the pool shrinks.
    #[serde(default)]
    pub scale_down: ScaleDown,
    /// How many nodes may be taken out of service at once; the ledger's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_unavailable: Option<u32>,
}

/// Why there are as many nodes as there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolStatus {
    /// The generation of the spec that this status answers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many nodes are wanted, bounds applied.
    pub target: u32,
    /// How many serve.
    pub current: u32,
    /// How many are on their way in.
    pub in_progress: u32,
    /// How many are wanted but have no machine.
    pub queued: u32,
    /// How many serve in the place of a sick one that has not left yet.
    pub prefill: u32,
    /// How many proven spares would fit.
    pub spares: u32,
    /// How many spares ought to be kept.
    pub spares_wanted: u32,
    /// Why it is not at target, as one sentence; empty at target.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When it is expected to be at target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Conditions, as `docs/conditions` explains them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
