//! The controller runtime against the server in the process, mostly on a held clock.
#![allow(clippy::unwrap_used)]

mod caches;
mod leases;
mod support;
mod work;
