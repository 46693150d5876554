//! Where a model is written: a file of this machine, or what a URL names.

use std::path::{Path, PathBuf};

use super::target::Target;
use super::upload::Upload;
use crate::error::Error;
use crate::location::{Kind, Location};
use crate::remote::{Fault, Remote, Store};

/// See the module. A path is one, and so is a location with how it is reached.
#[derive(Clone, Copy)]
pub enum Destination<'a> {
    /// A file.
    File(&'a Path),
    /// A file, an `s3://` object, or an `http(s)://` URL that takes a PUT (a presigned one, WebDAV).
    At(&'a Location, &'a Remote),
}

impl<'a> From<&'a Path> for Destination<'a> {
    fn from(path: &'a Path) -> Self {
        Self::File(path)
    }
}

impl<'a> From<&'a PathBuf> for Destination<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Self::File(path)
    }
}

impl Destination<'_> {
    /// As errors name it.
    pub(super) fn place(&self) -> Location {
        match self {
            Self::File(path) => Location::file(*path),
            Self::At(location, _) => (*location).clone(),
        }
    }
}

/// A destination that was reached.
pub(super) enum Out {
    File(Target),
    /// Takes parts beside each other.
    Parts(Upload),
    /// Takes everything in its order.
    Whole(Store, Location),
}

impl Out {
    /// Gets ready to take so many bytes.
    pub(super) fn open(to: Destination<'_>, len: u64) -> Result<Self, Error> {
        let (location, remote) = match to {
            Destination::File(path) => return Target::create(path, len).map(Self::File),
            Destination::At(location, remote) => (location, remote),
        };
        match location.kind() {
            Kind::File(path) => Target::create(path, len).map(Self::File),
            Kind::S3(_) => {
                let store = bucket(location, remote)?;
                Ok(Self::Parts(Upload::new(store, location, Some(len))))
            }
            Kind::Http(url) => Ok(Self::Whole(Store::http(url, remote), location.clone())),
        }
    }
}

/// The store of an `s3://` location.
pub(super) fn bucket(location: &Location, remote: &Remote) -> Result<Store, Error> {
    let failed = |fault| Error::Send { place: location.clone(), source: Box::new(fault) };
    let Kind::S3(address) = location.kind() else { return Err(failed(Fault::Parts)) };
    let ready = remote.s3.ready(address, &|name| std::env::var_os(name)).map_err(failed)?;
    Ok(Store::s3(ready, remote))
}
