//! Where a model lies: a file of this machine, or an object behind a URL.
//!
//! What is displayed never has a URL's query, where presigned URLs carry their signature.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::remote::url::{BadUrl, Url};
use crate::s3::Address;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Location(Arc<Kind>);

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File(PathBuf),
    Http(Url),
    S3(Address),
}

impl Location {
    /// Reads a location as people write it: `http://`, `https://` or `s3://BUCKET/KEY`, and anything
    /// else is a path. Other schemes (`ftp://`) are refused rather than taken for a path.
    ///
    /// # Errors
    /// If it is a URL that cannot be used: credentials in it, a host or a port that is none, a bucket
    /// without a key.
    pub fn parse(text: &OsStr) -> Result<Self, BadUrl> {
        let file = || Ok(Self::file(text));
        let Some((text, (scheme, rest))) =
            text.to_str().and_then(|text| Some((text, text.split_once("://")?)))
        else {
            return file();
        };
        if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            return file();
        }
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Self(Arc::new(Kind::Http(Url::parse(text)?)))),
            "s3" => Ok(Self(Arc::new(Kind::S3(Address::parse(rest)?)))),
            other => Err(BadUrl::Scheme { scheme: other.to_owned() }),
        }
    }

    /// A file, whatever its name looks like.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Kind::File(path.into())))
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// What its name ends with, behind the last dot: of a URL that of its path.
    pub fn extension(&self) -> Option<&str> {
        let name = match self.kind() {
            Kind::File(path) => return path.extension()?.to_str(),
            Kind::Http(url) => &url.path,
            Kind::S3(address) => address.key(),
        };
        Path::new(name).extension()?.to_str()
    }

    /// The path, of a file.
    pub fn as_path(&self) -> Option<&Path> {
        match self.kind() {
            Kind::File(path) => Some(path),
            Kind::Http(_) | Kind::S3(_) => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::File(path) => path.display().fmt(out),
            Kind::Http(url) => url.fmt(out),
            Kind::S3(address) => address.fmt(out),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_path_unless_it_is_a_url() {
        for path in ["model.tensors", "/a/b", "http:/x", "./http://x", "s3:bucket", ""] {
            assert_eq!(Location::parse(OsStr::new(path)).unwrap(), Location::file(path), "{path}");
        }
        for url in ["http://h/a", "HTTPS://h:1/a", "s3://bucket/key"] {
            assert!(Location::parse(OsStr::new(url)).unwrap().as_path().is_none(), "{url}");
        }
        let refused = Location::parse(OsStr::new("ftp://host/model")).unwrap_err();
        assert!(refused.to_string().contains("ftp"), "{refused}");
    }

    #[test]
    fn a_signature_is_not_told() {
        let text = "https://h/model.tensors?X-Amz-Signature=5ec7e7";
        let location = Location::parse(OsStr::new(text)).unwrap();
        for told in [format!("{location}"), format!("{location:?}")] {
            assert_eq!(told, "https://h/model.tensors?...");
        }
    }
}
