//! What can go wrong, with the file or the tensor it is about.

use std::io;
use std::path::PathBuf;

use crate::format::Malformed;
use crate::format::layout::Unwritable;
use crate::format::name::Name;
use crate::format::record::HashKind;
use crate::location::Location;
use crate::remote::Fault;
use crate::remote::url::BadUrl;
use crate::seal::KeyError;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("cannot read {place}")]
    Read {
        /// Which file.
        place: Location,
        /// What the system said.
        source: io::Error,
    },
    /// The object behind a URL cannot be had.
    #[error("cannot read {place}")]
    Fetch {
        /// Which object; its URL without the query.
        place: Location,
        /// Why, and what to do.
        source: Box<Fault>,
    },
    /// A location is not one that can be read.
    #[error("this is no place to read from")]
    Place(#[from] BadUrl),
    /// The file cannot be written. Nothing is left of it, and what had its name is still there.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The object behind a URL cannot be written. Of what was sent nothing is there.
    #[error("cannot write {place}")]
    Send {
        /// Which object; its URL without the query.
        place: Location,
        /// Why, and what to do.
        source: Box<Fault>,
    },
    /// The file's head or index is not as its format says.
    #[error("{place} is no whole model")]
    Malformed {
        /// Which file.
        place: Location,
        /// What is wrong, and where.
        source: Malformed,
    },
    /// There is no memory for what is wanted.
    #[error("there is no memory for {bytes} bytes")]
    Memory {
        /// How much is needed.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A tensor is not what was written.
    #[error("tensor {tensor}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What is wrong with it.
        source: Flaw,
    },
    /// The file is encrypted, and there was no key.
    #[error("{place} is encrypted: a key or a passphrase is needed")]
    Locked {
        /// Which file.
        place: Location,
    },
    /// There was a key for a file that is not encrypted: whoever gives one relies on it.
    #[error("{place} is not encrypted, and a key was given")]
    NotLocked {
        /// Which file.
        place: Location,
    },
    /// The file is encrypted, and is to be encrypted once more.
    #[error("{place} is encrypted already: decrypt it first")]
    Twice {
        /// Which file.
        place: Location,
    },
    /// There is no key.
    #[error("{place} cannot be opened")]
    Key {
        /// Which file.
        place: Location,
        /// Why.
        source: KeyError,
    },
    /// A tensor does not fit the format.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// Nothing has this name.
    #[error("{place} has no tensor {tensor}")]
    NoTensor {
        /// Which file.
        place: Location,
        /// The name.
        tensor: String,
    },
}

/// What is wrong with one tensor.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// Its record is not as the format or the index says.
    #[error("its record is damaged")]
    Record(#[from] Malformed),
    /// Its bytes hash to something else.
    #[error("its {0} is another: bytes of it were changed")]
    Hash(HashKind),
    /// A piece of it is not what was sealed with this key.
    #[error("it cannot be decrypted: the key is another, or bytes of it were changed")]
    Sealed,
    /// It is another than when its hashes were made.
    #[error("it was changed while it was written: write it again")]
    Changed,
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// Its source has another length than its shape and type make.
    #[error("{got} bytes are there, its shape and type make {want}")]
    Length {
        /// Bytes that came.
        got: u64,
        /// Bytes that should have come.
        want: u64,
    },
}

impl Flaw {
    /// As the error of a tensor.
    pub(crate) fn of(self, tensor: &Name) -> Error {
        Error::Tensor { tensor: tensor.shown(), source: self }
    }
}
