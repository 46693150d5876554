//! Conditions and their reasons: what automation may build on.
//!
//! A condition is a command or a report. Commands ([`Node::PendingPhase`],
//! [`Node::ImmediatePhase`]) are set by anybody with the right; reports have one writer each. The
//! sentence beside each name is its meaning and stands in `docs/conditions/`, where every reason has a section; a test holds the two together.
//!
//! The conditions by which faults are reported on nodes are not listed here: they are the rows of
//! the fault catalogue, which sites may extend.

use std::fmt;

/// Declares a closed set of words: an enum whose variants are their own names, and whose documents
/// are data.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $word:ident,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $word,)+ }

        impl $name {
            /// Every word of the set.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The word as the API carries it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)+ }
            }

            /// What the word means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$word => concat!($($doc),+),)+ }
            }

            /// The word of that name.
            pub fn read(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

words! {
    /// Conditions of a Node that are ours.
    Node {
        /// Whether workloads run on the node: pods that are neither of a DaemonSet nor our own tests.
        Active,
        /// Whether the node serves its pool; if not, the reason says what is being done about it.
        InService,
        /// A phase that is carried out as soon as the node is idle.
        PendingPhase,
        /// A phase that is carried out now, whatever runs on the node.
        ImmediatePhase,
    }
}

words! {
    /// Why [`Node::Active`] is what it is.
    Active {
        /// At least one pod of a user runs.
        Running,
        /// Nothing of a user runs.
        Idle,
    }
}

words! {
    /// Why [`Node::InService`] is what it is.
    InService {
        /// The node takes work.
        Serving,
        /// The machine below has not reached production.
        NotInProduction,
        /// The node is proven and kept free as a spare.
        Spare,
        /// The node is cordoned for an incident that is about to be worked on.
        Cordoned,
        /// Pods that ask to be waited for still run.
        WaitingForPods,
        /// Pods are being ended.
        Draining,
        /// A budget of disruptions is used up; the incident waits for its turn.
        WaitingForBudget,
        /// A breaker is open: the fault looks like one of many, and a person must look.
        WaitingForBreaker,
        /// The cause may lie outside the node; it is given a moment to show.
        WaitingForSettling,
        /// A step of the repair ladder is carried out.
        Repairing,
        /// The last step is proven by a test before the node is trusted.
        Verifying,
        /// The node leaves the cluster; the machine is examined.
        HandedOver,
        /// A person cordoned the node; it stays as they left it.
        CordonedByPerson,
        /// A person forbade automatic repair.
        HandsOff,
    }
}

words! {
    /// Phases that may be requested, as reasons of [`Node::PendingPhase`] and
    /// [`Node::ImmediatePhase`].
    Phase {
        /// Restart the operating system; the node boots its image anew.
        Reboot,
        /// Cut the power and give it back: a reset that also reaches GPUs and their memory.
        PowerReset,
        /// Bring firmware, settings and image to the profile of pool and instance type.
        Reconfigure,
        /// Run the acceptance test.
        Test,
        /// Take the node out of the cluster and examine the machine.
        Triage,
    }
}

words! {
    /// Conditions of a Machine.
    Machine {
        /// Whether a technician has certified rack and cables since hands were last on the machine.
        Certified,
        /// Whether the controller of the machine answers.
        BmcReachable,
        /// Whether inventory, cabling and firmware are those of the instance type.
        AsDescribed,
        /// Whether the machine is in production.
        InProduction,
        /// Whether nothing will move on without a person.
        Stalled,
    }
}

words! {
    /// Why [`Machine::Stalled`] is what it is.
    Stalled {
        /// The machine moves on by itself.
        Moving,
        /// A technician must certify rack and cables.
        WaitingForTechnician,
        /// The vendor or a technician must replace a part.
        WaitingForVendor,
        /// A person must find out what is wrong.
        WaitingForPerson,
        /// A person forbade automatic action.
        HandsOff,
    }
}

words! {
    /// Why the other conditions of a Machine are what they are.
    MachineReason {
        /// It is as it should be.
        AsExpected,
        /// The controller of the machine did not answer in time.
        NoAnswer,
        /// The controller of the machine answered with an error.
        BadAnswer,
        /// Parts, cables or firmware differ from the description.
        Mismatch,
        /// Not known yet.
        Unknown,
        /// The machine is on its way to production.
        Underway,
        /// The machine left production.
        Left,
    }
}

words! {
    /// Conditions of a NodePool.
    Pool {
        /// Whether the pool serves as many nodes as it wants.
        AtTarget,
        /// Whether the pool's description can be followed.
        Valid,
    }
}

words! {
    /// Why [`Pool::AtTarget`] is what it is.
    AtTarget {
        /// As many nodes serve as are wanted.
        Reached,
        /// More nodes serve than are wanted; they leave as they fall idle.
        Shrinking,
        /// Machines are on their way into the pool.
        InProgress,
        /// Every spare that fits is taken; the request is queued for the next machine.
        NoCapacity,
        /// The quota of the tenant is used up.
        OverQuota,
        /// Sick nodes have left and their machines have not come back.
        Replacing,
        /// The description cannot be followed; see the condition Valid.
        NotValid,
    }
}

words! {
    /// Why [`Pool::Valid`] is what it is.
    Valid {
        /// The description can be followed.
        Accepted,
        /// There is no such instance type.
        UnknownInstanceType,
        /// The numbers contradict each other.
        ContradictingNumbers,
        /// The instance type is sold by the rack, or is not, against what is asked.
        WrongUnit,
    }
}

/// Who may set a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setter {
    /// Anybody whom the cluster's roles allow.
    Anybody,
    /// The field manager of that name alone.
    Manager(&'static str),
}

/// One condition with its reasons, as documented.
#[derive(Clone, Debug)]
pub struct Documented {
    /// The kind that carries it.
    pub kind: &'static str,
    /// The condition's type.
    pub name: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// Who sets it.
    pub setter: Setter,
    /// Its reasons and their meaning.
    pub reasons: Vec<(&'static str, &'static str)>,
}

/// Every condition of ours: the contract that `docs/conditions/` explains.
pub fn documented() -> Vec<Documented> {
    use crate::names::manager;
    macro_rules! reasons {
        ($words:ident) => {
            $words::ALL.iter().map(|word| (word.name(), word.meaning())).collect::<Vec<_>>()
        };
    }
    let mut all = Vec::new();
    for &node in Node::ALL {
        let (setter, reasons) = match node {
            Node::Active => (Setter::Manager(manager::NODE), reasons!(Active)),
            Node::InService => (Setter::Manager(manager::NODE), reasons!(InService)),
            Node::PendingPhase | Node::ImmediatePhase => (Setter::Anybody, reasons!(Phase)),
        };
        all.push(Documented {
            kind: "Node",
            name: node.name(),
            meaning: node.meaning(),
            setter,
            reasons,
        });
    }
    for &machine in Machine::ALL {
        let (setter, reasons) = match machine {
            Machine::Stalled => (Setter::Manager(manager::MACHINE), reasons!(Stalled)),
            _ => (Setter::Manager(manager::MACHINE), reasons!(MachineReason)),
        };
        let (name, meaning) = (machine.name(), machine.meaning());
        all.push(Documented { kind: "Machine", name, meaning, setter, reasons });
    }
    for &pool in Pool::ALL {
        let reasons = match pool {
            Pool::AtTarget => reasons!(AtTarget),
            Pool::Valid => reasons!(Valid),
        };
        let setter = Setter::Manager(manager::POOL);
        let (name, meaning) = (pool.name(), pool.meaning());
        all.push(Documented { kind: "NodePool", name, meaning, setter, reasons });
    }
    all
}
