//! The engines, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod child;
mod conformance;
mod crash;
mod damage;
mod directory;
mod full;
mod model;
mod watching;
