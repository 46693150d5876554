//! What is read from where to where: pure, in bytes, and blind to where a tensor ends.
//!
//! A file whose tensors are aligned is mirrored: memory has the distances of the file, headers
//! included, so that one read serves many tensors and may be direct. The tensors of other files
//! (the official writer's begin at odd bytes) are packed at multiples of 64. Both become a list of
//! parts, cut into reads of one size: the largest tensor is read by as many threads as the smallest.

use std::ops::Range;

/// What memory and reads of a mirrored file begin at: a page.
pub(crate) const PAGE: u64 = 4096;

/// What a packed tensor begins at: a line of the cache.
const LINE: u64 = 64;

/// Tensors further apart than this are not read together.
const GAP: u64 = 64 << 10;

/// Bytes of a read of a file.
pub(crate) const READ: u64 = 8 << 20;

/// A tensor that is wanted: where its data lies in the file, and bytes of an element.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) data: Range<u64>,
    pub(crate) element: u64,
}

/// Bytes of the file and where in memory they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: Range<u64>,
    pub(crate) memory: u64,
}

/// What one thread reads at a time: parts that lie near each other in the file.
pub(crate) type Read = Vec<Part>;

/// The whole of a load.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Where in memory each wanted tensor begins.
    pub(crate) places: Vec<u64>,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// In the order of the file and of memory.
    pub(crate) reads: Vec<Read>,
}

/// Plans a load of these tensors, which lie in the order of the file, in reads of so many bytes.
pub(crate) fn plan(wanted: &[Wanted], size: u64) -> Plan {
    let aligned = |tensor: &Wanted| tensor.data.start.is_multiple_of(tensor.element.max(1));
    let (places, parts) =
        if wanted.iter().all(aligned) { mirrored(wanted) } else { packed(wanted) };
    let last = parts.last().map_or(0, |part| part.memory + length(&part.file));
    Plan { places, memory: last, reads: cut(parts, size) }
}

const fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn mirrored(wanted: &[Wanted]) -> (Vec<u64>, Vec<Part>) {
    let mut parts: Vec<Part> = Vec::new();
    let mut places = Vec::with_capacity(wanted.len());
    for tensor in wanted {
        let data = &tensor.data;
        if data.is_empty() {
            // A place must be inside memory even of what has no bytes.
            places.push(0);
            continue;
        }
        match parts.last_mut() {
            Some(part) if data.start.saturating_sub(part.file.end) <= GAP => {
                part.file.end = part.file.end.max(data.end);
            }
            last => {
                let end = last.map_or(0, |part| part.memory + length(&part.file));
                let start = data.start / PAGE * PAGE;
                let memory = end.next_multiple_of(PAGE);
                parts.push(Part { file: start..data.end, memory });
            }
        }
        let part = parts.last().map_or(0, |part| part.memory + data.start - part.file.start);
        places.push(part);
    }
    (places, parts)
}

fn packed(wanted: &[Wanted]) -> (Vec<u64>, Vec<Part>) {
    let mut parts = Vec::with_capacity(wanted.len());
    let mut places = Vec::with_capacity(wanted.len());
    let mut memory = 0_u64;
    for tensor in wanted {
        places.push(if tensor.data.is_empty() { 0 } else { memory });
        if !tensor.data.is_empty() {
            parts.push(Part { file: tensor.data.clone(), memory });
            memory = (memory + length(&tensor.data)).next_multiple_of(LINE);
        }
    }
    (places, parts)
}

/// Cuts parts into reads. Cuts lie where memory is a multiple of a read, so that no two threads
/// fault the same huge page, and what was aligned stays so.
fn cut(parts: Vec<Part>, size: u64) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    for part in parts {
        let (mut file, mut memory) = (part.file, part.memory);
        while !file.is_empty() {
            let here = length(&file).min(size - memory % size);
            let piece = Part { file: file.start..file.start + here, memory };
            let joins = reads.last().and_then(|read| Some((read.first()?, read.last()?)));
            let near = joins.is_some_and(|(first, last)| {
                piece.file.start.saturating_sub(last.file.end) <= GAP
                    && piece.file.end - first.file.start <= size + GAP
                    && first.memory / size == memory / size
            });
            match reads.last_mut().filter(|_| near) {
                Some(read) => read.push(piece),
                None => reads.push(vec![piece]),
            }
            file.start += here;
            memory += here;
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(data: Range<u64>, element: u64) -> Wanted {
        Wanted { data, element }
    }

    /// Upstream reads a tensor by one thread, so the largest decides.
    #[test]
    fn a_large_tensor_is_read_by_many() {
        let plan = plan(&[wanted(4096..4096 + 100 * READ, 2)], READ);
        assert_eq!(plan.reads.len(), 100);
        assert!(plan.reads.iter().flatten().all(|part| length(&part.file) == READ));
        assert!(plan.reads.iter().flatten().all(|part| part.memory % READ == 0));
    }

    #[test]
    fn small_tensors_are_read_together_and_others_left_out() {
        let near = [wanted(8192..8292, 2), wanted(12_288..12_300, 2)];
        assert_eq!(plan(&near, READ).reads.len(), 1);
        assert_eq!(plan(&near, READ).places, [0, 4096]);
        let far = [wanted(8192..8292, 2), wanted(1 << 30..(1 << 30) + 2, 2)];
        let read: u64 =
            plan(&far, READ).reads.iter().flatten().map(|part| length(&part.file)).sum();
        assert_eq!(read, 102, "what lies between is not read");
        let odd = [wanted(8193..8293, 2), wanted(8301..8401, 2)];
        assert_eq!(plan(&odd, READ).places, [0, 128]);
        assert_eq!(plan(&odd, READ).reads.len(), 1);
        assert_eq!(plan(&[wanted(5..5, 4)], READ).reads, Vec::<Read>::new());
    }

    proptest! {
        /// Every byte of every tensor is read once and to its place; memory is written once.
        #[test]
        fn every_byte_arrives(
            tensors in prop::collection::vec((0_u64..200_000, 0_u64..20_000_000, 1_u64..9), 1..12),
        ) {
            let mut at = 1000;
            let mut all = Vec::new();
            for (gap, len, element) in tensors {
                all.push(wanted(at + gap..at + gap + len, element));
                at += gap + len;
            }
            let plan = plan(&all, READ);
            let parts: Vec<&Part> = plan.reads.iter().flatten().collect();
            for pair in parts.windows(2) {
                prop_assert!(pair[0].memory + length(&pair[0].file) <= pair[1].memory);
                prop_assert!(pair[0].file.end <= pair[1].file.start);
            }
            for (tensor, place) in all.iter().zip(&plan.places) {
                prop_assert_eq!(place % tensor.element.next_power_of_two().min(8)
                    * u64::from(tensor.element.is_power_of_two()), 0);
                let mut covered = tensor.data.start;
                for part in &parts {
                    if part.file.contains(&covered) {
                        let there = place + (covered - tensor.data.start);
                        prop_assert_eq!(part.memory + covered - part.file.start, there);
                        covered = part.file.end.min(tensor.data.end);
                    }
                }
                prop_assert_eq!(covered, tensor.data.end);
                prop_assert!(place + length(&tensor.data) <= plan.memory);
            }
        }
    }
}
