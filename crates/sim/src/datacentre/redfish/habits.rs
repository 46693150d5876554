//! What BMCs of different makes do differently, as data. The makes are invented; each habit has been
//! seen in the field.

use crate::datacentre::layout::Vendor;

/// What one make of BMC does its own way.
#[derive(Debug)]
pub(super) struct Habits {
    /// What it says its maker is.
    pub(super) maker: &'static str,
    /// What it calls its only system.
    pub(super) system: &'static str,
    /// The reset types that it takes.
    pub(super) resets: &'static [&'static str],
    /// It lists them in a resource of their own (DSP0266, 7.5.3.3).
    pub(super) action_info: bool,
    /// It says when it last reset the system.
    pub(super) last_reset: bool,
    /// It takes no user and password with each request.
    pub(super) sessions_only: bool,
    /// Systems are not there before their collection was read (NVIDIA/infra-controller #5201).
    pub(super) collection_first: bool,
    /// It takes its time.
    pub(super) slow: bool,
}

const ALL: &[&str] =
    &["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle"];
const NO_CYCLE: &[&str] =
    &["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"];
const ROUGH: &[&str] = &["On", "ForceOff", "ForceRestart", "PowerCycle"];

static HABITS: [Habits; 4] = [
    Habits {
        maker: "Alder",
        system: "1",
        resets: ALL,
        action_info: false,
        last_reset: true,
        sessions_only: false,
        collection_first: false,
        slow: false,
    },
    Habits {
        maker: "Birch",
        system: "System.Embedded.1",
        resets: NO_CYCLE,
        action_info: false,
        last_reset: true,
        sessions_only: false,
        collection_first: false,
        slow: false,
    },
    Habits {
        maker: "Cedar",
        system: "Self",
        resets: ROUGH,
        action_info: true,
        last_reset: true,
        sessions_only: true,
        collection_first: true,
        slow: false,
    },
    Habits {
        maker: "Dogwood",
        system: "system",
        resets: ALL,
        action_info: false,
        last_reset: false,
        sessions_only: false,
        collection_first: false,
        slow: true,
    },
];

/// The habits of a make.
pub(super) fn habits(vendor: Vendor) -> &'static Habits {
    let [alder, birch, cedar, dogwood] = &HABITS;
    match vendor {
        Vendor::Alder => alder,
        Vendor::Birch => birch,
        Vendor::Cedar => cedar,
        Vendor::Dogwood => dogwood,
    }
}
