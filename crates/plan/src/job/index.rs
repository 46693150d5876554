//! Sets of completion indexes, as a Job's status and its success policy write them: `0-2,5`.

use std::fmt;

/// A set of indexes, kept as spans that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads a list of indexes and spans below `completions`. What cannot be read is left out: it is
    /// a status that others may have written, and the API checks what people write.
    pub fn parse(text: &str, completions: i32) -> Self {
        let spans = text.split(',').filter_map(|span| {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            let last = last.min(completions.saturating_sub(1));
            (0 <= first && first <= last).then_some((first, last))
        });
        Self::of(spans.collect())
    }

    fn of(mut spans: Vec<(i32, i32)>) -> Self {
        spans.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::new();
        for (first, last) in spans {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// All that are in one or the other.
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// How many there are.
    pub fn len(&self) -> i32 {
        let spans = self.0.iter().map(|(first, last)| (last - first).saturating_add(1));
        spans.fold(0, i32::saturating_add)
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an index is one of them.
    pub fn contains(&self, index: i32) -> bool {
        let after = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(after).is_some_and(|(first, _)| *first <= index)
    }

    /// How many are in both.
    pub fn common(&self, other: &Self) -> i32 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0_i32;
        while let (Some(a), Some(b)) = (own.peek(), others.peek()) {
            let both = a.1.min(b.1).saturating_sub(a.0.max(b.0)).saturating_add(1);
            common = common.saturating_add(both.max(0));
            if a.1 <= b.1 {
                own.next()
            } else {
                others.next()
            };
        }
        common
    }

    /// The indexes below `completions` that are none of them, first ones first.
    pub fn missing(&self, completions: i32) -> impl Iterator<Item = i32> {
        let from = std::iter::once(0).chain(self.0.iter().map(|(_, last)| last.saturating_add(1)));
        let to = self.0.iter().map(|(first, _)| *first).chain([completions]);
        from.zip(to).flat_map(move |(from, to)| from..to.min(completions))
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<T: IntoIterator<Item = i32>>(indexes: T) -> Self {
        Self::of(indexes.into_iter().map(|index| (index, index)).collect())
    }
}

impl fmt::Display for Indexes {
    /// Two neighbours are written `1,2`, more `1-3`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(out, "{comma}{first}")?;
            match last - first {
                0 => {}
                1 => write!(out, ",{last}")?,
                _ => write!(out, "-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_index_is_left_out() {
        let read = |text: &str| Indexes::parse(text, 10).to_string();
        assert_eq!(read(""), "");
        assert_eq!(read("0-2,5"), "0-2,5");
        assert_eq!(read("7-99,x,3-1,-4,1,0,50"), "0,1,7-9");
        assert_eq!(Indexes::parse("0-2147483647", i32::MAX).len(), i32::MAX);
    }

    proptest! {
        #[test]
        fn they_are_sets(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let of = |set: &BTreeSet<u8>| set.iter().map(|i| i32::from(*i)).collect::<Indexes>();
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.union(&y), of(&(&a | &b)));
            prop_assert_eq!(x.common(&y) as usize, (&a & &b).len());
            prop_assert_eq!(x.len() as usize, a.len());
            prop_assert_eq!(&Indexes::parse(&x.to_string(), 256), &x);
            for i in 0..=255_u8 {
                prop_assert_eq!(x.contains(i32::from(i)), a.contains(&i));
            }
            let missing: Vec<_> = x.missing(200).collect();
            let expected: Vec<_> =
                (0..200_u8).filter(|i| !a.contains(i)).map(i32::from).collect();
            prop_assert_eq!(missing, expected);
        }
    }
}
