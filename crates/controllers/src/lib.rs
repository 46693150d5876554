//! Seatrial's controllers: one folder each, all alike.
//!
//! A controller's decisions are in `plan::<name>`; here is what it watches and how it acts. To add
//! one: its decisions, a folder with `observe` and `apply`, and a line in [`ALL`]. Its role, metrics,
//! alert rules and dashboard follow from what it declares.

pub mod boot;
pub mod bootstrapsigner;
pub mod breaker;
mod bynode;
pub mod certificates;
mod claim;
pub mod cronjob;
pub mod daemonset;
mod deed;
pub mod deployment;
pub mod disruption;
pub mod endpointslice;
pub mod gc;
pub mod heartbeats;
pub mod job;
pub mod kinds;
pub mod machine;
pub mod namespace;
pub mod node;
pub mod nodelifecycle;
pub mod podgc;
mod pods;
pub mod pool;
pub mod pvcprotection;
pub mod pvprotection;
pub mod registry;
pub mod replicaset;
mod revisions;
pub mod rootca;
pub mod scheduler;
pub mod serviceaccount;
pub mod silence;
pub mod statefulset;
pub mod tainteviction;
pub mod tokencleaner;
pub mod ttlafterfinished;

pub use registry::{ALL, Entry, Selection, Site, Unknown};
