//! `InstanceType`: what machines of one kind are made of, must achieve, and run.

use crate::inventory::Inventory;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How thoroughly a machine is tested before it enters production.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Acceptance {
    /// About ten minutes: every part once against its floor.
    Quick,
    /// A burn-in of 24 h.
    #[default]
    Full,
}

/// The coarse class of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// With GPUs.
    #[default]
    Gpu,
    /// Without.
    Cpu,
}

/// How many machines are handed out at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// One machine.
    #[default]
    Node,
    /// A whole rack, as with NVL72.
    Rack,
}

/// What machines of a type are made of, must achieve, and run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "InstanceType",
    plural = "instancetypes",
    shortname = "it",
    category = "seatrial",
    doc = "A kind of machine: its parts, its floors, its image.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.class"),
    printcolumn(name = "GPU", type_ = "string", json_path = ".spec.expected.gpuModel"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".spec.expected.gpus"),
    printcolumn(name = "Unit", type_ = "string", json_path = ".spec.unit"),
    printcolumn(name = "Acceptance", type_ = "string", json_path = ".spec.acceptance"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.class != 'gpu' || self.expected.gpus > 0")
        .message("a type of class gpu must expect at least one GPU").field_path(".expected.gpus"),
    validation = Rule::new("!has(self.floors) || self.floors.all(name, self.floors[name] > 0.0)")
        .message("every floor must be greater than 0").field_path(".floors")
)]
pub struct InstanceTypeSpec {
    /// The coarse class.
    #[serde(default)]
    pub class: Class,
    /// How many machines are handed out at once.
    #[serde(default)]
    pub unit: Unit,
    /// The parts that each machine must have.
    pub expected: Inventory,
    /// What each machine must achieve, by the name of the figure that the test reports, as
    /// `nccl_allreduce_gbps: 460`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub floors: BTreeMap<String, f64>,
    /// How thoroughly a machine is tested before it enters production.
    #[serde(default)]
    pub acceptance: Acceptance,
    /// The boot image.
    #[schemars(length(min = 1, max = 253))]
    pub image: String,
    /// The firmware of each component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub firmware: BTreeMap<String, String>,
    /// Labels that every node of the type carries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
}
