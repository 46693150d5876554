//! The people of a site: a technician in the hall and an operator at the desk.
//!
//! They work through the API as anybody does, each as a user of their own with the rights that they
//! need and no more: the technician certifies racks and cables, mends what waits in RMA and Debug and
//! sends it on; the operator acknowledges open breakers. Each takes the time that people take
//! ([`Hands`]), and every act is kept in a list ([`Acts`]), so that no report counts it as the
//! machine's own.
//!
//! They are written as controllers: they watch, poll nothing, decide by what objects say, and go on
//! after a crash where they were.

mod operator;
mod technician;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kit::controller::{Declaration, Manager, declaration};
use kube::Client;
use serde::Serialize;

pub use operator::Operator;
pub use technician::Technician;

/// The user that the technician acts as.
pub const TECHNICIAN: &str = "technician";
/// The user that the operator acts as.
pub const OPERATOR: &str = "operator";

/// How long people take. Assumed: a site with staff around the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hands {
    /// From a machine's being onboarded to its cables' being certified.
    pub certify: Duration,
    /// From a breaker's opening to its being acknowledged: somebody has looked at what is common.
    pub acknowledge: Duration,
    /// From a machine's being switched off for repair to its part's being replaced.
    pub repair: Duration,
    /// From a machine's being given to a person to that person's verdict.
    pub debug: Duration,
}

impl Default for Hands {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            certify: 15 * MINUTE,
            acknowledge: 10 * MINUTE,
            repair: 4 * 60 * MINUTE,
            debug: 2 * 60 * MINUTE,
        }
    }
}

impl Hands {
    /// The same people in a world that runs so much faster.
    #[must_use]
    pub fn divided(self, by: f64) -> Self {
        let faster = |time: Duration| {
            Duration::try_from_secs_f64(time.as_secs_f64() / by).unwrap_or(Duration::ZERO)
        };
        Self {
            certify: faster(self.certify),
            acknowledge: faster(self.acknowledge),
            repair: faster(self.repair),
            debug: faster(self.debug),
        }
    }
}

/// What hands can do to the hardware itself.
pub trait Workshop: Send + Sync + 'static {
    /// From when on a machine can be mended, where that is known to be later than now: the part
    /// must be delivered first.
    fn ready(&self, machine: &str) -> Option<Timestamp>;

    /// Mends it, and says what was done. A machine that is sound already is left so.
    fn mend(&self, machine: &str) -> String;
}

/// Where nothing is ever broken.
struct Sound;

impl Workshop for Sound {
    fn ready(&self, _: &str) -> Option<Timestamp> {
        None
    }

    fn mend(&self, _: &str) -> String {
        "found nothing to mend".to_owned()
    }
}

/// One thing that a person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Act {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: &'static str,
    /// To which machine or breaker.
    pub about: String,
    /// What.
    pub what: Deed,
    /// Why, as one sentence.
    pub why: String,
}

/// What people do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Certified rack and cables.
    Certified,
    /// Mended hardware and sent the machine back to the beginning.
    Mended,
    /// Acknowledged a breaker.
    Acknowledged,
    /// Cordoned a node, to keep it to themselves.
    Cordoned,
    /// Forbade everybody else to do anything to a machine.
    HandsOff,
    /// Gave back what they had cordoned or taken over.
    GaveBack,
}

/// Everything that people did, in order. Cheap to clone; clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Acts(Arc<Mutex<Vec<Act>>>);

impl Acts {
    pub(crate) fn add(&self, act: Act) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(act);
    }

    /// All of them until now.
    pub fn all(&self) -> Vec<Act> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The people of a site. Cheap to clone.
#[derive(Clone)]
pub struct People {
    /// How long they take.
    pub hands: Hands,
    /// What they can do to the hardware.
    pub workshop: Arc<dyn Workshop>,
    /// What they did.
    pub acts: Acts,
}

impl Default for People {
    fn default() -> Self {
        Self { hands: Hands::default(), workshop: Arc::new(Sound), acts: Acts::default() }
    }
}

impl fmt::Debug for People {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("People").field("hands", &self.hands).finish_non_exhaustive()
    }
}

impl People {
    /// What each needs: the user, and the rights.
    pub fn declarations() -> [(&'static str, Declaration); 2] {
        [(TECHNICIAN, declaration::<Technician>()), (OPERATOR, declaration::<Operator>())]
    }

    /// Lets them work, each by a client that acts as the user of that name.
    pub fn join(&self, manager: &mut Manager, client: impl Fn(&'static str) -> Client) {
        manager.add_with::<Technician>(client(TECHNICIAN), self.clone());
        manager.add_with::<Operator>(client(OPERATOR), self.clone());
    }
}

/// So much later; the end of the calendar at most.
fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What a person shall do about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo<T> {
    /// Nothing.
    Nothing,
    /// Nothing before this time.
    Later(Timestamp),
    /// This.
    Now(T),
}

impl<T> Todo<T> {
    /// This, once it is due.
    fn due(at: Timestamp, now: Timestamp, what: T) -> Self {
        if at <= now { Self::Now(what) } else { Self::Later(at) }
    }
}

#[cfg(test)]
mod tests;
