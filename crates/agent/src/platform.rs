//! What an agent needs of the machine that it runs on.

use std::collections::BTreeMap;

use api::inventory::Inventory;
use api::request::{Report, Task};
use plan::detect::Sample;
use tokio::sync::{mpsc, watch};

/// The system that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// The kernel's boot ID: another one after every boot.
    pub boot: String,
    /// The image that was booted.
    pub image: String,
    /// The kernel, if it says.
    pub kernel: Option<String>,
    /// The version of the GPU driver, if there is one: some log lines differ between versions.
    pub driver: Option<String>,
}

/// What can be seen of the machine as it happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A line of the kernel's log. Programs must not be able to write it.
    Line(String),
    /// A number that was measured.
    Sample(Sample),
}

/// A machine, as its agent deals with it.
///
/// Futures may be dropped at any moment: what they were doing is then given up. What is asked for twice
/// is done once.
pub trait Platform: Send + Sync + 'static {
    /// The system that runs.
    fn system(&self) -> System;

    /// Reads the parts that are there.
    fn inventory(&self) -> impl Future<Output = Inventory> + Send;

    /// Reads the firmware that is there, by component.
    fn firmware(&self) -> impl Future<Output = BTreeMap<String, String>> + Send;

    /// Carries a task out and says how it went. A task that was under way when an agent of the same
    /// boot ended is taken up again. None if it can no longer be carried out during this boot.
    fn perform(&self, task: Task) -> impl Future<Output = Option<Report>> + Send + 'static;

    /// What is seen from now on, beginning with what is the case.
    fn signals(&self) -> mpsc::UnboundedReceiver<Signal>;

    /// Whether workloads run on the machine.
    fn busy(&self) -> watch::Receiver<bool>;

    /// The kubelet shall run, or not.
    fn kubelet(&self, wanted: bool);
}
