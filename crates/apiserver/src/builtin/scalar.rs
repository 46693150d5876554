//! Scalars with a spelling of their own: times, quantities and bytes, read and written as Go does.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::quantity;
use crate::schema::print::quote;

/// Go does not look at the bits that pad the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A quantity as it is written, or why it is none.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    quantity::canonical(text).map_err(|e| e.to_string())
}

/// Bytes as they are written. Offsets in refusals are those of upstream's decoder, but for text
/// with line breaks in it.
pub(super) fn base64(text: &str) -> Result<String, String> {
    let bare: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match BASE64.decode(&bare) {
        Ok(bytes) => Ok(BASE64.encode(bytes)),
        Err(_) => Err(format!("illegal base64 data at input byte {}", broken_at(bare.as_bytes()))),
    }
}

/// Where Go's decoder gives up on text that is no base64.
fn broken_at(text: &[u8]) -> usize {
    for (quantum, bytes) in text.chunks(4).enumerate() {
        let start = quantum * 4;
        let odd = |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
        match bytes.iter().position(odd) {
            None if bytes.len() < 4 => return start,
            None => {}
            Some(n) if bytes[n] != b'=' || n < 2 => return start + n,
            Some(2) if bytes.len() == 3 => return start + 3,
            Some(2) if bytes[3] != b'=' => return start + 3,
            // What follows the padding is too much.
            Some(_) => return start + 4,
        }
    }
    text.len()
}

