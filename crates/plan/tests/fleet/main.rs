//! The lifecycles of machines and nodes, played in a world of objects in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod property;
mod script;
mod world;
