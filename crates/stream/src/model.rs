//! A model, opened: which tensors it has and where, their records and their plain bytes.
//!
//! Opening reads the head and the index and nothing else. What a [`Model`] says of its tensors was
//! checked against the file's length. Where the bytes come from it does not know: that is its
//! [`Source`]'s.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Flaw};
use crate::format::dtype::Dtype;
use crate::format::head::{self, Head, MAGIC};
use crate::format::index::{self, Entry};
use crate::format::layout::{PIECE, Spec};
use crate::format::name::Name;
use crate::format::record::{HashKind, Hashers, Record};
use crate::format::{Kind, Malformed, safetensors};
use crate::location::Location;
use crate::remote::{Remote, Traffic};
use crate::seal::{self, Key, Keys, Secret};
use crate::source::{self, Source, Unread};

/// In which format a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// tensorizer's, in a version of 1 to 5.
    Tensorizer {
        /// What a reader must know.
        version: u32,
        /// Whether its data is encrypted.
        encrypted: bool,
    },
    /// safetensors.
    Safetensors,
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor(pub(crate) Entry);

impl Tensor {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// What it is to its module.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The type of its elements.
    pub fn dtype(&self) -> &Dtype {
        &self.0.dtype
    }

    /// Its dimensions, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.0.shape
    }

    /// Bytes of its data.
    pub fn data_len(&self) -> u64 {
        self.0.len
    }

    /// Where its data begins in the file, in bytes.
    pub fn data_offset(&self) -> u64 {
        self.0.data
    }

    /// Whether it has a shape and no data. Official readers make zeros of it; what its zeros would
    /// take is the file's word alone, so nothing is allocated for it here.
    pub fn is_meta(&self) -> bool {
        self.0.is_meta()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Model {
    pub(crate) place: Location,
    pub(crate) source: Box<dyn Source>,
    format: Format,
    metadata: BTreeMap<String, String>,
    tensors: Vec<Tensor>,
    names: HashMap<String, usize>,
}

impl Model {
    /// Opens a file of either format, which its first bytes tell.
    ///
    /// # Errors
    /// If it cannot be read, or is not as its format says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_at(&Location::file(path), &Remote::default())
    }

    /// Opens a model wherever it lies. Of a file, how to reach it says nothing.
    ///
    /// # Errors
    /// If it cannot be read, or is not as its format says.
    pub fn open_at(place: &Location, how: &Remote) -> Result<Self, Error> {
        Self::of(place.clone(), source::open(place, how)?)
    }

    fn of(place: Location, source: Box<dyn Source>) -> Result<Self, Error> {
        let len = source.len();
        let malformed = |source| Error::Malformed { place: place.clone(), source };
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
            let read = source.read_exact_at(&mut bytes, range.start);
            read.map(|()| bytes).map_err(|unread| unread.of(&place))
        };
        let first = read(0..len.min(head::LEN as u64))?;
        let (format, entries, metadata) = if first.starts_with(&MAGIC) {
            let head = Head::parse(&first).map_err(malformed)?;
            let index = read(index_range(&head, len).map_err(malformed)?)?;
            let entries = index::parse(&head, &index, len).map_err(malformed)?;
            let format = Format::Tensorizer { version: head.version, encrypted: head.encrypted };
            (format, entries, BTreeMap::new())
        } else {
            let json = read(safetensors_range(&first, len).map_err(malformed)?)?;
            let header = safetensors::parse(&json, len).map_err(malformed)?;
            (Format::Safetensors, header.entries, header.metadata)
        };
        let tensors: Vec<Tensor> = entries.into_iter().map(Tensor).collect();
        let named = |(nth, tensor): (usize, &Tensor)| (tensor.name().to_string(), nth);
        let names = tensors.iter().enumerate().rev().map(named).collect();
        Ok(Self { place, source, format, metadata, tensors, names })
    }

    /// Where it lies.
    pub fn place(&self) -> &Location {
        &self.place
    }

    /// What reading it took so far, if it lies behind a URL.
    pub fn traffic(&self) -> Option<Traffic> {
        self.source.traffic()
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        self.source.len()
    }

    /// What a safetensors file says of itself; empty for others.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Bytes of all tensors.
    pub fn data_len(&self) -> u64 {
        self.tensors.iter().map(Tensor::data_len).sum()
    }

    /// The place of a tensor among the others, by its name as it is displayed.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<usize, Error> {
        let none = || Error::NoTensor { place: self.place.clone(), tensor: name.to_owned() };
        self.names.get(name).copied().ok_or_else(none)
    }

    /// The hashes that a tensor carries.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn hashes(&self, nth: usize) -> Result<Vec<HashKind>, Error> {
        Ok(self.record(nth)?.map(|record| record.hashes()).unwrap_or_default())
    }

    /// The place of a tensor's module among the modules of what was written; 0 in a state dict.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn module(&self, nth: usize) -> Result<u16, Error> {
        Ok(self.record(nth)?.map_or(0, |record| record.module))
    }

    /// The hashes that every tensor carries, in the order of the file.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn all_hashes(&self) -> Result<Vec<Vec<HashKind>>, Error> {
        self.expect_records(0..self.tensors.len())?;
        (0..self.tensors.len()).map(|nth| self.hashes(nth)).collect()
    }

    /// One tensor by itself, read when it is asked for.
    ///
    /// # Errors
    /// If it cannot be read or decrypted, or its bytes are not those that were written.
    pub fn read(&self, nth: usize, secret: Option<&Secret>) -> Result<Vec<u8>, Error> {
        let keys = self.keys(secret)?;
        let mut bytes = Vec::new();
        self.pieces(nth, keys.as_ref(), Check::All, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.format, Format::Tensorizer { encrypted: true, .. })
    }

    /// What would write this tensor again.
    pub(crate) fn spec(&self, nth: usize) -> Result<Spec, Error> {
        let Entry { name, kind, dtype, shape, .. } = self.tensors[nth].0.clone();
        let module = self.module(nth)?;
        let meta = self.tensors[nth].is_meta();
        Ok(Spec { name, kind, module, dtype, shape, meta })
    }

    /// The keys of a secret, if there is one exactly where the file is encrypted.
    pub(crate) fn keys<'s>(&self, secret: Option<&'s Secret>) -> Result<Option<Keys<'s>>, Error> {
        match (self.is_encrypted(), secret) {
            (true, None) => Err(Error::Locked { place: self.place.clone() }),
            (false, Some(_)) => Err(Error::NotLocked { place: self.place.clone() }),
            (_, secret) => Ok(secret.map(Keys::new)),
        }
    }

    /// The record of a tensor; `None` in a format without records.
    pub(crate) fn record(&self, nth: usize) -> Result<Option<Record>, Error> {
        if self.format == Format::Safetensors {
            return Ok(None);
        }
        let entry = &self.tensors[nth].0;
        let range = entry.header..entry.data;
        if let Some(what) = too_long(entry) {
            let wrong = Malformed::new(entry.header, "header size", what);
            return Err(Flaw::from(wrong).of(&entry.name));
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
        let read = self.source.read_exact_at(&mut bytes, range.start);
        read.map_err(|unread| self.unread(unread, entry))?;
        let record = Record::parse(&bytes, entry, self.is_encrypted());
        Ok(Some(record.map_err(|wrong| Flaw::from(wrong).of(&entry.name))?))
    }

    /// Says that the records of these tensors will be read.
    pub(crate) fn expect_records(&self, nths: impl Iterator<Item = usize>) -> Result<(), Error> {
        if self.format == Format::Safetensors {
            return Ok(());
        }
        let entries = nths.map(|nth| &self.tensors[nth].0);
        let sound = entries.filter(|entry| too_long(entry).is_none());
        let ranges: Vec<Range<u64>> = sound.map(|entry| entry.header..entry.data).collect();
        self.source.expect(&ranges).map_err(|unread| unread.of(&self.place))
    }

    /// That a tensor's bytes could not be had. An object that cannot be reached says nothing of the
    /// tensor.
    fn unread(&self, unread: Unread, entry: &Entry) -> Error {
        match unread {
            Unread::File(error) => Flaw::Read(error).of(&entry.name),
            remote @ Unread::Remote(_) => remote.of(&self.place),
        }
    }

    /// The key that a record's data was sealed with.
    pub(crate) fn key(&self, keys: &Keys<'_>, record: &Record) -> Result<Key, Error> {
        let derivation = record.crypt.as_ref().and_then(|crypt| crypt.derivation.as_ref());
        keys.of(derivation).map_err(|source| Error::Key { place: self.place.clone(), source })
    }

    /// The plain bytes of a tensor in pieces, one after the other, while they are checked. Pieces
    /// have [`PIECE`] bytes, the last aside, unless the file was sealed in others.
    pub(crate) fn pieces(
        &self,
        nth: usize,
        keys: Option<&Keys<'_>>,
        check: Check,
        take: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entry = &self.tensors[nth].0;
        let record = self.record(nth)?;
        let crypt = record.as_ref().and_then(|record| record.crypt.as_ref());
        let boxes = crypt.and_then(|crypt| crypt.boxes.as_ref());
        let key = match (record.as_ref().filter(|_| boxes.is_some()), keys) {
            (Some(record), Some(keys)) => Some(self.key(keys, record)?),
            _ => None,
        };
        let mut checker = record.as_ref().map(|record| Checker::new(record, check));
        let size = boxes.map_or(PIECE, |boxes| boxes.piece);
        let mut buffer = vec![0; usize::try_from(size.min(entry.len)).unwrap_or_default()];
        let mut bytes = self.source.bytes(entry.data..entry.data + entry.len);
        let mut at = 0;
        for number in 0..entry.len.div_ceil(size) {
            let here = size.min(entry.len - at);
            let piece = &mut buffer[..usize::try_from(here).unwrap_or_default()];
            bytes.next(piece).map_err(|unread| self.unread(unread, entry))?;
            if let (Some(boxes), Some(key)) = (boxes, &key) {
                let mac = &boxes.macs[usize::try_from(number).unwrap_or_default()];
                if !seal::open(key, &boxes.nonce(number), mac, piece) {
                    return Err(Flaw::Sealed.of(&entry.name));
                }
            }
            if let Some(checker) = &mut checker {
                checker.update(piece);
            }
            take(piece)?;
            at += here;
        }
        checker.map_or(Ok(()), Checker::finish).map_err(|flaw| flaw.of(&entry.name))
    }
}

