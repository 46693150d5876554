//! Audit: who did what to what, and what came of it, one event per stage of a request.
//!
//! A [`policy::Policy`] decides how much of each request is told, an [`AuditSink`] takes the events.
//! Every request passes here, those of clients in the process too; the server's own writes do not.
//! A sink must take or drop an event at once: auditing never holds a request up.

mod event;
pub mod policy;
mod sink;

use std::fmt;
use std::sync::Arc;

pub(crate) use self::event::{About, Record};
pub use self::policy::{Policy, ReadPolicy};
pub use self::sink::{AuditFile, AuditSink, OpenAuditFile};

/// What is told of requests, and to whom.
#[derive(Clone)]
pub struct Audit {
    /// How much is told.
    pub policy: Arc<Policy>,
    /// Who takes it.
    pub sink: Arc<dyn AuditSink>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("policy", &self.policy).finish_non_exhaustive()
    }
}
