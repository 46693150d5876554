//! Talking to machines from outside: their BMCs and their boots.
//!
//! Protocol code only: nothing here decides, and nothing here knows the Kubernetes API. Whoever calls
//! has written down why.

pub mod boot;
pub mod exchange;
pub mod redfish;
mod serve;

pub use exchange::{Exchange, Unreachable};
pub use serve::serve;
