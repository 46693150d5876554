//! Plumbing every Seatrial component shares.
//!
//! The only places where wall time ([`clock`]) and randomness ([`ids`]) enter the program, so that
//! a run can be repeated; certificates and keys on disk ([`pki`]); log lines ([`telemetry`]); and
//! error chains as people read them ([`error`]). With the feature `controller`, also the runtime that
//! every controller is written on (`controller`).
//!
//! Nothing here knows HTTP routing, our own kinds, or any decision.

pub mod clock;
#[cfg(feature = "controller")]
pub mod controller;
pub mod error;
pub mod ids;
pub mod pki;
#[cfg(feature = "controller")]
pub mod pulse;
pub mod telemetry;
