//! One HTTP request and its answer, over a network or within this process.
//!
//! In the field an exchange goes through sockets and TLS; a simulated site answers it by a function
//! call, so that ten thousand BMCs need no port and a held clock stays held.

use bytes::Bytes;
use http::{Request, Response};
use tower::util::BoxCloneSyncService;

/// Carries requests with absolute URLs to whoever answers them. Cheap to clone.
pub type Exchange = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, Unreachable>;

/// No answer: refused, cut off, or too late.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{host} does not answer: {why}")]
pub struct Unreachable {
    /// Who was asked, as `host:port`.
    pub host: String,
    /// What happened.
    pub why: String,
}
