//! The runtime that every controller is written on.
//!
//! A controller makes the world as its objects say. It is three functions and a declaration:
//!
//! - [`wire`](Controller::wire) declares: which kinds are watched, how their changes map to keys, which
//!   rights are needed. Its role, its metrics, its alert rules and its dashboard follow from that.
//! - [`observe`](Controller::observe) reads what there is to know about a key, mostly from caches.
//! - [`plan`](Controller::plan) decides. It is pure: the time is part of what was observed.
//! - [`apply`](Controller::apply) does what the plan says, and decides nothing. It says when to look
//!   again: at the earliest deadline in the plan, never "every so often".
//!
//! What changed is never an input. A key that comes out of the queue is looked at as a whole, so a
//! lost, doubled or reordered event changes nothing.
//!
//! # What the runtime does
//!
//! - **Queue**: a key is queued once and never in two workers; at most the declared number at once;
//!   failures come back after growing, spread delays; a deadline brings a key back at its time.
//! - **Watches**: one list and one watch per kind and selector in the process, whoever asks. They
//!   resume where they ended; an object that cannot be read stops nothing.
//! - **Own writes** are in the caches before the next reconcile, so no plan is made of what was there
//!   before the last one.
//! - **Failures** have a [`Class`], which decides the delay, the log level and the metric. A panic is a
//!   [`Class::Bug`] of one key.
//! - **Nothing ticks.** No resync, no poll: on a paused clock a controller with nothing to do is still.
//!   With one seed and a current_thread runtime, two runs are the same run.
//!
//! # A controller, whole
//!
//! Every ConfigMap with a `copy-of` annotation gets the data of the one that it names:
//!
//! ```
#![doc = include_str!("../../examples/copycat.rs")]
//! ```
//!
//! # Tests
//!
//! [`Manager::start`] runs it in the background, and [`Running::until_idle`] returns when all is done:
//! no sleep, no poll, exact. Hold the clock and jump over a year; the same test runs against a real
//! kube-apiserver with a system clock.

mod activity;
mod cache;
pub mod conditions;
mod context;
mod declare;
mod error;
mod events;
mod key;
pub mod lease;
mod manager;
mod metrics;
pub mod observability;
mod queue;
mod reflector;
mod swap;
mod wire;
mod wiring;
mod worker;

use jiff::Timestamp;

pub use self::cache::{Cache, Change, Watchable};
pub use self::context::{Context, Delete};
pub use self::declare::{Alert, Declaration, reading};
pub use self::error::{Class, Error};
pub use self::events::{Mood, Note};
pub use self::key::{Key, ObjectKey};
pub use self::manager::{
    Compare, Handle, Manager, Options, Running, VIRTUAL_WATCH_LIFETIME, WATCH_LIFETIME, declaration,
};
pub use self::metrics::{Measure, Metrics};
pub use self::swap::Parts;
pub use self::wiring::{Adder, AnyMeta, Opener, Watch, Wiring, controller_of};

/// When to look at a key again if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Only when something changes.
    Never,
    /// At this time.
    At(Timestamp),
}

impl Wake {
    /// At the earliest of these times, if there is one.
    pub fn earliest(times: impl IntoIterator<Item = Timestamp>) -> Self {
        times.into_iter().min().map_or(Self::Never, Self::At)
    }
}

/// Makes the world as its objects say; see the module.
pub trait Controller: Send + Sync + Sized + 'static {
    /// What a unit of work is called.
    type Key: Key;
    /// What a site may set; `()` if nothing.
    type Settings: Default;
    /// All that a decision rests on, the time included.
    type Observed: Send + Sync;
    /// What shall be done, so specific that nothing is left to decide.
    type Plan: Send;

    /// The name: of the field manager `seatrial/NAME`, of the role, in metrics and on the command
    /// line.
    const NAME: &'static str;

    /// Declares what is watched and needed, and keeps the caches.
    fn wire(settings: Self::Settings, wiring: &mut Wiring<Self::Key>) -> Self;

    /// Reads what there is to know about a key. `None`: there is nothing to do for it.
    fn observe(
        &self,
        context: &Context,
        key: &Self::Key,
    ) -> impl Future<Output = Result<Option<Self::Observed>, Error>> + Send;

    /// Decides: a pure function.
    fn plan(observed: &Self::Observed) -> Self::Plan;

    /// Does what the plan says.
    fn apply(
        &self,
        context: &Context,
        key: &Self::Key,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Wake, Error>> + Send;
}
