//! Writes a model whose tensors come one after the other, without holding it in memory.
//!
//! The index stands before the data and grows with it. In a file, room for it is left, as much as the
//! official writer leaves; where that is not enough, what was written is moved up, by more each time. To
//! S3 the first part goes last, with an index in front of it. Nothing in a record knows where it lies.
//! Who has all tensors at once takes [`write()`](super::write()).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::destination::{Destination, bucket};
use super::target::Target;
use super::upload::Upload;
use super::{Batch, HASHES, Places, Sink, Slices, Written};
use crate::error::Error;
use crate::format::crypt::Derivation;
use crate::format::head;
use crate::format::index::{self, Entry};
use crate::format::layout::{self, ALIGN, Checks, LEGACY_INDEX, Layout, Placed, Sealed, Spec};
use crate::location::Location;
use crate::seal::{Key, KeyError, Keys, Secret, fresh};

/// Bytes that are moved at a time.
const STEP: u64 = 8 << 20;

/// See the module. What is dropped unfinished leaves nothing.
pub struct Writer {
    out: Out,
    place: Location,
    layout: Layout,
    seal: Option<(Key, Option<Derivation>)>,
    checks: Checks,
    entries: Vec<Entry>,
    /// Bytes that the index takes, were it the longer of its two forms.
    index: u64,
    /// Where the next record begins: in a file, or among the records of what is sent.
    at: u64,
}

enum Out {
    File {
        target: Target,
        /// Bytes that are left for the index.
        room: u64,
    },
    Parts(Box<Upload>),
}

impl Writer {
    /// A file, or an object of S3, that appears when it is finished. Other URLs take a model only
    /// whole.
    ///
    /// # Errors
    /// If it cannot be made, or there is no key.
    pub fn create<'a>(
        to: impl Into<Destination<'a>>,
        layout: Layout,
        secret: Option<&Secret>,
    ) -> Result<Self, Error> {
        let to = to.into();
        let place = to.place();
        let out = match to {
            Destination::File(path) => Out::file(Target::create(path, 0)?),
            Destination::At(location, remote) => match location.as_path() {
                Some(path) => Out::file(Target::create(path, 0)?),
                None => {
                    let upload = Upload::new(bucket(location, remote)?, location, None);
                    Out::Parts(Box::new(upload))
                }
            },
        };
        Self::new(out, place, layout, secret)
    }

    /// A file that is open for reading and writing, from its beginning. It is the caller's: if writing
    /// fails, a half of it is left. The path is for errors.
    ///
    /// # Errors
    /// If there is no key.
    pub fn over(
        file: File,
        path: &Path,
        layout: Layout,
        secret: Option<&Secret>,
    ) -> Result<Self, Error> {
        let out = Out::file(Target::over(file, path));
        Self::new(out, Location::file(path), layout, secret)
    }

    fn new(
        out: Out,
        place: Location,
        layout: Layout,
        secret: Option<&Secret>,
    ) -> Result<Self, Error> {
        let key = |secret: &Secret| -> Result<_, KeyError> {
            let derivation = secret.derivation()?;
            Ok((Keys::new(secret).of(derivation.as_ref())?, derivation))
        };
        let no_key = |source| Error::Key { place: place.clone(), source };
        let seal = secret.map(key).transpose().map_err(no_key)?;
        let at = match &out {
            Out::File { room, .. } => head::LEN as u64 + room,
            Out::Parts(_) => 0,
        };
        let (checks, entries) = (Checks::default(), Vec::new());
        Ok(Self { out, place, layout, seal, checks, entries, index: 0, at })
    }

    /// Writes these tensors behind those that are there, on all cores. After an error the writer is
    /// good for nothing but to be dropped.
    ///
    /// # Errors
    /// If a tensor does not fit the format or its bytes are not as many as its shape says, or the file
    /// cannot be written.
    pub fn add(&mut self, tensors: &[(Spec, &[u8])]) -> Result<(), Error> {
        let specs: Vec<Spec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
        let mut entries = Vec::with_capacity(specs.len());
        for spec in &specs {
            let entry = self.checks.entry(spec)?;
            self.index += index::bytes(std::slice::from_ref(&entry), true).len() as u64;
            entries.push(entry);
        }
        self.make_room()?;
        let mut placed: Vec<Placed> = Vec::with_capacity(specs.len());
        for (entry, spec) in entries.iter_mut().zip(&specs) {
            entry.header = self.at;
            let sealed = match &self.seal {
                Some((_, derivation)) => {
                    let nonce = fresh().map_err(|source| self.no_key(source))?;
                    Some(Sealed { derivation: derivation.as_ref(), nonce })
                }
                None => None,
            };
            let one = layout::place(entry, spec.module, self.layout, &HASHES, sealed);
            self.at = one.entry.data + one.entry.len;
            placed.push(one);
        }
        let key = self.seal.as_ref().map(|(key, _)| key);
        self.entries.extend(placed.iter().map(|placed| placed.entry.clone()));
        let (places, data) = (Places::Records(placed), Slices(tensors));
        let batch = Batch { specs: &specs, places: &places, key, data: &data, progress: &|_| {} };
        batch.write(self.out.sink())
    }

    /// Writes head and index, and gives the file its name once it is on the disk, or makes what was
    /// sent one object.
    ///
    /// # Errors
    /// If it cannot be written; of what was to appear nothing is left then.
    pub fn finish(mut self) -> Result<Written, Error> {
        // A record without a length ends the file.
        self.out.sink().put(&[0; 8], self.at)?;
        let (tensors, sealed, end) = (self.entries.len(), self.seal.is_some(), self.at + 8);
        let file_len = match self.out {
            Out::File { target, room } => {
                target.put(&layout::front(&self.entries, sealed, room), 0)?;
                target.file().set_len(end).map_err(|error| target.failed(error))?;
                target.publish()?;
                end
            }
            Out::Parts(upload) => {
                // What was aligned among the records stays so behind it.
                let front = (head::LEN as u64 + self.index).next_multiple_of(ALIGN);
                raise(&mut self.entries, front);
                let room = front - head::LEN as u64;
                upload.finish(layout::front(&self.entries, sealed, room), end)?;
                front + end
            }
        };
        Ok(Written { file_len, tensors })
    }

    /// Moves all records of a file up, so that the index has twice the room it needs, if it has too
    /// little.
    fn make_room(&mut self) -> Result<(), Error> {
        let Out::File { target, room } = &mut self.out else { return Ok(()) };
        if self.index <= *room {
            return Ok(());
        }
        let by = (2 * self.index - *room).next_multiple_of(ALIGN);
        let start = head::LEN as u64 + *room;
        let mut piece = vec![0; STEP as usize];
        let mut end = self.at;
        while end > start {
            let here = STEP.min(end - start);
            let piece = &mut piece[..here as usize];
            end -= here;
            target.file().read_exact_at(piece, end).map_err(|error| target.failed(error))?;
            target.put(piece, end + by)?;
        }
        raise(&mut self.entries, by);
        *room += by;
        self.at += by;
        Ok(())
    }

    fn no_key(&self, source: KeyError) -> Error {
        Error::Key { place: self.place.clone(), source }
    }
}

impl Out {
    const fn file(target: Target) -> Self {
        Self::File { target, room: LEGACY_INDEX }
    }

    fn sink(&self) -> &dyn Sink {
        match self {
            Self::File { target, .. } => target,
            Self::Parts(upload) => &**upload,
        }
    }
}

/// Says of records that they lie so many bytes further on.
fn raise(entries: &mut [Entry], by: u64) {
    for entry in entries {
        entry.header += by;
        entry.data += by;
    }
}
