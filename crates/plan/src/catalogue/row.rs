//! What one row of the catalogue says: the facts of a fault.
//!
//! A row holds what is known (meaning, severity, how it is seen, what can cure it, who says so). What
//! is done about it is a [`Policy`](super::Policy), which a site may change without touching facts.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::policy::{Repeat, Step};
use super::signal::Signal;
use crate::words::words;

/// The name of a row: `xid/95`, `sxid/12028`, `gpu/row-remap-failed`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(Arc<str>);

impl RowId {
    /// The name as it stands in data files.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RowId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for RowId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl Borrow<str> for RowId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

words! {
    /// The type of the Node condition that a fault sets. `True` means that the fault is there, as
    /// with the conditions of node-problem-detector.
    pub enum Condition {
        /// A GPU, its driver or its firmware does not work.
        GpuFault = "GpuFault",
        /// A GPU's memory is damaged or was.
        GpuMemoryFault = "GpuMemoryFault",
        /// A program was stopped by the GPU; the GPU itself goes on.
        GpuAppError = "GpuAppError",
        /// A GPU's own end of an NVLink.
        NvlinkFault = "NvlinkFault",
        /// A switch between GPUs, or the service that runs the GPU fabric.
        NvswitchFault = "NvswitchFault",
        /// A PCIe link is lost, narrow or slow, or reports errors.
        PcieFault = "PcieFault",
        /// An InfiniBand or Ethernet link of the compute fabric.
        FabricLinkFault = "FabricLinkFault",
        /// A network adapter.
        NicFault = "NicFault",
        /// A disk, a file system or an array.
        StorageFault = "StorageFault",
        /// The host's memory or processor.
        HostHardwareFault = "HostHardwareFault",
        /// The kernel or a system service.
        KernelFault = "KernelFault",
        /// A GPU or node is too hot, or throttled because of it.
        ThermalFault = "ThermalFault",
        /// A power supply, a fan's controller, or power out of range.
        PowerFault = "PowerFault",
        /// Coolant was found where none may be.
        LeakFault = "LeakFault",
        /// Slower than its floor or than its peers, with nothing broken to see.
        PerformanceFault = "PerformanceFault",
        /// Wrong results without an error, or a test that failed.
        VerificationFault = "VerificationFault",
        /// Parts are missing that the instance type has.
        InventoryFault = "InventoryFault",
        /// Firmware, driver, kernel or settings differ from the profile.
        ConfigDrift = "ConfigDrift",
        /// Nothing is heard from the node.
        NodeSilent = "NodeSilent",
        /// A person took it out.
        OutOfService = "OutOfService",
    }
}

words! {
    /// How bad a fault is.
    pub enum Severity {
        /// The node leaves production, or the part is reset, at once.
        S1 = "S1",
        /// The program dies and the node stays; repeats count.
        S2 = "S2",
        /// Counted and logged.
        S3 = "S3",
    }
}

words! {
    /// The largest thing that one such fault takes with it: what a budget and a breaker must count.
    pub enum Scope {
        /// One GPU.
        Gpu = "gpu",
        /// One node.
        Node = "node",
        /// Every GPU behind the same NVLink switches.
        NvlinkDomain = "nvlink-domain",
        /// Every node on the same leaf switch.
        Leaf = "leaf",
        /// Every node of the rack.
        Rack = "rack",
        /// Every node on the same power feed.
        Pdu = "pdu",
    }
}

words! {
    /// Who says so.
    pub enum Authority {
        /// NVIDIA's own documents.
        Nvidia = "nvidia",
        /// Another published source, named in the row.
        Published = "published",
        /// Our own inference, because no source gives an answer.
        Inferred = "inferred",
    }
}

words! {
    /// A generation of GPU.
    pub enum Product {
        /// Ampere A100.
        A100 = "A100",
        /// Hopper H100.
        H100 = "H100",
        /// Hopper H200.
        H200 = "H200",
        /// Blackwell B100 and B200.
        B100 = "B100",
        /// Grace Blackwell GB200.
        Gb200 = "GB200",
        /// Grace Blackwell GB300.
        Gb300 = "GB300",
    }
}

/// Where a row comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Who says so.
    pub authority: Authority,
    /// The document, and what of it is ours.
    pub text: String,
}

/// What changes when another fault is seen beside this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// Names of rows; a name that ends in `*` stands for all that begin so.
    pub with: Vec<String>,
    /// How far apart the two may be, either way.
    pub within: Duration,
    /// Must the other be on the same part (its GPU)? Otherwise the same node is enough.
    pub same_part: bool,
    /// What then counts.
    pub then: Then,
}

/// What counts when a [`Correlation`] holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// The other fault is the cause: it alone is acted on.
    Follow,
    /// This fault is acted on by the policy of this name.
    Policy(String),
}

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub id: RowId,
    /// What it means, in one plain sentence.
    pub meaning: String,
    /// The type of the condition that it sets.
    pub condition: Condition,
    /// The reason in that condition, in CamelCase.
    pub reason: String,
    /// How bad it is.
    pub severity: Severity,
    /// What one such fault takes with it.
    pub scope: Scope,
    /// On which GPUs it can occur; empty is all.
    pub products: Vec<Product>,
    /// The first driver branch that reports it, such as 565; none is all.
    pub driver: Option<u32>,
    /// The evidence: any one of these is enough.
    pub seen: Vec<Signal>,
    /// Which steps may cure it; the others only find out or hand over.
    pub cured_by: Vec<Step>,
    /// The name of the policy that answers it.
    pub policy: String,
    /// Repeats that begin the ladder further up, before those of the policy.
    pub repeats: Vec<Repeat>,
    /// What other faults beside it change.
    pub correlations: Vec<Correlation>,
    /// Where this comes from.
    pub source: Source,
}
