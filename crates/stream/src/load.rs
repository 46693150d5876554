//! A model, or a part of it, into one piece of memory.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;

use crate::arena::Arena;
use crate::error::{Error, Flaw};
use crate::format::record::Record;
use crate::local::Access;
use crate::model::{Check, Checker, Model, Tensor};
use crate::plan::{Wanted, plan};
use crate::pool;
use crate::seal::{self, Key, Secret};
use crate::source::{How, split};

/// How to load.
#[derive(Clone, Copy, Default)]
pub struct Load<'a> {
    /// Which tensors; without it all. Bytes of others are not read.
    pub filter: Option<&'a (dyn Fn(&Tensor) -> bool + Sync)>,
    /// What opens the file, if it is encrypted.
    pub secret: Option<&'a Secret>,
    /// Whether every hash is compared. Encrypted data is vouched for by its tags without it.
    pub verify: bool,
    /// Threads; without it as many as are worth having: cores, or eight where the disk must be asked.
    /// Behind a URL, connections at most.
    pub threads: Option<NonZero<usize>>,
    /// Of a file: through the page cache or past it.
    pub access: Access,
    /// Called with the bytes of every read that is done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// Tensors in memory, each aligned to its elements at least.
pub struct Loaded {
    arena: Arena,
    tensors: Vec<(Tensor, Range<usize>)>,
    names: HashMap<String, usize>,
    read: u64,
}

impl Loaded {
    /// A tensor and its bytes, by its name as it is displayed.
    pub fn get(&self, name: &str) -> Option<(&Tensor, &[u8])> {
        let (tensor, range) = self.tensors.get(*self.names.get(name)?)?;
        Some((tensor, &self.arena.bytes()[range.clone()]))
    }

    /// Every tensor and its bytes, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Tensor, &[u8])> {
        let bytes = self.arena.bytes();
        self.tensors.iter().map(|(tensor, range)| (tensor, &bytes[range.clone()]))
    }

    /// Every tensor and where in [`Loaded::memory_mut`] its bytes lie, in the order of the file.
    pub fn places(&self) -> impl Iterator<Item = (&Tensor, Range<usize>)> {
        self.tensors.iter().map(|(tensor, range)| (tensor, range.clone()))
    }

    /// The memory that all of it lies in, for who hands it on.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        self.arena.bytes_mut()
    }

    /// Bytes that were read from the file for it, records aside.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }
}

/// A wanted tensor on its way.
struct Coming {
    nth: usize,
    memory: Range<usize>,
    record: Option<Record>,
}

