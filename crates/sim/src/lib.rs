//! Worlds without hardware.
//!
//! [`datacentre`] is simulated hardware behind real protocols, [`hosts`] what runs on it, [`trainer`] a
//! tenant's program on all of it together, [`people`] what only hands can do. A [`scenario`] says what
//! happens in it. [`explore`] drives the shipped decisions through many orders of events and
//! holds what happens against a hidden truth; [`replay`] lets a recorded year of faults happen again.

#[cfg(feature = "site")]
mod admin;
#[cfg(feature = "site")]
pub mod datacentre;
pub mod explore;
#[cfg(feature = "site")]
pub mod hosts;
#[cfg(feature = "site")]
pub mod people;
#[cfg(feature = "site")]
pub mod replay;
#[cfg(feature = "site")]
pub mod scenario;
#[cfg(feature = "site")]
pub mod trainer;
