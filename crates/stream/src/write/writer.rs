//! Writes a model whose tensors come one after the other, without holding it in memory.
//!
//! The index stands before the data and grows with it. So room for it is left, as much as the official
//! writer leaves; where that is not enough, what was written is moved up, by more each time. Nothing in
//! a record knows where it lies. Who has all tensors at once takes [`write()`](super::write()).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::target::Target;
use super::{HASHES, Slices, Written, records};
use crate::error::Error;
use crate::format::crypt::Derivation;
use crate::format::head;
use crate::format::index::{self, Entry};
use crate::format::layout::{self, ALIGN, Checks, LEGACY_INDEX, Layout, Placed, Sealed, Spec};
use crate::location::Location;
use crate::seal::{Key, KeyError, Keys, Secret, fresh};

/// Bytes that are moved at a time.
const STEP: u64 = 8 << 20;

/// See the module. What is dropped unfinished leaves no file.
pub struct Writer {
    target: Target,
    layout: Layout,
    seal: Option<(Key, Option<Derivation>)>,
    checks: Checks,
    entries: Vec<Entry>,
    /// Bytes that the index takes, were it the longer of its two forms.
    index: u64,
    /// Bytes that are left for it.
    room: u64,
    /// Where the next record begins.
    at: u64,
}

impl Writer {
    /// A file that appears when it is finished.
    ///
    /// # Errors
    /// If it cannot be made, or there is no key.
    pub fn create(path: &Path, layout: Layout, secret: Option<&Secret>) -> Result<Self, Error> {
        Self::new(Target::create(path, 0)?, path, layout, secret)
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
        Self::new(Target::over(file, path), path, layout, secret)
    }

    fn new(
        target: Target,
        path: &Path,
        layout: Layout,
        secret: Option<&Secret>,
    ) -> Result<Self, Error> {
        let key = |secret: &Secret| -> Result<_, KeyError> {
            let derivation = secret.derivation()?;
            Ok((Keys::new(secret).of(derivation.as_ref())?, derivation))
        };
        let no_key = |source| Error::Key { place: Location::file(path), source };
        let seal = secret.map(key).transpose().map_err(no_key)?;
        let (room, at) = (LEGACY_INDEX, head::LEN as u64 + LEGACY_INDEX);
        let (checks, entries) = (Checks::default(), Vec::new());
        Ok(Self { target, layout, seal, checks, entries, index: 0, room, at })
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
        if self.index > self.room {
            self.make_room()?;
        }
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
        records(&self.target, &specs, &placed, key, &Slices(tensors), &|_| {})?;
        self.entries.extend(placed.into_iter().map(|placed| placed.entry));
        Ok(())
    }

    /// Writes head and index, and gives the file its name once it is on the disk.
    ///
    /// # Errors
    /// If the file cannot be written; of one that was to appear nothing is left then.
    pub fn finish(self) -> Result<Written, Error> {
        let front = layout::front(&self.entries, self.seal.is_some(), self.room);
        self.target.put(&front, 0)?;
        // A record without a length ends the file.
        let file_len = self.at + 8;
        self.target.put(&[0; 8], self.at)?;
        self.target.file().set_len(file_len).map_err(|error| self.target.failed(error))?;
        self.target.publish()?;
        Ok(Written { file_len, tensors: self.entries.len() })
    }

    /// Moves all records up, so that the index has twice the room it needs.
    fn make_room(&mut self) -> Result<(), Error> {
        let by = (2 * self.index - self.room).next_multiple_of(ALIGN);
        let start = head::LEN as u64 + self.room;
        let file = self.target.file();
        let mut piece = vec![0; STEP as usize];
        let mut end = self.at;
        while end > start {
            let here = STEP.min(end - start);
            let piece = &mut piece[..here as usize];
            end -= here;
            file.read_exact_at(piece, end).map_err(|error| self.target.failed(error))?;
            self.target.put(piece, end + by)?;
        }
        for entry in &mut self.entries {
            entry.header += by;
            entry.data += by;
        }
        self.room += by;
        self.at += by;
        Ok(())
    }

    fn no_key(&self, source: KeyError) -> Error {
        Error::Key { place: Location::file(self.target.path()), source }
    }
}
