//! How a pod asks to be treated when its node must be freed.
//!
//! The label [`TREATMENT`](crate::names::TREATMENT) on the pod says it; a pod without the label, or
//! with a value that nobody knows, is waited for. Pods of DaemonSets, mirror pods and finished pods
//! never hold a node.

use std::fmt;

/// What may be done to a pod whose node must be freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Treatment {
    /// Wait until it ends by itself. Only an immediate phase, a fault that has already taken the
    /// pod's work, or the incident's own deadline passes over this wish.
    #[default]
    Wait,
    /// End it with its own grace period.
    Graceful,
    /// Kill it at once.
    Now,
}

impl Treatment {
    /// Every value, mildest first.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Graceful, Self::Now];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Graceful => "graceful",
            Self::Now => "now",
        }
    }

    /// Reads the label's value; what is absent or unknown is waited for.
    pub fn read(value: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|t| Some(t.name()) == value).unwrap_or_default()
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_is_waited_for() {
        assert_eq!(Treatment::read(None), Treatment::Wait);
        assert_eq!(Treatment::read(Some("Now")), Treatment::Wait);
        assert_eq!(Treatment::read(Some("")), Treatment::Wait);
        for treatment in Treatment::ALL {
            assert_eq!(Treatment::read(Some(treatment.name())), treatment);
        }
    }
}
