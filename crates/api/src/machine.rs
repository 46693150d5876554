//! `Machine`: one physical server, from the loading ramp to the scrap yard.
//!
//! People and GitOps own the description in `spec`; the pool controller owns `spec.assignment`, the
//! node controller (or a person) owns `spec.request`. In `status` the agent owns what it found
//! (`agent`, `inventory`, `firmware`, `report`), the boot service what it gave out (`enrolment`), the
//! approver of joins what that was spent on (`admission`); all the rest belongs to the machine
//! controller.

use crate::inventory::Inventory;
use crate::request::{Answer, Operation, Report, Request, Task};
use crate::state::{Role, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a machine is, where it stands, and what is wanted of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "fleet.seatrial.dev",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    shortname = "mc",
    category = "seatrial",
    doc = "A physical server.",
    crates(kube_core = "::kube_core"),
    derive = "Default",
    derive = "PartialEq",
    status = "MachineStatus",
    selectable = ".spec.place.rack",
    selectable = ".spec.instanceType",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Role", type_ = "string", json_path = ".status.role"),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.since"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".status.pool"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node.name"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.why"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.instanceType", priority = 1),
    printcolumn(name = "Rack", type_ = "string", json_path = ".spec.place.rack", priority = 1),
    printcolumn(name = "Slot", type_ = "integer", json_path = ".spec.place.slot", priority = 1),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.stage", priority = 1),
    printcolumn(name = "Tries", type_ = "integer", json_path = ".status.attempts", priority = 1),
    printcolumn(name = "Deadline", type_ = "string", json_path = ".status.deadline", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.bmc.address.startsWith('https://') || self.bmc.address.startsWith('http://')")
        .message("bmc.address must be a URL such as https://10.0.0.7").field_path(".bmc.address"),
    validation = Rule::new("!has(self.assignment) || !has(self.reservation) || self.assignment.tenant == self.reservation")
        .message("assignment.tenant must be the tenant that the machine is reserved for").field_path(".assignment")
)]
pub struct MachineSpec {
    /// The name of its [`InstanceType`](crate::InstanceType).
    #[schemars(length(min = 1, max = 63))]
    pub instance_type: String,
    /// Where it stands.
    pub place: Place,
    /// How its controller is reached.
    pub bmc: Bmc,
    /// The hardware addresses it boots from.
    #[schemars(length(min = 1, max = 16), inner(pattern(r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")))]
    pub macs: Vec<String>,
    /// The serial number of its data processing unit, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpu: Option<String>,
    /// The boot image, where it differs from that of pool and type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub image: Option<String>,
    /// The firmware profile, where it differs from that of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub firmware_profile: Option<String>,
    /// The only tenant that it may serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub reservation: Option<String>,
    /// Up to which onboarding a technician has certified rack and cables: valid while it is not
    /// below `status.onboardings`.
    #[serde(default)]
    pub certified: u32,
    /// The pool it shall serve. Written by the pool controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
    /// What is asked of it now. One at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

/// Where a machine stands, physically and in the networks.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The site, as `us-east-02a`.
    #[schemars(length(min = 1, max = 63))]
    pub site: String,
    /// The row of racks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub row: Option<String>,
    /// The name of its [`Rack`](crate::Rack).
    #[schemars(length(min = 1, max = 63))]
    pub rack: String,
    /// The slot, counted from the bottom.
    #[schemars(range(min = 1, max = 64))]
    pub slot: u16,
    /// The leaf switch it hangs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub leaf: Option<String>,
    /// The power distribution unit it hangs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub pdu: Option<String>,
    /// The NVLink domain it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub nvlink_domain: Option<String>,
}

/// How a machine's controller is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bmc {
    /// The URL of its Redfish service.
    #[schemars(length(min = 1, max = 512))]
    pub address: String,
    /// The Secret with `username` and `password`.
    #[schemars(length(min = 1, max = 253))]
    pub credential: String,
}

/// The pool a machine shall serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The name of the [`NodePool`](crate::NodePool).
    #[schemars(length(min = 1, max = 63))]
    pub pool: String,
    /// The tenant whom the pool serves.
    #[schemars(length(min = 1, max = 63))]
    pub tenant: String,
    /// When it was assigned.
    pub since: Timestamp,
}

