//! Writes models, from memory or from another file, on all cores and never a half file.
//!
//! Where everything goes is known before the first byte, so tensors are hashed, sealed and written
//! beside each other, each header after its data. What is sealed is a copy: no caller's bytes change.

mod convert;
mod target;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;

pub use convert::Convert;
pub use writer::Writer;

use crate::error::{Error, Flaw};
use crate::format::layout::{self, Layout, PIECE, Placed, Sealing, Spec};
use crate::format::record::HashKind;
use crate::format::safetensors;
use crate::location::Location;
use crate::pool;
use crate::seal::{self, Key, Keys, Secret, fresh};
use target::Target;

/// In which form a model is written.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// tensorizer's, with CRC-32 and SHA-256 of every tensor.
    Tensorizer {
        /// How it is laid out.
        layout: Layout,
        /// What it is sealed with, if it is.
        secret: Option<&'a Secret>,
    },
    /// safetensors, which has neither hashes nor encryption.
    Safetensors,
}

/// The hashes of every tensor, in the official writer's order.
const HASHES: [HashKind; 2] = [HashKind::Crc32, HashKind::Sha256];

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub file_len: u64,
    /// Tensors in it.
    pub tensors: usize,
}

/// Where the bytes of tensors come from.
pub(crate) trait Data: Sync {
    /// Tensors that are worth having beside each other.
    fn streams(&self) -> usize {
        pool::cores()
    }

    /// Gives the bytes of a tensor in pieces of [`PIECE`] bytes, the last aside, to be changed at
    /// will.
    fn pieces(
        &self,
        nth: usize,
        take: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

/// Tensors in memory.
struct Slices<'a>(&'a [(Spec, &'a [u8])]);

impl Data for Slices<'_> {
    fn pieces(
        &self,
        nth: usize,
        take: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (_, bytes) = &self.0[nth];
        let mut copy = Vec::new();
        for piece in bytes.chunks(PIECE as usize) {
            copy.clear();
            copy.extend_from_slice(piece);
            take(&mut copy)?;
        }
        Ok(())
    }
}

/// Writes tensors to a file, which appears when it is whole and on the disk.
///
/// # Errors
/// If a tensor does not fit the format or its bytes are not as many as its shape says, or the file
/// cannot be written; nothing of it is left then.
pub fn write(path: &Path, tensors: &[(Spec, &[u8])], form: Form<'_>) -> Result<Written, Error> {
    let specs: Vec<Spec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
    write_from(path, &specs, &Slices(tensors), form, &BTreeMap::new(), &|_| {})
}

pub(crate) fn write_from(
    path: &Path,
    specs: &[Spec],
    data: &dyn Data,
    form: Form<'_>,
    metadata: &BTreeMap<String, String>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    match form {
        Form::Tensorizer { layout, secret } => {
            tensorizer(path, specs, data, layout, secret, progress)
        }
        Form::Safetensors => flat(path, specs, data, metadata, progress),
    }
}

fn tensorizer(
    path: &Path,
    specs: &[Spec],
    data: &dyn Data,
    layout: Layout,
    secret: Option<&Secret>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    let no_key = |source| Error::Key { place: Location::file(path), source };
    let sealing = secret.map(|secret| sealing(secret, specs.len())).transpose().map_err(no_key)?;
    let planned = layout::plan(specs, layout, &HASHES, sealing.as_ref().map(|(_, s)| s))?;
    let key = sealing.as_ref().map(|(key, _)| key);
    let target = Target::create(path, planned.len)?;
    target.put(&planned.front, 0)?;
    records(&target, specs, &planned.tensors, key, data, progress)?;
    target.publish()?;
    Ok(Written { file_len: planned.len, tensors: specs.len() })
}

/// Writes the records of these tensors, each where it was placed.
fn records(
    target: &Target,
    specs: &[Spec],
    placed: &[Placed],
    key: Option<&Key>,
    data: &dyn Data,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    each(data.streams(), specs, |nth| {
        let placed = &placed[nth];
        let mut hashers = placed.draft.hashers();
        let mut macs = Vec::new();
        exactly(placed.entry.len, specs, nth, data, progress, &mut |piece, at| {
            hashers.update(piece);
            if let (Some(boxes), Some(key)) = (&placed.boxes, key) {
                macs.push(seal::seal(key, &boxes.nonce(macs.len() as u64), piece));
            }
            target.put(piece, placed.entry.data + at)
        })?;
        target.put(&placed.draft.filled(hashers, &macs), placed.entry.header)
    })
}

/// The key of a new file, how it is derived, and a random nonce for every tensor.
fn sealing(secret: &Secret, tensors: usize) -> Result<(Key, Sealing), seal::KeyError> {
    let derivation = secret.derivation()?;
    let key = Keys::new(secret).of(derivation.as_ref())?;
    let nonces = (0..tensors).map(|_| fresh()).collect::<Result<_, _>>()?;
    Ok((key, Sealing { derivation, nonces }))
}

fn flat(
    path: &Path,
    specs: &[Spec],
    data: &dyn Data,
    metadata: &BTreeMap<String, String>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    let (front, places, len) = safetensors::plan(specs, metadata)?;
    let target = Target::create(path, len)?;
    target.put(&front, 0)?;
    each(data.streams(), specs, |nth| {
        let len = specs[nth].data_len().unwrap_or_default();
        exactly(len, specs, nth, data, progress, &mut |piece, at| {
            target.put(piece, places[nth] + at)
        })
    })?;
    target.publish()?;
    Ok(Written { file_len: len, tensors: specs.len() })
}

/// Does something for every tensor, the largest first.
fn each(
    threads: usize,
    specs: &[Spec],
    work: impl Fn(usize) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let mut jobs: Vec<usize> = (0..specs.len()).collect();
    jobs.sort_by_key(|nth| std::cmp::Reverse(specs[*nth].data_len()));
    pool::each(threads, jobs, || Ok(()), |(), nth| work(nth))
}

/// Takes a piece of a tensor's data, and where in the tensor it begins.
type Take<'a> = &'a mut dyn FnMut(&mut [u8], u64) -> Result<(), Error>;

/// Gives the pieces of a tensor and where each begins, and sees that they are as long as it is.
fn exactly(
    want: u64,
    specs: &[Spec],
    nth: usize,
    data: &dyn Data,
    progress: &(dyn Fn(u64) + Sync),
    take: Take<'_>,
) -> Result<(), Error> {
    let mut got = 0;
    let wrong = |got| Flaw::Length { got, want }.of(&specs[nth].name);
    data.pieces(nth, &mut |piece| {
        let at = got;
        got += piece.len() as u64;
        if got > want {
            return Err(wrong(got));
        }
        take(piece, at)?;
        progress(piece.len() as u64);
        Ok(())
    })?;
    if got == want { Ok(()) } else { Err(wrong(got)) }
}
