//! One piece of memory for a whole load, in huge pages where the kernel has them.
//!
//! What limits loading is not the copy but the page faults before it: with pages of 4 KiB, fresh
//! memory takes a fifth of the speed that pages of 2 MiB allow. The memory is not touched here, so
//! that the threads that fill it fault it in beside each other.

use std::io;

use memmap2::{Advice, MmapMut};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// See the module.
pub(crate) struct Arena {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Arena {
    /// Zeroed memory that begins at a huge page, or at a page if it is smaller than one.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        if len < HUGE {
            return Ok(Self { map: MmapMut::map_anon(len.max(1))?, start: 0, len });
        }
        let whole = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(whole)?;
        // A kernel without huge pages gives ordinary ones: slower, and not wrong.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE).min(HUGE);
        Ok(Self { map, start, len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed() {
        for (len, align) in [(0, 4096), (1, 4096), (HUGE, HUGE), (HUGE * 3 + 17, HUGE)] {
            let mut arena = Arena::new(len).unwrap();
            assert_eq!(arena.bytes().as_ptr().align_offset(align), 0);
            assert_eq!(arena.bytes().len(), len);
            assert!(arena.bytes().iter().all(|byte| *byte == 0));
            arena.bytes_mut().fill(1);
        }
        assert!(Arena::new(usize::MAX).is_err());
    }
}
