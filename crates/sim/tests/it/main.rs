//! What needs files of the repository.
#![allow(clippy::unwrap_used, reason = "tests")]

mod replay;
mod trace;