impl Model {
    /// Loads tensors into memory.
    ///
    /// # Errors
    /// If the file cannot be read or decrypted, there is no memory for it, or a tensor is not what
    /// was written: the first that was found, by its name.
    pub fn load(&self, how: &Load<'_>) -> Result<Loaded, Error> {
        let keys = self.keys(how.secret)?;
        let wanted = |tensor: &Tensor| how.filter.is_none_or(|filter| filter(tensor));
        let chosen: Vec<usize> =
            (0..self.tensors().len()).filter(|nth| wanted(&self.tensors()[*nth])).collect();
        let data = |nth: &usize| {
            let entry = &self.tensors()[*nth].0;
            Wanted { data: entry.data..entry.data + entry.len, element: entry.dtype.size() }
        };
        let wanted: Vec<Wanted> = chosen.iter().map(data).collect();
        let plan = plan(&wanted, self.source.read_size());
        let no_memory = |source| Error::Memory { bytes: plan.memory, source };
        let memory = usize::try_from(plan.memory)
            .map_err(|_| no_memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut arena = Arena::new(memory).map_err(no_memory)?;
        let progress = how.progress.unwrap_or(&|_| {});
        let access = how.access;
        self.source
            .fill(
                split(&plan.reads, arena.bytes_mut()),
                &How { threads: how.threads, access, progress },
            )
            .map_err(|unread| unread.of(&self.place))?;
        if keys.is_some() || how.verify {
            self.expect_records(chosen.iter().copied())?;
        }
        let mut coming = Vec::with_capacity(chosen.len());
        for (nth, place) in chosen.into_iter().zip(&plan.places) {
            let start = usize::try_from(*place).unwrap_or_default();
            let len = usize::try_from(self.tensors()[nth].data_len()).unwrap_or_default();
            let record = if keys.is_some() || how.verify { self.record(nth)? } else { None };
            coming.push(Coming { nth, memory: start..start + len, record });
        }
        let cores = how.threads.map_or_else(pool::cores, NonZero::get);
        if let Some(keys) = &keys {
            let key = |coming: &Coming| match &coming.record {
                Some(record) if !coming.memory.is_empty() => self.key(keys, record).map(Some),
                _ => Ok(None),
            };
            let keys: Vec<Option<Key>> = coming.iter().map(key).collect::<Result<_, _>>()?;
            self.open_boxes(cores, &coming, &keys, arena.bytes_mut())?;
        }
        if how.verify {
            self.compare(cores, &coming, arena.bytes())?;
        }
        let tensors: Vec<(Tensor, Range<usize>)> =
            coming.into_iter().map(|c| (self.tensors()[c.nth].clone(), c.memory)).collect();
        let named = |(nth, (tensor, _)): (usize, &(Tensor, _))| (tensor.name().to_string(), nth);
        let names = tensors.iter().enumerate().rev().map(named).collect();
        let read = plan.reads.iter().flatten().map(|part| part.file.end - part.file.start).sum();
        Ok(Loaded { arena, tensors, names, read })
    }

    /// Decrypts every piece of every tensor where it lies.
    fn open_boxes(
        &self,
        threads: usize,
        coming: &[Coming],
        keys: &[Option<Key>],
        memory: &mut [u8],
    ) -> Result<(), Error> {
        let mut jobs = Vec::new();
        let (mut rest, mut at) = (memory, 0);
        for (coming, key) in coming.iter().zip(keys) {
            let crypt = coming.record.as_ref().and_then(|record| record.crypt.as_ref());
            let boxes = crypt.and_then(|crypt| crypt.boxes.as_ref());
            let (Some(boxes), Some(key)) = (boxes, key) else { continue };
            let (_, behind) = std::mem::take(&mut rest).split_at_mut(coming.memory.start - at);
            let (data, behind) = behind.split_at_mut(coming.memory.len());
            (rest, at) = (behind, coming.memory.end);
            let size = usize::try_from(boxes.piece).unwrap_or(usize::MAX);
            let pieces = data.chunks_mut(size).zip(&boxes.macs).enumerate();
            jobs.extend(pieces.map(|(number, (piece, mac))| {
                (coming.nth, key, boxes.nonce(number as u64), mac, piece)
            }));
        }
        pool::each(
            threads,
            jobs,
            || Ok(()),
            |(), (nth, key, nonce, mac, piece)| {
                let opened = seal::open(key, &nonce, mac, piece);
                let name = self.tensors()[nth].name();
                if opened { Ok(()) } else { Err(Flaw::Sealed.of(name)) }
            },
        )
    }

    /// Compares every hash of every tensor, the largest tensors first, two of about one length at once.
    fn compare(&self, threads: usize, coming: &[Coming], memory: &[u8]) -> Result<(), Error> {
        let recorded = |coming| -> Option<(&Coming, &Record)> {
            let coming: &Coming = coming;
            Some((coming, coming.record.as_ref()?))
        };
        let mut all: Vec<(&Coming, &Record)> = coming.iter().filter_map(recorded).collect();
        all.sort_by_key(|(coming, _)| std::cmp::Reverse(coming.memory.len()));
        let bytes = |coming: &Coming| &memory[coming.memory.clone()];
        let end = |checker: Checker<'_>, coming: &Coming| {
            checker.finish().map_err(|flaw| flaw.of(self.tensors()[coming.nth].name()))
        };
        pool::each(
            threads,
            all.chunks(2).collect(),
            || Ok(()),
            |(), pair: &[(&Coming, &Record)]| match pair {
                [(one, of_one), (other, of_other)] => {
                    let mut a = Checker::new(of_one, Check::All);
                    let mut b = Checker::new(of_other, Check::All);
                    Checker::update_both(&mut a, bytes(one), &mut b, bytes(other));
                    end(a, one).and_then(|()| end(b, other))
                }
                rest => rest.iter().try_for_each(|(one, record)| {
                    let mut checker = Checker::new(record, Check::All);
                    checker.update(bytes(one));
                    end(checker, one)
                }),
            },
        )
    }
}
