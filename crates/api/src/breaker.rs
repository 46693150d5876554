//! `Breaker`: stops repairs when many nodes fall ill together, until a person has looked.
//!
//! It counts how often it opened; a person acknowledges openings up to a number. It is open as long
//! as there are openings that nobody acknowledged, so neither a crash nor a late reset can lose or
//! undo one:
//!
//! ```text
//! kubectl patch breaker leaf-r3-l1 --type=merge -p '{"spec":{"acknowledged":1,"by":"ada"}}'
//! ```

use jiff::Timestamp;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What sick nodes have in common.
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
pub enum Common {
    /// A leaf switch.
    Leaf,
    /// A power distribution unit.
    Pdu,
    /// A rack.
    Rack,
    /// A boot image.
    Image,
    /// Nothing but the symptom.
    #[default]
    Symptom,
}

impl Common {
    /// Every value, the most particular first: of two that explain a wave, the first is named.
    pub const ALL: [Self; 5] = [Self::Leaf, Self::Pdu, Self::Rack, Self::Image, Self::Symptom];

    /// The word as the API writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Pdu => "pdu",
            Self::Rack => "rack",
            Self::Image => "image",
            Self::Symptom => "symptom",
        }
    }
}

impl fmt::Display for Common {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// What is watched, and what a person has acknowledged.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Breaker",
    plural = "breakers",
    shortname = "brk",
    category = "seatrial",
    doc = "Stops repairs when many nodes fall ill together.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "BreakerStatus",
    printcolumn(name = "Open", type_ = "boolean", json_path = ".status.open"),
    printcolumn(name = "Common", type_ = "string", json_path = ".spec.common"),
    printcolumn(name = "Value", type_ = "string", json_path = ".spec.value"),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.since"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(
        name = "Openings",
        type_ = "integer",
        json_path = ".status.openings",
        priority = 1
    ),
    printcolumn(
        name = "Acknowledged",
        type_ = "integer",
        json_path = ".spec.acknowledged",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.common == oldSelf.common && self.value == oldSelf.value")
        .message("what a breaker watches cannot be changed"),
    validation = Rule::new("self.acknowledged >= oldSelf.acknowledged")
        .message("acknowledged can only grow").field_path(".acknowledged")
)]
pub struct BreakerSpec {
    /// What the nodes have in common.
    pub common: Common,
    /// Which one: the leaf's name, or the row of the catalogue.
    #[schemars(length(min = 1, max = 253))]
    pub value: String,
    /// How many openings a person has acknowledged; repairs go on once it equals `status.openings`.
    #[serde(default)]
    pub acknowledged: u32,
    /// Who acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub by: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerStatus {
    /// How often it opened.
    pub openings: u32,
    /// Whether it is open, for people; what counts is `openings` against `spec.acknowledged`.
    pub open: bool,
    /// When it last opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why, as one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The nodes that fell ill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub nodes: Vec<String>,
}

impl Breaker {
    /// Whether repairs of what it watches must wait for a person.
    pub fn is_open(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.openings > self.spec.acknowledged)
    }
}