/// Which of a tensor's hashes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Every one.
    All,
    /// The cheapest one that is there; none where a tag already vouches for the bytes.
    Cheapest,
}

/// Compares hashes with what a record says, as the bytes go by.
pub(crate) struct Checker<'r> {
    record: &'r Record,
    hashers: Hashers,
}

impl<'r> Checker<'r> {
    pub(crate) fn new(record: &'r Record, check: Check) -> Self {
        let (crc, sha) = (record.crc.is_some(), record.sha.is_some());
        let boxed = record.crypt.as_ref().is_some_and(|crypt| crypt.boxes.is_some());
        let mut hashers = match check {
            Check::All => Hashers::new(crc, sha),
            Check::Cheapest => Hashers::new(crc && !boxed, sha && !crc && !boxed),
        };
        hashers.update(&record.preimage);
        Self { record, hashers }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hashers.update(bytes);
    }

    /// Goes on with two, each with bytes of its own.
    pub(crate) fn update_both(a: &mut Self, of_a: &[u8], b: &mut Self, of_b: &[u8]) {
        Hashers::update_both(&mut a.hashers, of_a, &mut b.hashers, of_b);
    }

    pub(crate) fn finish(self) -> Result<(), Flaw> {
        let (crc, sha) = self.hashers.finish();
        if crc.is_some() && crc != self.record.crc {
            return Err(Flaw::Hash(HashKind::Crc32));
        }
        if sha.is_some() && sha != self.record.sha {
            return Err(Flaw::Hash(HashKind::Sha256));
        }
        Ok(())
    }
}

