//! What every plan consists of.
//!
//! A plan is carried out in this order, and the order is part of the contract:
//!
//! 1. `status` is written where the object's resource version is still the one that was observed.
//!    If it is not, the whole plan is dropped and a new one made from what is there now.
//! 2. Each deed of `deeds` is done, unless its [`Fence`] no longer holds; one that is refused or
//!    fails ends the pass. Its [`Because`] becomes an Event and an audit annotation *before* it is done.
//! 3. `events` are told.
//! 4. Nothing happens until something observed changes, or until `wake`.
//!
//! What is left of a plan that is older than [`Rules::fresh`](crate::Rules::fresh) is dropped: whoever
//! carries it out may have been stopped for a while, and a BMC that was told late begins late.
//!
//! A deed is safe to be done twice: what must not happen twice names in its fence what would be
//! different if it had happened.

use api::incident::Stage;
use api::request::Shown;
use jiff::Timestamp;

/// Everything to be done about one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<A, S> {
    /// The whole new status, if it differs from the one observed.
    pub status: Option<S>,
    /// What is done, in order.
    pub deeds: Vec<Deed<A>>,
    /// What is told beside the deeds.
    pub events: Vec<Event>,
    /// When to look again although nothing changed; never in the past.
    pub wake: Option<Timestamp>,
}

impl<A, S> Default for Plan<A, S> {
    fn default() -> Self {
        Self { status: None, deeds: Vec::new(), events: Vec::new(), wake: None }
    }
}

impl<A, S> Plan<A, S> {
    /// Whether nothing is done, written or told.
    pub fn is_idle(&self) -> bool {
        self.status.is_none() && self.deeds.is_empty() && self.events.is_empty()
    }

    /// Looks again at `at` at the latest.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// One thing to be done, with what must still hold and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed<A> {
    /// What is done.
    pub act: A,
    /// What must still hold.
    pub fence: Fence,
    /// Who, why, and on what evidence.
    pub because: Because,
}

/// What must still hold when a deed is done. Each field that is given is compared with what is
/// there at that moment; one that differs refuses the deed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The UID of the machine.
    pub machine_uid: Option<String>,
    /// The generation of the machine's spec.
    pub generation: Option<i64>,
    /// The UID of the node.
    pub node_uid: Option<String>,
    /// The boot that runs.
    pub boot: Option<String>,
    /// What the BMC says about its last reset.
    pub last_reset: Option<String>,
    /// The incident that must still be open.
    pub incident: Option<String>,
    /// The stage in which that incident must still be: whoever leads beside us may have broken off what
    /// we saw under way, and given its grant back.
    pub stage: Option<Stage>,
    /// What the node must still say.
    pub shown: Option<Shown>,
}

/// Who wants a deed, why, and on what evidence: the text of its Event and its audit annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Because {
    /// The controller, or the person who asked.
    pub who: String,
    /// Why, as one sentence.
    pub why: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// The request, incident or state that it is done for.
    pub origin: String,
}

/// Whether an event calls for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// As things should go.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Something to be told about an object: emitted on transitions only, never per look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it calls for attention.
    pub mood: Mood,
    /// One word from a closed set, as `EnteredTest`.
    pub reason: String,
    /// One sentence.
    pub note: String,
}

impl Event {
    /// An event as things should go.
    pub(crate) fn normal(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self { mood: Mood::Normal, reason: reason.into(), note: note.into() }
    }

    /// An event that calls for attention.
    pub(crate) fn warning(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self { mood: Mood::Warning, reason: reason.into(), note: note.into() }
    }
}
