//! `Rack`: machines that share power, cooling and often a fabric; the unit of NVL72.

use jiff::Timestamp;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a rack is and where it stands.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Rack",
    plural = "racks",
    shortname = "rk",
    category = "seatrial",
    doc = "A rack of machines.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "RackStatus",
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.machines"),
    printcolumn(name = "Serving", type_ = "integer", json_path = ".status.serving"),
    printcolumn(name = "Row", type_ = "string", json_path = ".spec.row"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(name = "Site", type_ = "string", json_path = ".spec.site", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.needed) || self.needed <= self.slots")
        .message("needed must not exceed slots").field_path(".needed")
)]
pub struct RackSpec {
    /// The site it stands in.
    #[schemars(length(min = 1, max = 63))]
    pub site: String,
    /// The row it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub row: Option<String>,
    /// How many machines it holds.
    #[schemars(range(min = 1, max = 64))]
    pub slots: u32,
    /// How many of them must serve for the rack to count as whole, as 16 of 18; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub needed: Option<u32>,
    /// The NVLink domain that all its machines form, if they form one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub nvlink_domain: Option<String>,
    /// How many machines may be switched on at the same time; the inrush current of more trips a
    /// breaker.
    #[serde(default = "RackSpec::default_power_ons")]
    #[schemars(range(min = 1, max = 64))]
    pub power_ons: u32,
}

impl RackSpec {
    /// Four at a time: the simulator's bound, and a common figure for 40 kW racks.
    const fn default_power_ons() -> u32 {
        4
    }
}

/// How a rack fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RackStatus {
    /// How many machines stand in it.
    pub machines: u32,
    /// How many of them are in production and take work.
    pub serving: u32,
    /// What is wrong, as one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When this was last different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
