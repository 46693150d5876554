//! Where a model's bytes come from: the seam between what is read and how it is reached.
//!
//! A source gives bytes by offset, one after the other, or many ranges at once into memory that
//! nobody shares. It knows nothing of tensors. [`local`](crate::local) and
//! [`remote`](crate::remote) are the two that exist; neither knows the other, and only [`open`] both.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::ops::Range;

use crate::error::Error;
use crate::local::{Access, Local};
use crate::location::{Kind, Location};
use crate::plan::{Part, Read};
use crate::remote::{FRONT, Fault, Object, Remote, Traffic};

/// Bytes that are to be filled, from an offset on.
pub(crate) type Piece<'m> = (u64, &'m mut [u8]);

/// How ranges are filled.
pub(crate) struct How<'a> {
    /// Threads, or connections, at most; without it as many as are worth having.
    pub(crate) threads: Option<NonZero<usize>>,
    /// Of local files: through the page cache or past it.
    pub(crate) access: Access,
    /// Called with the bytes of every read that is done.
    pub(crate) progress: &'a (dyn Fn(u64) + Sync),
}

/// Why bytes could not be had.
#[derive(Debug)]
pub(crate) enum Unread {
    /// What the system said of a file.
    File(io::Error),
    /// What became of a request.
    Remote(Fault),
}

impl Unread {
    /// As the error of a whole model.
    pub(crate) fn of(self, place: &Location) -> Error {
        match self {
            Self::File(source) => Error::Read { place: place.clone(), source },
            Self::Remote(fault) => Error::Fetch { place: place.clone(), source: Box::new(fault) },
        }
    }
}

/// A range that is read from its beginning to its end.
pub(crate) trait Bytes {
    /// Fills this with the next bytes of the range.
    fn next(&mut self, into: &mut [u8]) -> Result<(), Unread>;
}

/// See the module.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Bytes of the whole.
    fn len(&self) -> u64;

    /// Bytes of a read that is worth its cost.
    fn read_size(&self) -> u64;

    /// Ranges that are worth reading beside each other by [`Source::bytes`].
    fn streams(&self) -> usize;

    /// A range, to be read in pieces.
    fn bytes(&self, range: Range<u64>) -> Box<dyn Bytes + '_>;

    /// Does reads into the memory of each. Which of them is first is not said.
    fn fill(&self, jobs: Vec<Vec<Piece<'_>>>, how: &How<'_>) -> Result<(), Unread>;

    /// Told which small ranges will be asked for one by one, so that their round trips need not be
    /// waited for one by one.
    fn expect(&self, _ranges: &[Range<u64>]) -> Result<(), Unread> {
        Ok(())
    }

    /// What it took so far, if it went over a network.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// One range at once.
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<(), Unread> {
        self.bytes(at..at + into.len() as u64).next(into)
    }
}

/// The source of what lies there.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn open(place: &Location, how: &Remote) -> Result<Box<dyn Source>, Error> {
    let opened = match place.kind() {
        Kind::File(path) => {
            let local = Local::open(path).map_err(|error| Unread::File(error).of(place))?;
            return Ok(Box::new(local));
        }
        Kind::Http(url) => Object::http(url, how, FRONT),
        Kind::S3(address) => how
            .s3
            .ready(address, &|name| std::env::var_os(name))
            .and_then(|ready| Object::s3(ready, how, FRONT)),
    };
    Ok(Box::new(opened.map_err(|fault| Unread::Remote(fault).of(place))?))
}

/// The memory of every read, which nobody shares.
pub(crate) fn split<'m>(reads: &[Read], memory: &'m mut [u8]) -> Vec<Vec<Piece<'m>>> {
    let (mut rest, mut at) = (memory, 0_u64);
    let mut cut = |from: u64, len: u64| {
        let skip = usize::try_from(from - at).unwrap_or(usize::MAX);
        let (_, behind) = std::mem::take(&mut rest).split_at_mut(skip);
        let (piece, behind) = behind.split_at_mut(usize::try_from(len).unwrap_or(usize::MAX));
        (rest, at) = (behind, from + len);
        piece
    };
    let mut piece =
        |part: &Part| (part.file.start, cut(part.memory, part.file.end - part.file.start));
    reads.iter().map(|read| read.iter().map(&mut piece).collect()).collect()
}
