//! The server through its own door.
#![allow(clippy::unwrap_used, clippy::panic)]
