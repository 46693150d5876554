//! Every decision of Seatrial.
//!
//! Pure, synchronous functions of what was observed, the time included: no I/O, no clock, no
//! randomness, no logs. [`catalogue`] says what every known fault means and which steps cure it;
//! [`detect`] turns log lines, counters, sensors and silence into findings that name a row of the
//! catalogue; [`capacity`] computes spares and effective training time. The other modules are named
//! after the controllers that they decide for.

pub mod capacity;
pub mod catalogue;
pub mod detect;
pub mod gc;
pub mod namespace;
pub mod serviceaccount;
mod words;
