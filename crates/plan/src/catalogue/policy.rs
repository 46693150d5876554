//! What is done about a fault: ladders of steps, each with a bound and a proof that it worked.

use std::time::Duration;

use crate::words::words;

words! {
    /// A step of a ladder.
    pub enum Step {
        /// The program on the GPU ends and is started again by its owner.
        RestartApp = "RestartApp",
        /// The GPU is reset with its node drained of GPU work.
        ResetGpu = "ResetGpu",
        /// A service of the node or a port is restarted; the rung names it.
        RestartService = "RestartService",
        /// The node reboots.
        Reboot = "Reboot",
        /// The node's power goes off and on.
        PowerCycle = "PowerCycle",
        /// The node's power, or its cooling zone's, goes off and stays off: a leak.
        PowerOff = "PowerOff",
        /// Diagnostics run on the drained node: DCGM's levels, then the field diagnostic.
        Diagnose = "Diagnose",
        /// The node leaves for people; its spare takes its place.
        Triage = "Triage",
        /// The part or machine goes back to its maker.
        Rma = "Rma",
    }
}

words! {
    /// How the work on a node ends before a step.
    pub enum Drain {
        /// At once.
        Now = "now",
        /// With the time that each pod asks for.
        Graceful = "graceful",
        /// When it ends by itself; the step waits.
        WhenIdle = "when-idle",
    }
}

words! {
    /// What shows that a step has worked.
    pub enum Proof {
        /// The fault was not seen again for as long as the rung allows.
        Quiet = "quiet",
        /// The service says that it is healthy.
        ServiceHealthy = "service-healthy",
        /// The node is back (after a boot: with a new boot ID) and passed the quick test.
        Verified = "verified",
        /// The diagnostics found nothing.
        DiagnosticsClean = "diagnostics-clean",
        /// The BMC says that the power is off.
        PoweredOff = "powered-off",
        /// A person or the maker has it.
        TakenOver = "taken-over",
    }
}

words! {
    /// On what a fault must repeat to count as the same.
    pub enum Same {
        /// The same unit within the part, such as GPC and TPC or a link.
        Unit = "unit",
        /// The same part, such as a GPU or a port.
        Part = "part",
        /// The same node.
        Node = "node",
    }
}

/// One rung of a ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// What is done.
    pub step: Step,
    /// How often it is tried before the next rung; at least 1.
    pub tries: u32,
    /// How long one try may take, its proof included.
    pub within: Duration,
    /// What shows that it worked.
    pub passed: Proof,
    /// Which service or port, for [`Step::RestartService`].
    pub service: Option<String>,
}

/// A count of sightings that begins the ladder further up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// How many sightings, this one included; at least 2.
    pub count: u32,
    /// Within how long.
    pub within: Duration,
    /// On what.
    pub same: Same,
    /// Sightings closer together than this count once.
    pub burst: Duration,
    /// With which step the ladder then begins.
    pub escalate: Step,
}

/// An answer to faults: how work ends, which steps follow one another, what repeats change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name, which rows refer to.
    pub name: String,
    /// What it does, in one plain sentence.
    pub about: String,
    /// How the work on the node ends first.
    pub drain: Drain,
    /// The steps in order. Empty: nothing is done but counting.
    pub ladder: Vec<Rung>,
    /// Is a single sighting only counted, and the ladder reached through repeats alone?
    pub only_repeats: bool,
    /// Repeats that begin the ladder further up.
    pub repeats: Vec<Repeat>,
}

impl Policy {
    /// The position of the first rung with this step.
    #[must_use]
    pub fn rung(&self, step: Step) -> Option<usize> {
        self.ladder.iter().position(|rung| rung.step == step)
    }
}