/// How far a machine has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// The generation of the spec that this status answers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The lifecycle state.
    pub state: State,
    /// The step within the state, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    /// What it is for now.
    pub role: Role,
    /// When the state was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the state counts as overdue; states that wait for work or people have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Tries made in this state, the current one included.
    pub attempts: u32,
    /// When the next try begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Since when its BMC has not answered as it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc_lost: Option<Timestamp>,
    /// What it waits for, or why it is where it is, as one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The node that runs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeReference>,
    /// The pool it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The tenant whose data may be on it; none after a wipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What is being done to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// What the agent is asked to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// What came of the last request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// What has been accomplished in this state.
    pub progress: Progress,
    /// How often hands were on the machine: each time a technician must certify it anew.
    pub onboardings: u32,
    /// How often Zap has failed since it last succeeded.
    pub zap_failures: u32,
    /// What the running system says about itself. Written by the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The parts found. Written by the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The firmware found, by component. Written by the agent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub firmware: BTreeMap<String, String>,
    /// What the agent says about its task. Written by the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What the boot service has given to the boot that asked last. Written by the boot service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<Enrolment>,
    /// What the last token was spent on. Written by the approver of joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// The last results of each test, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tests: Vec<TestResult>,
    /// How far it stands out among its peers by its failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lemon: Option<Lemon>,
    /// What happened to it, newest first. Survives repairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub history: Vec<Entry>,
    /// Conditions, as `docs/conditions` explains them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The node that runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReference {
    /// The node's name.
    pub name: String,
    /// The node's UID.
    pub uid: String,
}

/// What a machine has accomplished in its present state, or for its present request. Each is the id
/// of the operation that did it, so that a result can never be taken for another's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The boot that this state began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted: Option<String>,
    /// The inventory was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventoried: Option<String>,
    /// Disks and secrets were wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sanitised: Option<String>,
    /// Firmware is that of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flashed: Option<String>,
    /// The power was cut and given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycled: Option<String>,
    /// A part was reset, or a service restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mended: Option<String>,
    /// The test was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tested: Option<String>,
    /// Diagnosis ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosed: Option<String>,
}

/// What the running system says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The kernel's boot ID: another one after every boot.
    pub boot: String,
    /// The image that runs.
    pub image: String,
    /// The kernel that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// When the agent of this boot first spoke.
    pub since: Timestamp,
}

/// What the boot service has given to one boot. It is written before anything is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enrolment {
    /// The boot.
    pub boot: String,
    /// SHA-256 of the secret that this boot drew for itself, in hexadecimal: whoever knows the secret
    /// is this boot.
    pub proof: String,
    /// When it first asked.
    pub since: Timestamp,
    /// The last token to join that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<GivenToken>,
}

/// A token to join, as far as it may be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenToken {
    /// Its public half: the Secret `bootstrap-token-ID` in `kube-system`.
    pub id: String,
    /// How many tokens this boot has had, this one included.
    pub count: u32,
    /// Until when it can be used.
    pub expires: Timestamp,
}

/// What a token was spent on. It is written before the request is approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The public half of the token.
    pub token: String,
    /// The UID of the CertificateSigningRequest.
    pub request: String,
}

/// One result of a test, kept for trends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// Which test, as `quick`.
    pub test: String,
    /// Whether it was passed.
    pub passed: bool,
    /// What was found.
    pub detail: String,
    /// The image it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The kernel it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What was measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// When.
    pub at: Timestamp,
}

/// How far a machine stands out among its peers by its failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lemon {
    /// 0 to 100: how many of the signals, by weight, stand out.
    #[schemars(range(max = 100))]
    pub score: u32,
    /// Which signals stand out, as sentences.
    pub signals: Vec<String>,
}

/// One line of a machine's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The state entered or the deed done.
    pub what: String,
    /// Why, as one sentence.
    pub why: String,
}

impl Machine {
    /// Its name, empty for an object that was never stored.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its UID, empty for an object that was never stored.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Why a person forbade automatic action on it, if one did.
    pub fn hands_off(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(crate::names::HANDS_OFF).map(String::as_str)
    }

    /// The lifecycle state; a machine without a status is at the beginning.
    pub fn state(&self) -> State {
        self.status.as_ref().map(|status| status.state).unwrap_or_default()
    }
}

/// The most lines of history that an object carries.
pub const MAX_HISTORY: usize = 64;
/// The most results of one test that an object carries: those of every hour do not push out the burn-in.
pub const MAX_TESTS: usize = 4;
