//! Seatrial's decisions.
//!
//! Everything here is a pure, synchronous function of what was observed, the time included: no
//! I/O, no clock, no random numbers, no logs. [`catalogue`] says what every known fault means and
//! which steps cure it; [`detect`] turns log lines, counters, sensors and silence into findings
//! that name a row of the catalogue.

pub mod capacity;
pub mod catalogue;
pub mod detect;
mod words;
