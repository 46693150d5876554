//! Worlds without hardware.
//!
//! [`datacentre`] is simulated hardware behind real protocols, [`hosts`] what runs on it, [`people`]
//! what only hands can do. [`explore`] drives the shipped decisions through many orders of events and
//! holds what happens against a hidden truth; [`replay`] lets a recorded year of faults happen again.

pub mod datacentre;
pub mod explore;
pub mod hosts;
pub mod people;
pub mod replay;
