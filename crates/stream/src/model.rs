//! A model's file, opened: which tensors it has and where, their records and their plain bytes.
//!
//! Opening reads the head and the index and nothing else. What a [`Model`] says of its tensors was
//! checked against the file's length.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Flaw};
use crate::format::dtype::Dtype;
use crate::format::head::{self, Head, MAGIC};
use crate::format::index::{self, Entry};
use crate::format::layout::{PIECE, Spec};
use crate::format::name::Name;
use crate::format::record::{HashKind, Hashers, Record};
use crate::format::{Kind, Malformed, safetensors};
use crate::seal::{self, Key, Keys, Secret};

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
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) len: u64,
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
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if meta.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        let len = meta.len();
        let malformed = |source| Error::Malformed { path: path.to_owned(), source };
        let mut first = vec![0; usize::try_from(len).map_or(head::LEN, |len| len.min(head::LEN))];
        file.read_exact_at(&mut first, 0).map_err(unreadable)?;
        let (format, entries, metadata) = if first.starts_with(&MAGIC) {
            let head = Head::parse(&first).map_err(malformed)?;
            let index = index_bytes(&file, &head, len, path)?;
            let entries = index::parse(&head, &index, len).map_err(malformed)?;
            let format = Format::Tensorizer { version: head.version, encrypted: head.encrypted };
            (format, entries, BTreeMap::new())
        } else {
            let header = safetensors_header(&file, &first, len, path)?;
            (Format::Safetensors, header.entries, header.metadata)
        };
        let tensors: Vec<Tensor> = entries.into_iter().map(Tensor).collect();
        let named = |(nth, tensor): (usize, &Tensor)| (tensor.name().to_string(), nth);
        let names = tensors.iter().enumerate().rev().map(named).collect();
        Ok(Self { path: path.to_owned(), file, len, format, metadata, tensors, names })
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        self.len
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
        let none = || Error::NoTensor { path: self.path.clone(), tensor: name.to_owned() };
        self.names.get(name).copied().ok_or_else(none)
    }

    /// The hashes that a tensor carries.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn hashes(&self, nth: usize) -> Result<Vec<HashKind>, Error> {
        Ok(self.record(nth)?.map(|record| record.hashes()).unwrap_or_default())
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
        let module = self.record(nth)?.map_or(0, |record| record.module);
        let meta = self.tensors[nth].is_meta();
        Ok(Spec { name, kind, module, dtype, shape, meta })
    }

    /// The keys of a secret, if there is one exactly where the file is encrypted.
    pub(crate) fn keys<'s>(&self, secret: Option<&'s Secret>) -> Result<Option<Keys<'s>>, Error> {
        match (self.is_encrypted(), secret) {
            (true, None) => Err(Error::Locked { path: self.path.clone() }),
            (false, Some(_)) => Err(Error::NotLocked { path: self.path.clone() }),
            (_, secret) => Ok(secret.map(Keys::new)),
        }
    }

    /// The record of a tensor; `None` in a format without records.
    pub(crate) fn record(&self, nth: usize) -> Result<Option<Record>, Error> {
        if self.format == Format::Safetensors {
            return Ok(None);
        }
        let entry = &self.tensors[nth].0;
        let len = entry.data - entry.header;
        // Names, shapes, a tag for every kilobyte, a page of padding.
        if len > (1 << 20) + entry.len / 32 {
            let what = format!("is {len} bytes for {} bytes of data", entry.len);
            let wrong = Malformed::new(entry.header, "header size", what);
            return Err(Flaw::from(wrong).of(&entry.name));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let read = self.file.read_exact_at(&mut bytes, entry.header);
        read.map_err(|error| Flaw::Read(error).of(&entry.name))?;
        let record = Record::parse(&bytes, entry, self.is_encrypted());
        Ok(Some(record.map_err(|wrong| Flaw::from(wrong).of(&entry.name))?))
    }

    /// The key that a record's data was sealed with.
    pub(crate) fn key(&self, keys: &Keys<'_>, record: &Record) -> Result<Key, Error> {
        let derivation = record.crypt.as_ref().and_then(|crypt| crypt.derivation.as_ref());
        keys.of(derivation).map_err(|source| Error::Key { path: self.path.clone(), source })
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
        let mut at = 0;
        for number in 0..entry.len.div_ceil(size) {
            let here = size.min(entry.len - at);
            let piece = &mut buffer[..usize::try_from(here).unwrap_or_default()];
            let read = self.file.read_exact_at(piece, entry.data + at);
            read.map_err(|error| Flaw::Read(error).of(&entry.name))?;
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

fn index_bytes(file: &File, head: &Head, file_len: u64, path: &Path) -> Result<Vec<u8>, Error> {
    let left = file_len.saturating_sub(head::LEN as u64);
    if head.index_len > left {
        let what = format!("is {}; {left} bytes are left: it is truncated", head.index_len);
        let source = Malformed::new(65, "index length", what);
        return Err(Error::Malformed { path: path.to_owned(), source });
    }
    let mut bytes = vec![0; usize::try_from(head.index_len).unwrap_or_default()];
    let read = file.read_exact_at(&mut bytes, head::LEN as u64);
    read.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

fn safetensors_header(
    file: &File,
    first: &[u8],
    file_len: u64,
    path: &Path,
) -> Result<safetensors::Header, Error> {
    let malformed = |source| Error::Malformed { path: path.to_owned(), source };
    let len = first.first_chunk::<8>().copied();
    // An object begins with a brace; anything else is neither format.
    let Some(len) = len.filter(|_| first.get(8) == Some(&b'{')) else {
        let what = "is neither |TZR| nor the length of a JSON object: this is no model";
        return Err(malformed(Malformed::new(0, "magic", what)));
    };
    let len = safetensors::header_len(len, file_len).map_err(malformed)?;
    let mut json = vec![0; usize::try_from(len).unwrap_or_default()];
    let read = file.read_exact_at(&mut json, 8);
    read.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    safetensors::parse(&json, file_len).map_err(malformed)
}
