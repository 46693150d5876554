//! The vocabulary seen from outside: its definitions, its pages, its door.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod audit;
mod definitions;
mod door;
mod pages;
