//! What needs files of the repository.
#![cfg(feature = "site")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod replay;
mod trace;
