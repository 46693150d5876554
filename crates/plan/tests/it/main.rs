//! Tests of what `plan` promises, from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod catalogue;
