//! Simulated hardware behind real protocols: machines that boot, break, are tested and mended.
//!
//! A [`Layout`] says what stands where; a [`Datacentre`] holds the hidden truth of every machine in
//! it. Controllers reach it only as they would reach real hardware: through Redfish, through the boot
//! service, and through what runs on a booted machine ([`Hardware`]). What is broken shows as its
//! symptoms; nobody is told the answer.
//!
//! It is the same for a seed on the wall clock and in virtual time. Nothing ticks: a machine has a
//! timer only while something is under way.

mod boot;
mod chore;
mod delays;
mod fault;
mod faults;
mod file;
mod hardware;
mod ills;
mod layout;
mod redfish;
mod show;
mod site;
mod truth;

pub use delays::{Delay, Delays, DelaysError};
pub use fault::{Cure, Fault, Lack, Mishap, Test, Voice};
pub use faults::{Faults, FaultsError, UnknownFault};
pub use file::JournalError;
pub use hardware::{FaultId, Hardware, Heal, Reset, Running, Signal};
pub use layout::{Demo, Layout, LayoutError, MachinePlan, Objects, Serving, Vendor};
pub(crate) use site::Stands;
pub use site::{BootService, Datacentre, Settings, StartError};