/// A time in whole seconds of UTC.
pub(super) fn time(text: &str) -> Result<String, String> {
    let time = Reader::new(text, "2006-01-02T15:04:05Z07:00").read(Fraction::Any)?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A time in microseconds of UTC.
pub(super) fn micro_time(text: &str) -> Result<String, String> {
    let time = Reader::new(text, "2006-01-02T15:04:05.000000Z07:00").read(Fraction::Six)?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fraction {
    /// With or without, and cut off.
    Any,
    /// Exactly six digits.
    Six,
}

/// Reads a time by one of Go's layouts.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, layout: &'static str) -> Self {
        Self { text, rest: text, layout }
    }

    fn wrong(&self, part: &str) -> String {
        let (text, layout) = (quote(self.text), quote(self.layout));
        format!(
            "parsing time {text} as {layout}: cannot parse {} as {}",
            quote(self.rest),
            quote(part)
        )
    }

    fn beyond(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }

    /// A number of so many digits.
    fn digits(&mut self, least: usize, most: usize, part: &str) -> Result<i16, String> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return Err(self.wrong(part));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().map_err(|_| self.wrong(part))
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.wrong(text))?;
        Ok(())
    }

    /// A number within a range.
    fn within(
        &mut self,
        least_digits: usize,
        part: &str,
        range: std::ops::RangeInclusive<i16>,
        what: &str,
    ) -> Result<i8, String> {
        let number = self.digits(least_digits, 2, part)?;
        if !range.contains(&number) {
            return Err(self.beyond(what));
        }
        i8::try_from(number).map_err(|_| self.beyond(what))
    }

    fn read(mut self, fraction: Fraction) -> Result<Timestamp, String> {
        let year = self.digits(4, 4, "2006")?;
        self.literal("-")?;
        let month = self.within(2, "01", 1..=12, "month")?;
        self.literal("-")?;
        let day = i8::try_from(self.digits(2, 2, "02")?).unwrap_or(0);
        self.literal("T")?;
        let hour = self.within(1, "15", 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.within(2, "04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.within(2, "05", 0..=59, "second")?;
        let nanos = self.fraction(fraction)?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!(
                "parsing time {}: extra text: {}",
                quote(self.text),
                quote(self.rest)
            ));
        }
        let date = Date::new(year, month, day).map_err(|_| self.beyond("day"))?;
        let time = date.at(hour, minute, second, nanos);
        offset.to_timestamp(time).map_err(|_| self.beyond("year"))
    }

    fn fraction(&mut self, fraction: Fraction) -> Result<i32, String> {
        let digits = match self.rest.strip_prefix(['.', ',']) {
            Some(rest) => rest.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        let taken = match fraction {
            Fraction::Any if digits == 0 => return Ok(0),
            Fraction::Any => digits,
            Fraction::Six if digits < 6 => return Err(self.wrong(".000000")),
            Fraction::Six => 6,
        };
        let (number, rest) = self.rest.split_at(taken + 1);
        self.rest = rest;
        let number: String = number[1..].chars().chain("000000000".chars()).take(9).collect();
        number.parse().map_err(|_| self.wrong(".000000"))
    }

    fn offset(&mut self) -> Result<Offset, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let bytes = self.rest.as_bytes();
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.wrong("Z07:00")),
        };
        let digit =
            |n: usize| bytes.get(n).filter(|b| b.is_ascii_digit()).map(|b| i32::from(b - b'0'));
        let (Some(h1), Some(h2), Some(b':'), Some(m1), Some(m2)) =
            (digit(1), digit(2), bytes.get(3), digit(4), digit(5))
        else {
            return Err(self.wrong("Z07:00"));
        };
        let (hours, minutes) = (h1 * 10 + h2, m1 * 10 + m2);
        if hours > 24 {
            return Err(self.beyond("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.beyond("time zone offset minute"));
        }
        self.rest = self.rest.get(6..).unwrap_or_default();
        Offset::from_seconds(sign * (hours * 3600 + minutes * 60))
            .map_err(|_| self.beyond("time zone offset hour"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_by_gos_layouts() {
        const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
        const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";
        for (sent, expect) in [
            ("2026-01-02T03:04:05Z", Ok("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.5+01:00", Ok("2026-01-02T02:04:05Z")),
            ("2026-01-02T3:04:05Z", Ok("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05,5Z", Ok("2026-01-02T03:04:05Z")),
            ("2026-13-02T03:04:05Z", Err(": month out of range")),
            ("2026-02-30T03:04:05Z", Err(": day out of range")),
            ("2026-01-02T03:04:05Zx", Err(": extra text: \"x\"")),
            ("2026-01-02T03:04:05+25:00", Err(": time zone offset hour out of range")),
        ] {
            let expect =
                expect.map(str::to_owned).map_err(|e: &str| format!("parsing time \"{sent}\"{e}"));
            assert_eq!(time(sent), expect);
        }
        for (sent, rest, part) in [
            ("x", "x", "2006"),
            ("2026-1-02T03:04:05Z", "1-02T03:04:05Z", "01"),
            ("2026-01-02T03:04:05", "", "Z07:00"),
            ("2026-01-02 03:04:05Z", " 03:04:05Z", "T"),
            ("2026-01-02T03:04", "", ":"),
            ("2026-01-02T03:04:05+0100", "+0100", "Z07:00"),
        ] {
            let expect = format!(
                "parsing time \"{sent}\" as \"{SECONDS}\": cannot parse \"{rest}\" as \"{part}\""
            );
            assert_eq!(time(sent), Err(expect));
        }
        for (sent, rest, part) in [
            ("2026-01-02T03:04:05Z", "Z", ".000000"),
            ("2026-01-02T03:04:05.5Z", ".5Z", ".000000"),
            ("2026-01-02T03:04:05.1234567Z", "7Z", "Z07:00"),
        ] {
            let expect = format!(
                "parsing time \"{sent}\" as \"{MICROS}\": cannot parse \"{rest}\" as \"{part}\""
            );
            assert_eq!(micro_time(sent), Err(expect));
        }
        assert_eq!(
            micro_time("2026-01-02T03:04:05.123456+00:00").as_deref(),
            Ok("2026-01-02T03:04:05.123456Z")
        );
    }

    #[test]
    fn bytes_are_read_as_go_reads_them() {
        for (sent, expect) in [
            ("", Ok("")),
            ("YQ==", Ok("YQ==")),
            ("Y\nQ==", Ok("YQ==")),
            ("YR==", Ok("YQ==")),
            ("abc=", Ok("abc=")),
            ("abc", Err(0)),
            ("a", Err(0)),
            ("a===", Err(1)),
            ("ab=", Err(3)),
            ("=", Err(0)),
            ("abcd=", Err(4)),
            ("ab!d", Err(2)),
            ("YQ==x", Err(4)),
            ("YWJj Z", Err(4)),
        ] {
            let expect = expect
                .map(str::to_owned)
                .map_err(|n| format!("illegal base64 data at input byte {n}"));
            assert_eq!(base64(sent), expect, "{sent}");
        }
    }
}
