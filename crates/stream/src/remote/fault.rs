//! What can go wrong on the way to an object, which of it passes, and what to do about the rest.

use std::io;
use std::time::Duration;

use super::url::BadUrl;
use crate::s3::CredentialsError;

/// Why an object, or a range of it, could not be had. Nothing in it tells a secret: URLs are told
/// without their query, credentials not at all.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The name of a host leads nowhere.
    #[error("the name {host} cannot be resolved")]
    Resolve {
        /// Which host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no connection.
    #[error("no connection to {to}")]
    Connect {
        /// Host and port.
        to: String,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate or the protocol of the other side is not acceptable.
    #[error(
        "TLS with {to} failed; the certificates of a private authority are given with --ca-file or AWS_CA_BUNDLE"
    )]
    Tls {
        /// Host and port.
        to: String,
        /// What rustls said.
        source: rustls::Error,
    },
    /// The file of trusted certificates cannot be used, or this machine has none.
    #[error("no certificates to trust from {from}")]
    Roots {
        /// Which file, or that it was the system's.
        from: String,
        /// Why.
        why: String,
    },
    /// The connection broke, in the middle of something.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The other side ended before what it had announced.
    #[error("the connection ended early")]
    Cut,
    /// Nothing came for too long.
    #[error("no byte came for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// The server cannot do it now.
    #[error("the server answers {status}{code}")]
    Unavailable {
        /// The status of the answer.
        status: u16,
        /// S3's word for it, in brackets.
        code: String,
        /// When to come back, if that was said.
        after: Option<Duration>,
    },
    /// The server wants to be left alone for longer than is waited for.
    #[error("the server answers {status} and is to be asked again in {} s at the earliest", after.as_secs())]
    Later {
        /// The status of the answer.
        status: u16,
        /// When to come back.
        after: Duration,
    },
    /// The server does not give it to us.
    #[error(
        "the server refuses it ({status}{code}): are the credentials there and right, has the URL expired, is the clock right?"
    )]
    Forbidden {
        /// The status of the answer.
        status: u16,
        /// S3's word for it, in brackets.
        code: String,
    },
    /// There is nothing there.
    #[error("nothing is there ({status}{code})")]
    Missing {
        /// The status of the answer.
        status: u16,
        /// S3's word for it, in brackets.
        code: String,
    },
    /// Another answer that helps nobody.
    #[error("the server answers {status}{code}")]
    Status {
        /// The status of the answer.
        status: u16,
        /// S3's word for it, in brackets.
        code: String,
    },
    /// The object is another than when it was opened.
    #[error("it was changed while it was read: open it again")]
    Changed,
    /// The server only gives whole objects.
    #[error(
        "the server does not answer to ranges: serve the file from one that does (nginx, S3), or fetch it whole and name the file"
    )]
    NoRanges,
    /// The answer is not what HTTP allows, or not to what was asked.
    #[error("the server answered with {0}")]
    Protocol(String),
    /// A redirect that is not followed.
    #[error("the server redirects {0}")]
    Redirect(String),
    /// A redirect to what is no URL.
    #[error("the server redirects to what cannot be used")]
    Target(#[source] BadUrl),
    /// The bucket lies elsewhere.
    #[error("the bucket lies in the region {region}: set AWS_REGION or --region to it")]
    Region {
        /// Where.
        region: String,
    },
    /// The credentials for S3 cannot be had.
    #[error("no credentials for S3")]
    Credentials(#[from] CredentialsError),
    /// As many failures in a row as are borne.
    #[error("gave up after {tries} tries in a row")]
    GaveUp {
        /// How many.
        tries: u32,
        /// The last one.
        #[source]
        last: Box<Self>,
    },
    /// An object has as many parts as it can.
    #[error(
        "it is longer than {most} bytes, the most that is sent where the length is not known beforehand: write a file and convert that"
    )]
    Long {
        /// Bytes of the longest.
        most: u64,
    },
    /// A model that comes in parts goes where parts can go.
    #[error(
        "a model that comes tensor by tensor is written to a file or to s3://: write a file and convert that"
    )]
    Parts,
    /// An upload may be there, or not.
    #[error(
        "whether it is there is not known: the answer to the last step was lost, and the upload is gone since: look at the object"
    )]
    Unsure,
    /// Something else failed first, or was faster.
    #[error("it is not needed any more")]
    Cancelled,
}

impl Fault {
    /// Whether the same request may succeed a little later.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Resolve { .. }
                | Self::Connect { .. }
                | Self::Broken(_)
                | Self::Cut
                | Self::Stalled(_)
                | Self::Unavailable { .. }
        )
    }

    /// Whether nobody was reached at all.
    pub(crate) const fn is_unreached(&self) -> bool {
        matches!(self, Self::Resolve { .. } | Self::Connect { .. })
    }

    /// Of a read or a write on a connection.
    pub(crate) fn of_io(error: io::Error, stall: Duration) -> Self {
        match error.kind() {
            // What a timeout of a socket is called depends on the system.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Stalled(stall),
            io::ErrorKind::UnexpectedEof => Self::Cut,
            _ => Self::Broken(error),
        }
    }
}
