//! The server through its own door, by the client that operators are written with.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod audit;
mod clock;
mod controller;
mod definitions;
mod events;
mod fuzz;
mod history;
mod hostile;
mod objects;
mod quota;
mod rights;
mod support;
mod tables;
mod watching;
mod webhooks;
