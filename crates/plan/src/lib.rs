//! Every decision of Seatrial.
//!
//! Everything here is a pure, synchronous function of what was observed, the time included: no
//! I/O, no clock, no random numbers, no logs. What a plan returns is so specific that nothing is
//! left to decide when it is carried out ([`deed`] says in which order and under which fences).
//!
//! [`catalogue`] says what every known fault means and which steps cure it; [`detect`] turns log
//! lines, counters, sensors and silence into findings that name a row of the catalogue. [`machine`]
//! is the lifecycle of a server, [`node`] that of an incident on a node; they talk only through
//! objects. [`budget`] and [`breaker`] hold both back, [`pool`] fills pools with machines, [`verify`]
//! judges tests, [`boot`] says who is given an identity, [`lemon`] finds machines that fail more than
//! their peers, [`capacity`] computes spares and effective training time, [`training`] where a job's
//! time went. [`lint`] checks the plans, [`tell`] says to people what is going
//! on.
//!
//! The other modules are named after the controllers that every cluster has, from [`certificates`]
//! to [`ttlafterfinished`], and decide for them; [`claim`] and [`pod`] hold what those share.

pub mod agent;
pub mod boot;
pub mod bootstrapsigner;
pub mod breaker;
pub mod budget;
pub mod capacity;
pub mod catalogue;
pub mod certificates;
pub mod claim;
pub mod cronjob;
pub mod daemonset;
pub mod deed;
pub mod deployment;
pub mod detect;
pub mod disruption;
pub mod endpointslice;
pub mod fence;
pub mod gc;
pub mod history;
pub mod job;
pub mod lemon;
pub mod lint;
pub mod machine;
pub mod namespace;
pub mod node;
pub mod nodelifecycle;
pub mod pod;
pub mod podgc;
pub mod pool;
pub mod protection;
pub mod replicaset;
pub mod rootca;
pub mod rules;
pub mod scheduler;
pub mod serviceaccount;
mod share;
pub mod silence;
pub mod statefulset;
pub mod tainteviction;
pub mod tell;
pub mod tokencleaner;
pub mod training;
pub mod ttlafterfinished;
pub mod verify;
mod words;

pub use deed::{Because, Deed, Event, Fence, Mood, Plan};
pub use fence::Standing;
pub use rules::Rules;
