//! What runs on every machine: says what it is, tests it, and notices what breaks.
//!
//! An [`Agent`] lives for one boot. It speaks first: its boot, image and kernel stand in its Machine's
//! status before anything is asked of it. It carries out the task that stands there for its own boot,
//! once, and reports; it keeps the kubelet running while its machine is in production, and only then;
//! and it shows on its Node what the detectors find.
//!
//! Guarantees: a task that is reported is never begun again, by a restarted agent neither. A finding is
//! shown for as long as it holds, however often the API fails; writes that fail are tried again with
//! growing, spread delays, and what changes meanwhile goes with the next one. While nothing happens,
//! nothing is written but the agent's own Lease, once a minute.
//!
//! What conditions shall stand is decided in `plan::agent`. What is done to the machine is the
//! [`Platform`]'s: on hardware, or in a simulator, where thousands of agents share a process.

mod agent;
mod backoff;
mod detect;
mod machine;
mod node;
mod platform;
mod pulse;
mod rights;

pub use agent::{Agent, Signs, Sources};
pub use detect::{Detectors, Unreadable};
pub use platform::{Platform, Signal, System};
pub use rights::{cluster_role, cluster_role_binding, policies, role, role_binding};
