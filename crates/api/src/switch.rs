//! `Switch`: a leaf or spine of the networks that connect machines.

use jiff::Timestamp;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a switch is for.
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
pub enum Tier {
    /// Machines hang on it.
    #[default]
    Leaf,
    /// Connects leaves.
    Spine,
    /// Carries the controllers of machines and the boot network.
    Management,
}

/// What a switch is and where it stands.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Switch",
    plural = "switches",
    shortname = "sw",
    category = "seatrial",
    doc = "A network switch.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "SwitchStatus",
    printcolumn(name = "Tier", type_ = "string", json_path = ".spec.tier"),
    printcolumn(name = "Up", type_ = "boolean", json_path = ".status.up"),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.since"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(name = "Rack", type_ = "string", json_path = ".spec.rack", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"))]
pub struct SwitchSpec {
    /// What it is for.
    pub tier: Tier,
    /// The rack it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub rack: Option<String>,
    /// How many ports it has.
    #[schemars(range(min = 1, max = 1024))]
    pub ports: u32,
}

/// How a switch fares. Written by the fabric's monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SwitchStatus {
    /// Whether it forwards; absent until it has been seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// What is wrong, as one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
