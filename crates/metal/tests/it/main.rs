//! BMCs as they are: correct, slow, silent, wrong, and each vendor in its own way.
#![allow(clippy::unwrap_used, clippy::panic)]

mod boot;
mod fake;
mod redfish;
mod sushy;
