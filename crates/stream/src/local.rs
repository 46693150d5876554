//! Fills memory from a file: from the page cache where it has the bytes, directly where it has not.
//!
//! Reading what is cached with O_DIRECT loses five times, reading what is not through the cache
//! loses a half; so every read asks first, without waiting. What cannot be asked or read directly (a
//! file system without it, an odd end) is read the ordinary way.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::arena::Arena;
use crate::plan::{PAGE, READ};
use crate::pool;
use crate::source::{Bytes, How, Piece, Source, Unread};

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Each range as is faster for it.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Past the page cache.
    Direct,
}

/// Threads that read what is not cached: enough requests under way for a disk.
const COLD_THREADS: usize = 8;

/// Places that say whether a file is cached.
const PROBES: u64 = 32;

/// A file of this machine.
#[derive(Debug)]
pub(crate) struct Local {
    path: PathBuf,
    file: File,
    len: u64,
}

/// A file and its direct twin.
struct Twins<'a> {
    file: &'a File,
    direct: Option<File>,
    access: Access,
    len: u64,
}

/// A range of a file.
struct Part<'a> {
    file: &'a File,
    at: u64,
}

impl Bytes for Part<'_> {
    fn next(&mut self, into: &mut [u8]) -> Result<(), Unread> {
        self.file.read_exact_at(into, self.at).map_err(Unread::File)?;
        self.at += into.len() as u64;
        Ok(())
    }
}

impl Local {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened, or is a directory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(Self { path: path.to_owned(), file, len: meta.len() })
    }
}

impl Source for Local {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_size(&self) -> u64 {
        READ
    }

    fn streams(&self) -> usize {
        pool::cores()
    }

    fn bytes(&self, range: Range<u64>) -> Box<dyn Bytes + '_> {
        Box::new(Part { file: &self.file, at: range.start })
    }

    fn fill(&self, jobs: Vec<Vec<Piece<'_>>>, how: &How<'_>) -> Result<(), Unread> {
        let twins = Twins::new(&self.path, &self.file, self.len, how.access);
        let threads = how.threads.map_or_else(|| twins.threads(), NonZero::get);
        twins.fill(threads, jobs, how.progress).map_err(Unread::File)
    }

    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<(), Unread> {
        self.file.read_exact_at(into, at).map_err(Unread::File)
    }
}

impl<'a> Twins<'a> {
    fn new(path: &Path, file: &'a File, len: u64, access: Access) -> Self {
        let open = || {
            let direct = i32::try_from(OFlags::DIRECT.bits()).ok()?;
            let direct = OpenOptions::new().read(true).custom_flags(direct).open(path).ok()?;
            // The path may lead to another file by now.
            same(file, &direct).then_some(direct)
        };
        let direct = if access == Access::Buffered { None } else { open() };
        Self { file, direct, access, len }
    }

    /// Threads that are worth having.
    fn threads(&self) -> usize {
        let step = (self.len / PROBES).max(1);
        let cold = |nth: &u64| !self.is_cached(nth * step);
        let count = (0..PROBES).filter(cold).count() as u64;
        let direct = match self.access {
            Access::Auto => self.direct.is_some() && count * 4 > PROBES,
            Access::Buffered => false,
            Access::Direct => true,
        };
        if direct { pool::cores().max(COLD_THREADS) } else { pool::cores() }
    }

    /// Whether the page cache has the byte here. True if it does not tell.
    fn is_cached(&self, offset: u64) -> bool {
        let mut byte = [0];
        let mut into = [IoSliceMut::new(&mut byte)];
        let read = preadv2(self.file, &mut into, offset, ReadWriteFlags::NOWAIT);
        !matches!(read, Err(Errno::AGAIN))
    }

    fn is_direct(&self, range: &Range<u64>) -> bool {
        match self.access {
            Access::Buffered => false,
            Access::Direct => true,
            Access::Auto => {
                let middle = range.start + (range.end - range.start) / 2;
                let ends = [range.start, middle, range.end.saturating_sub(1)];
                ends.into_iter().any(|offset| !self.is_cached(offset))
            }
        }
    }

    /// Does every read into its memory, and says how much it read of each.
    fn fill(
        &self,
        threads: usize,
        jobs: Vec<Vec<Piece<'_>>>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> io::Result<()> {
        pool::each(
            threads,
            jobs,
            || Ok(None),
            |bounce, mut pieces| {
                let bytes = pieces.iter().map(|(_, piece)| piece.len() as u64).sum();
                self.pieces(&mut pieces, bounce)?;
                progress(bytes);
                Ok(())
            },
        )
    }

