//! Ranges of keys, in byte order, half open.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};

/// A half open range of keys: from `start` up to but not including `end`; without an end, to the
/// last key. A range whose end is not after its start holds no key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    start: Bytes,
    end: Option<Bytes>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub const fn all() -> Self {
        Self { start: Bytes::new(), end: None }
    }

    /// The one key.
    #[must_use]
    pub fn single(key: impl Into<Bytes>) -> Self {
        let start = key.into();
        let end = Some(successor(&start));
        Self { start, end }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        // The first key past the prefix is the prefix with its last byte raised; 0xff cannot be
        // raised, so it is dropped first, and a prefix of nothing else runs to the last key.
        let kept = start.iter().rposition(|byte| *byte != u8::MAX);
        let end = kept.map(|last| {
            let mut end = BytesMut::from(&start[..=last]);
            end[last] += 1;
            end.freeze()
        });
        Self { start, end }
    }

    /// The keys from `start` up to but not including `end`.
    #[must_use]
    pub fn half_open(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { start: start.into(), end: Some(end.into()) }
    }

    /// The keys from `start` on.
    #[must_use]
    pub fn from(start: impl Into<Bytes>) -> Self {
        Self { start: start.into(), end: None }
    }

    /// What of this range comes after `key`: where a list that stopped there goes on.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let start = successor(key).max(self.start.clone());
        Self { start, end: self.end.clone() }
    }

    /// What of this range is not before `key`.
    #[must_use]
    pub fn from_key(&self, key: impl Into<Bytes>) -> Self {
        Self { start: key.into().max(self.start.clone()), end: self.end.clone() }
    }

    /// The first key it could hold.
    #[must_use]
    pub fn start(&self) -> &Bytes {
        &self.start
    }

    /// The first key past it; `None` if it runs to the last key.
    #[must_use]
    pub fn end(&self) -> Option<&Bytes> {
        self.end.as_ref()
    }

    /// Whether `key` lies in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether no key can lie in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// As the bounds of an ordered map, which demands that they do not cross.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = match &self.end {
            _ if self.is_empty() => Bound::Excluded(&self.start[..]),
            Some(end) => Bound::Excluded(&end[..]),
            None => Bound::Unbounded,
        };
        (Bound::Included(&self.start[..]), end)
    }
}

fn successor(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_the_keys_between_its_ends() {
        let check = |range: &KeyRange, inside: &[&[u8]], outside: &[&[u8]]| {
            for key in inside {
                assert!(range.contains(key), "{range:?} lacks {key:?}");
            }
            for key in outside {
                assert!(!range.contains(key), "{range:?} has {key:?}");
            }
        };
        check(&KeyRange::all(), &[b"", b"a", b"\xff\xff"], &[]);
        check(&KeyRange::single("a"), &[b"a"], &[b"", b"a\0", b"b"]);
        check(&KeyRange::prefix("a/"), &[b"a/", b"a/b", b"a/\xff"], &[b"a", b"a0", b"b"]);
        check(&KeyRange::prefix(&b"a\xff"[..]), &[b"a\xff", b"a\xff\xff"], &[b"a", b"b"]);
        check(&KeyRange::prefix(&b"\xff"[..]), &[b"\xff", b"\xff\xff"], &[b"\xfe"]);
        check(&KeyRange::prefix(""), &[b"", b"a", b"\xff"], &[]);
        check(&KeyRange::half_open("b", "d"), &[b"b", b"c\xff"], &[b"a", b"d"]);
        check(&KeyRange::half_open("d", "b"), &[], &[b"a", b"b", b"c", b"d"]);
        check(&KeyRange::from("b"), &[b"b", b"z"], &[b"a"]);
        check(&KeyRange::prefix("a").after(b"ab"), &[b"ab\0", b"ac"], &[b"ab", b"b"]);
        check(&KeyRange::prefix("b").after(b"a"), &[b"b", b"bz"], &[b"a", b"aa"]);
    }

    #[test]
    fn the_bounds_of_an_inverted_range_do_not_cross() {
        let map = std::collections::BTreeMap::from([(Bytes::from("c"), ())]);
        let range = KeyRange::half_open("d", "b");
        assert_eq!(map.range::<[u8], _>(range.bounds()).count(), 0);
        assert!(range.is_empty());
    }
}
