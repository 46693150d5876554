//! Objects behind URLs: ranges of them over HTTP/1.1, straight into the memory where they belong.
//!
//! What passes (a broken connection, a server that is busy) costs time and never a load; what does
//! not pass (no right, no object, another object than before) ends it at once with one error that
//! says what to do. Bytes of two versions of an object are never mixed.
//!
//! From the wire up: [`connection`] asks one question, [`wire`] asks whoever answers for the object,
//! [`fetch`] has a range in spite of what passes, [`crew`] has many beside each other, [`object`] is
//! the source that all of it makes. [`store`] sends bytes the other way. Proxies are not asked: `HTTP_PROXY` and its like are not read.

mod connection;
mod crew;
mod fault;
mod fetch;
mod head;
mod object;
mod pace;
mod patience;
mod store;
mod tls;
pub(crate) mod url;
mod wire;

use std::num::NonZero;
use std::path::PathBuf;

pub use fault::Fault;
pub(crate) use object::{FRONT, Object};
pub use patience::Patience;
pub(crate) use store::{Give, Sent, Store};
pub(crate) use wire::PEER;
pub use wire::Traffic;

use crate::s3::S3;

/// How objects behind URLs are reached.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Who asks S3, and where it is.
    pub s3: S3,
    /// A file of certificates in PEM that are believed instead of the system's; without it the one
    /// that `AWS_CA_BUNDLE` names, if it is set.
    pub ca_file: Option<PathBuf>,
    /// Connections at most. How many there are is found out on the way.
    pub connections: NonZero<usize>,
    /// How long is waited for what.
    pub patience: Patience,
}

impl Default for Remote {
    fn default() -> Self {
        let connections = NonZero::new(32).unwrap_or(NonZero::<usize>::MIN);
        Self { s3: S3::default(), ca_file: None, connections, patience: Patience::default() }
    }
}