    fn pieces(&self, pieces: &mut [Piece<'_>], bounce: &mut Option<Arena>) -> io::Result<()> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let range = first.0..last.0 + last.1.len() as u64;
        if let Some(direct) = self.direct.as_ref().filter(|_| self.is_direct(&range)) {
            let read = match pieces {
                [(offset, into)] if aligned(*offset, into) => straight(direct, *offset, into),
                _ => bounced(direct, &range, pieces, bounce),
            };
            match read {
                // A file system that takes the flag and not the reads.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
                // What is left lies behind the last whole page of the file.
                Ok(true) => return Ok(()),
                Ok(false) => {}
            }
        }
        pieces.iter_mut().try_for_each(|(offset, into)| self.file.read_exact_at(into, *offset))
    }
}

fn same(a: &File, b: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let of = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    of(a).is_some() && of(a) == of(b)
}

fn aligned(offset: u64, into: &[u8]) -> bool {
    offset.is_multiple_of(PAGE) && into.as_ptr().align_offset(PAGE as usize) == 0
}

/// Reads whole pages where they belong, and says whether that was all; the rest is read again.
fn straight(direct: &File, offset: u64, into: &mut [u8]) -> io::Result<bool> {
    let whole = into.len() / PAGE as usize * PAGE as usize;
    let (pages, tail) = into.split_at_mut(whole);
    direct.read_exact_at(pages, offset)?;
    if tail.is_empty() {
        return Ok(true);
    }
    // A page of its own for the end, which the file may not fill.
    let mut last = Arena::new(PAGE as usize)?;
    let got = read_up_to(direct, last.bytes_mut(), offset + whole as u64)?;
    let enough = last.bytes().get(..tail.len()).filter(|_| got >= tail.len());
    if let Some(enough) = enough {
        tail.copy_from_slice(enough);
    }
    Ok(enough.is_some())
}

/// Reads the pages around the pieces, and copies from there; says whether that was all.
fn bounced(
    direct: &File,
    range: &Range<u64>,
    pieces: &mut [Piece<'_>],
    bounce: &mut Option<Arena>,
) -> io::Result<bool> {
    let start = range.start / PAGE * PAGE;
    let len = usize::try_from(range.end.next_multiple_of(PAGE) - start).unwrap_or(usize::MAX);
    let arena = match bounce {
        Some(arena) if arena.bytes().len() >= len => arena,
        small => small.insert(Arena::new(len.max(2 * READ as usize))?),
    };
    let buffer = arena.bytes_mut().get_mut(..len).unwrap_or_default();
    let got = read_up_to(direct, buffer, start)?;
    if start + (got as u64) < range.end {
        return Ok(false);
    }
    for (offset, into) in pieces {
        let at = usize::try_from(*offset - start).unwrap_or(usize::MAX);
        into.copy_from_slice(&buffer[at..at + into.len()]);
    }
    Ok(true)
}

/// Reads until the buffer or the file is at its end.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Behind an odd end nothing can be read directly.
            Err(error) if error.kind() == ErrorKind::InvalidInput && got > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::plan::{Wanted, plan};
    use crate::source::split;

    #[test]
    fn every_way_reads_the_same() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..20_000_003_u32).map(|n| (n * 7 + (n >> 11)) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.as_file().sync_all().unwrap();
        let len = bytes.len() as u64;
        let (whole, end) = (4096..len, len - 5..len);
        let tensors: [&[Range<u64>]; 4] = [
            std::slice::from_ref(&whole),
            &[4096..4097, 8192..8200, 12_288..9_000_000, 9_000_448..len],
            &[3..20, 21..9_000_001, 9_000_077..len],
            std::slice::from_ref(&end),
        ];
        for data in tensors {
            let element = if data[0].start % 2 == 0 { 1 } else { 2 };
            let wanted: Vec<Wanted> =
                data.iter().map(|data| Wanted { data: data.clone(), element }).collect();
            let plan = plan(&wanted, READ);
            for access in [Access::Auto, Access::Buffered, Access::Direct] {
                let source = Twins::new(file.path(), file.as_file(), len, access);
                let mut arena = Arena::new(plan.memory as usize).unwrap();
                let jobs = split(&plan.reads, arena.bytes_mut());
                source.fill(3, jobs, &|_| {}).unwrap();
                for (tensor, place) in wanted.iter().zip(&plan.places) {
                    let (from, to) = (tensor.data.start as usize, tensor.data.end as usize);
                    let place = *place as usize;
                    let there = &arena.bytes()[place..place + to - from];
                    assert!(there == &bytes[from..to], "{access:?} {:?}", tensor.data);
                }
            }
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10_000).unwrap();
        let plan = plan(&[Wanted { data: 0..20_000, element: 1 }], READ);
        for access in [Access::Buffered, Access::Direct] {
            let source = Twins::new(file.path(), file.as_file(), 20_000, access);
            let mut arena = Arena::new(plan.memory as usize).unwrap();
            let jobs = split(&plan.reads, arena.bytes_mut());
            let error = source.fill(1, jobs, &|_| {}).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }
}
