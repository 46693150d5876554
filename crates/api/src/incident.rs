//! `Incident`: why a node is taken out of service, what is done about it, and how it ended.
//!
//! One is opened for every fault that is acted upon and for every requested phase; its UID is the
//! session that fences every deed. There is at most one open incident per node. It is written by the
//! node controller alone, and stays as history after it is closed.

use jiff::Timestamp;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an incident stands.
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
pub enum Stage {
    /// Known; the node is cordoned if its fault asks for it.
    #[default]
    Open,
    /// Pods are asked to leave or waited for.
    Draining,
    /// A step of the ladder is asked of the machine.
    Acting,
    /// The step is proven by a test.
    Verifying,
    /// The machine is asked to leave the cluster, and leaves.
    HandingOver,
    /// Over.
    Closed,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Draining,
        Self::Acting,
        Self::Verifying,
        Self::HandingOver,
        Self::Closed,
    ];
}

/// How an incident ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum End {
    /// A step of the ladder cured it, and a test proved it.
    Solved,
    /// What was asked for was done.
    Done,
    /// The fault was gone before anything was done about it.
    Vanished,
    /// Whoever asked for it took it back.
    Withdrawn,
    /// The machine left the cluster for triage.
    HandedOver,
    /// The node ceased to exist, or another took its place.
    NodeGone,
}

/// What an incident is about. Never changes.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Incident",
    plural = "incidents",
    shortname = "inc",
    category = "seatrial",
    doc = "Why a node is out of service, and what is done about it.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "IncidentStatus",
    selectable = ".spec.node",
    selectable = ".spec.machine",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Cause", type_ = "string", json_path = ".spec.cause"),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.stage"),
    printcolumn(name = "Step", type_ = "string", json_path = ".status.step"),
    printcolumn(name = "End", type_ = "string", json_path = ".status.end"),
    printcolumn(name = "Opened", type_ = "date", json_path = ".spec.opened"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(name = "By", type_ = "string", json_path = ".spec.by", priority = 1),
    printcolumn(name = "Part", type_ = "string", json_path = ".spec.part", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self == oldSelf").message("an incident's cause cannot be changed")
)]
pub struct IncidentSpec {
    /// The node's name.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// The node's UID.
    #[schemars(length(min = 1, max = 64))]
    pub node_uid: String,
    /// The machine below it.
    #[schemars(length(min = 1, max = 253))]
    pub machine: String,
    /// The row of the fault catalogue, as `xid/95`, or the phase asked for, as `phase/Reboot`.
    #[schemars(length(min = 1, max = 128))]
    pub cause: String,
    /// Who reported or asked.
    #[schemars(length(min = 1, max = 253))]
    pub by: String,
    /// The boot during which it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The part it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What was seen first.
    pub evidence: Vec<String>,
    /// When the incident was opened.
    pub opened: Timestamp,
}

/// What is done about an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IncidentStatus {
    /// Where it stands.
    pub stage: Stage,
    /// The policy of the catalogue that is followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The step of the ladder, as `ResetGpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The position of the step on its ladder, from 0.
    pub rung: u32,
    /// Tries of this step so far.
    pub tries: u32,
    /// How often a person broke the repair off, so that it begins anew.
    pub rounds: u32,
    /// When the stage was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the stage counts as failed, and what follows is done instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The request that the machine is carrying out for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// When the last step was asked for: a fault seen later was not cured by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acted: Option<Timestamp>,
    /// What it waits for or did last, as one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Timestamp>,
    /// What happened, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub timeline: Vec<Moment>,
}

/// One moment of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// What happened, as one sentence.
    pub what: String,
}

/// The most moments that an object carries; the middle is left out of longer stories.
pub const MAX_MOMENTS: usize = 64;
