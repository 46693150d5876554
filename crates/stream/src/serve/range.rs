//! `Range: bytes=...` to the bytes that it means of something of a length (RFC 9110, 14.1.2 and 14.2).
//!
//! Pure. One range is answered; several are not, as the RFC allows: whoever asks for them gets the
//! whole, which is never wrong.

use std::ops::Range;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Span {
    Whole,
    Part(Range<u64>),
    /// No byte of it is there.
    Beyond,
}

/// What a field means. One that is no range of bytes is as if it were not there.
pub(super) fn resolve(field: &str, len: u64) -> Span {
    let Some(wanted) = wanted(field) else { return Span::Whole };
    let range = match wanted {
        Wanted::From(first, last) => {
            first..last.map_or(len, |last| last.saturating_add(1).min(len))
        }
        Wanted::Last(count) => len.saturating_sub(count)..len,
    };
    if range.is_empty() { Span::Beyond } else { Span::Part(range) }
}

enum Wanted {
    /// From a byte on, to a byte.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

fn wanted(field: &str) -> Option<Wanted> {
    let (unit, range) = field.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some(match (first, last) {
        ("", last) => Wanted::Last(number(last)?),
        (first, "") => Wanted::From(number(first)?, None),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Wanted::From(first, Some(last)))?
        }
    })
}

/// Digits, however many: what is more than there can be is beyond every end.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_what_the_rfc_says() {
        for (field, want) in [
            ("bytes=0-0", Span::Part(0..1)),
            ("Bytes = 2-4".trim(), Span::Part(2..5)),
            ("bytes=2-", Span::Part(2..10)),
            ("bytes=-3", Span::Part(7..10)),
            ("bytes=-100", Span::Part(0..10)),
            ("bytes=9-100", Span::Part(9..10)),
            ("bytes=0-99999999999999999999999", Span::Part(0..10)),
            ("bytes=10-", Span::Beyond),
            ("bytes=-0", Span::Beyond),
            ("bytes=99999999999999999999999-", Span::Beyond),
            ("bytes=4-2", Span::Whole),
            ("bytes=0-1,3-4", Span::Whole),
            ("bytes=-", Span::Whole),
            ("bytes=+1-2", Span::Whole),
            ("bytes 0-1", Span::Whole),
            ("lines=0-1", Span::Whole),
        ] {
            assert_eq!(resolve(field, 10), want, "{field}");
        }
        assert_eq!(resolve("bytes=0-", 0), Span::Beyond);
        assert_eq!(resolve("bytes=-1", 0), Span::Beyond);
    }

    proptest! {
        #[test]
        fn a_part_lies_within(field in "bytes=[0-9]{0,21}-[0-9]{0,21}", len in any::<u64>()) {
            if let Span::Part(range) = resolve(&field, len) {
                prop_assert!(range.start < range.end && range.end <= len);
            }
        }

        #[test]
        fn what_is_written_is_read(first in 0_u64..1000, more in 0_u64..1000, len in 1_u64..1500) {
            let last = first + more;
            let want = if first < len { Span::Part(first..(last + 1).min(len)) } else { Span::Beyond };
            prop_assert_eq!(resolve(&format!("bytes={first}-{last}"), len), want);
        }

        #[test]
        fn no_text_makes_it_panic(field in "\\PC{0,40}", len in any::<u64>()) {
            let _ = resolve(&field, len);
        }
    }
}
