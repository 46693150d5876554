//! Where a cache reads from: a prefix in S3 or of a web server, and the object that a path is there.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use crate::remote::url::{BadUrl, Origin as Authority, Url};
use crate::remote::{Fault, Object, Patience, Remote};
use crate::s3::{Address, encoded};
use crate::serve::refusal::Refusal;

/// Bytes of the first question of an object, which only is to tell what it is. The first chunk begins
/// with them, so that they are read once.
const FRONT: u64 = 4 << 10;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Http(Url),
    /// Bucket and prefix.
    S3(String),
}

impl Origin {
    /// Reads `http://HOST/PREFIX`, `https://HOST/PREFIX`, `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// If it is none of them, or has a query, which would be a secret for one object.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let rest = rest.trim_end_matches('/');
            Address::parse(&format!("{rest}/x"))?;
            return Ok(Self(Kind::S3(rest.to_owned())));
        }
        let mut url = Url::parse(text)?;
        if url.query.is_some() {
            return Err(BadUrl::Query);
        }
        url.path.truncate(url.path.trim_end_matches('/').len());
        Ok(Self(Kind::Http(url)))
    }

    /// Asks for the object of a path.
    pub(super) fn find(&self, path: &str, how: &Remote) -> Result<Object, Fault> {
        match &self.0 {
            Kind::Http(url) => {
                let url =
                    Url { path: format!("{}/{}", url.path, encoded(path, true)), ..url.clone() };
                Object::http(&url, how, FRONT)
            }
            Kind::S3(prefix) => {
                // Of the prefix it is known, and a path has no control characters.
                let address = Address::parse(&format!("{prefix}/{path}")).map_err(Fault::Target)?;
                Object::s3(how.s3.ready(&address, &|name| std::env::var_os(name))?, how, FRONT)
            }
        }
    }
}

/// The object of a path at another cache. It is near, or it is not worth waiting for.
pub(super) fn at_peer(peer: SocketAddr, path: &str) -> Result<Object, Fault> {
    let authority = Authority { tls: false, host: peer.ip().to_string(), port: peer.port() };
    let url = Url { origin: authority, path: format!("/{}", encoded(path, true)), query: None };
    let patience = Patience {
        connect: Duration::from_secs(1),
        stall: Duration::from_secs(10),
        tries: NonZero::<u32>::MIN,
        ..Patience::default()
    };
    Object::peer(&url, &Remote { patience, ..Remote::default() }, 1)
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Http(url) => url.fmt(out),
            Kind::S3(prefix) => write!(out, "s3://{prefix}"),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// What a client is told when the origin does not give an object.
pub(super) fn refusal(fault: &Fault) -> Refusal {
    let causes = std::iter::successors(Some(fault as &dyn std::error::Error), |e| e.source());
    let told = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    Refusal::new(status(fault), format!("the origin: {told}"))
}

fn status(fault: &Fault) -> u16 {
    match fault {
        Fault::Missing { .. } => 404,
        Fault::GaveUp { last, .. } => status(last),
        Fault::Stalled(_) | Fault::Connect { .. } | Fault::Resolve { .. } => 504,
        Fault::Unavailable { .. } | Fault::Later { .. } | Fault::Changed => 503,
        _ => 502,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_prefix() {
        for (text, told) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/a b/", "s3://bucket/a b"),
            ("https://Host:443/models/", "https://host/models"),
            ("http://h", "http://h"),
        ] {
            assert_eq!(Origin::parse(text).unwrap().to_string(), told);
        }
        for text in ["s3://", "s3:///x", "ftp://h/", "/models", "https://h/x?signature=1"] {
            assert!(Origin::parse(text).is_err(), "{text}");
        }
    }
}