/// What is wrong with the length of a record's header, if it is longer than names, shapes, a tag for
/// every kilobyte and a page of padding make it.
fn too_long(entry: &Entry) -> Option<String> {
    let len = entry.data - entry.header;
    let wrong = len > (1 << 20) + entry.len / 32;
    wrong.then(|| format!("is {len} bytes for {} bytes of data", entry.len))
}

/// Where the index lies.
fn index_range(head: &Head, file_len: u64) -> Result<Range<u64>, Malformed> {
    let start = head::LEN as u64;
    let left = file_len.saturating_sub(start);
    if head.index_len > left {
        let what = format!("is {}; {left} bytes are left: it is truncated", head.index_len);
        return Err(Malformed::new(65, "index length", what));
    }
    Ok(start..start + head.index_len)
}

/// Where the header of a safetensors file lies, by its first bytes.
fn safetensors_range(first: &[u8], file_len: u64) -> Result<Range<u64>, Malformed> {
    let len = first.first_chunk::<8>().copied();
    // An object begins with a brace; anything else is neither format.
    let Some(len) = len.filter(|_| first.get(8) == Some(&b'{')) else {
        let what = "is neither |TZR| nor the length of a JSON object: this is no model";
        return Err(Malformed::new(0, "magic", what));
    };
    Ok(8..8 + safetensors::header_len(len, file_len)?)
}
