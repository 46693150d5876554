//! Writes models, from memory or from another file, to files and to where URLs say, on all cores and
//! never a half one.
//!
//! Where everything goes is known before the first byte, so tensors are hashed, sealed and written
//! beside each other, each header after its data. What is sealed is a copy: no caller's bytes change.
//! Nothing is copied to a disk on its way to a store.

mod convert;
mod destination;
mod put;
mod target;
mod upload;
mod writer;

use std::collections::BTreeMap;

pub use convert::Convert;
pub use destination::Destination;
pub use writer::Writer;

use crate::error::{Error, Flaw};
use crate::format::layout::{self, Layout, PIECE, Placed, Sealing, Spec};
use crate::format::record::HashKind;
use crate::format::safetensors;
use crate::pool;
use crate::seal::{self, Key, Keys, Secret, fresh};
use destination::Out;

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

/// Where the bytes of a file go, in whatever order they come.
trait Sink: Sync {
    /// Takes these bytes, which begin there in the file.
    fn put(&self, bytes: &[u8], at: u64) -> Result<(), Error>;

    /// Tensors that are worth writing beside each other, where these had better come in about the
    /// order of the file.
    fn streams(&self) -> Option<usize> {
        None
    }
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

/// Writes tensors to a file or to where a URL says, which appears when it is whole (and, on a disk,
/// safe there).
///
/// # Errors
/// If a tensor does not fit the format or its bytes are not as many as its shape says, or it cannot be
/// written; nothing of it is left then.
pub fn write<'a>(
    to: impl Into<Destination<'a>>,
    tensors: &[(Spec, &[u8])],
    form: Form<'_>,
) -> Result<Written, Error> {
    let specs: Vec<Spec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
    write_from(to.into(), &specs, &Slices(tensors), form, &BTreeMap::new(), &|_| {})
}

pub(crate) fn write_from(
    to: Destination<'_>,
    specs: &[Spec],
    data: &dyn Data,
    form: Form<'_>,
    metadata: &BTreeMap<String, String>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    let (front, len, places, key);
    match form {
        Form::Tensorizer { layout, secret } => {
            let no_key = |source| Error::Key { place: to.place(), source };
            let sealing =
                secret.map(|secret| sealing(secret, specs.len())).transpose().map_err(no_key)?;
            let sealed = sealing.as_ref().map(|(_, sealing)| sealing);
            let planned = layout::plan(specs, layout, &HASHES, sealed)?;
            (front, len) = (planned.front, planned.len);
            places = Places::Records(planned.tensors);
            key = sealing.map(|(key, _)| key);
        }
        Form::Safetensors => {
            let planned = safetensors::plan(specs, metadata)?;
            (front, len) = (planned.0, planned.2);
            (places, key) = (Places::Flat(planned.1), None);
        }
    }
    let batch = Batch { specs, places: &places, key: key.as_ref(), data, progress };
    match Out::open(to, len)? {
        Out::File(target) => {
            target.put(&front, 0)?;
            batch.write(&target)?;
            target.publish()?;
        }
        Out::Parts(upload) => {
            upload.put(&front, 0)?;
            batch.write(&upload)?;
            let end = batch.end(front.len() as u64);
            upload.put(&vec![0; usize::try_from(len - end).unwrap_or_default()], end)?;
            upload.finish(Vec::new(), len)?;
        }
        Out::Whole(store, place) => put::put(&store, &place, &batch, &front, len)?,
    }
    Ok(Written { file_len: len, tensors: specs.len() })
}

/// Takes a piece of a tensor, to be changed at will, and where it begins.
type Take<'a> = &'a mut dyn FnMut(&mut [u8], u64) -> Result<(), Error>;

/// Where the tensors of a file lie.
enum Places {
    /// Each with a header.
    Records(Vec<Placed>),
    /// The first byte of each.
    Flat(Vec<u64>),
}

/// Tensors with their places: what is to be written.
struct Batch<'a> {
    specs: &'a [Spec],
    places: &'a Places,
    key: Option<&'a Key>,
    data: &'a dyn Data,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Batch<'_> {
    /// Writes them, as many beside each other as is good, the largest first where their order does not
    /// matter.
    fn write(&self, sink: &dyn Sink) -> Result<(), Error> {
        let mut jobs = self.in_order();
        let streams = sink.streams();
        if streams.is_none() {
            jobs.sort_by_key(|nth| std::cmp::Reverse(self.specs[*nth].data_len()));
        }
        let threads = streams.unwrap_or_else(|| self.data.streams());
        let work = |(): &mut (), nth| {
            let header = self.tensor(nth, self.progress, &mut |piece, at| sink.put(piece, at))?;
            header.map_or(Ok(()), |(header, at)| sink.put(&header, at))
        };
        pool::each(threads, jobs, || Ok(()), work)
    }

    /// Gives the data of a tensor as it stands in the file, with the place of every piece; returns the
    /// header that goes with it, if it has one, and its place.
    fn tensor(
        &self,
        nth: usize,
        progress: &dyn Fn(u64),
        take: Take<'_>,
    ) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let placed = match self.places {
            Places::Records(placed) => &placed[nth],
            Places::Flat(places) => {
                let len = self.specs[nth].data_len().unwrap_or_default();
                self.exactly(len, nth, progress, &mut |piece, at| take(piece, places[nth] + at))?;
                return Ok(None);
            }
        };
        let mut hashers = placed.draft.hashers();
        let mut macs = Vec::new();
        self.exactly(placed.entry.len, nth, progress, &mut |piece, at| {
            hashers.update(piece);
            if let (Some(boxes), Some(key)) = (&placed.boxes, self.key) {
                macs.push(seal::seal(key, &boxes.nonce(macs.len() as u64), piece));
            }
            take(piece, placed.entry.data + at)
        })?;
        Ok(Some((placed.draft.filled(hashers, &macs), placed.entry.header)))
    }

    /// The tensors in the order in which they lie in the file, which need not be theirs.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.specs.len()).collect();
        order.sort_by_key(|nth| self.place(*nth));
        order
    }

    /// Where the data of a tensor begins and ends. One without data lies before the next.
    fn place(&self, nth: usize) -> (u64, u64) {
        match self.places {
            Places::Records(placed) => {
                let entry = &placed[nth].entry;
                (entry.data, entry.data + entry.len)
            }
            Places::Flat(places) => {
                (places[nth], places[nth] + self.specs[nth].data_len().unwrap_or_default())
            }
        }
    }

    /// Where the last tensor ends; without any, where they would begin.
    fn end(&self, front: u64) -> u64 {
        (0..self.specs.len()).map(|nth| self.place(nth).1).max().unwrap_or(front)
    }

    /// Gives the pieces of a tensor and where in it each begins, and sees that they are as long as it
    /// is.
    fn exactly(
        &self,
        want: u64,
        nth: usize,
        progress: &dyn Fn(u64),
        take: Take<'_>,
    ) -> Result<(), Error> {
        let mut got = 0;
        let wrong = |got| Flaw::Length { got, want }.of(&self.specs[nth].name);
        self.data.pieces(nth, &mut |piece| {
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
}

/// The key of a new file, how it is derived, and a random nonce for every tensor.
fn sealing(secret: &Secret, tensors: usize) -> Result<(Key, Sealing), seal::KeyError> {
    let derivation = secret.derivation()?;
    let key = Keys::new(secret).of(derivation.as_ref())?;
    let nonces = (0..tensors).map(|_| fresh()).collect::<Result<_, _>>()?;
    Ok((key, Sealing { derivation, nonces }))
}
