//! Timestamps and durations: parsing, printing, arithmetic and the calendar.
//!
//! Durations are nanoseconds in 64 bits and timestamps lie in the years 1 to 9999, as in Go and
//! CEL. A timestamp does not remember the offset it was written with: it prints in UTC.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::meter::{Fail, Meter, fail, no_overload};
use super::numbers::no_conversion;
use super::operators::INT_OVERFLOW;
use super::value::{Out, Val};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The first and last second of the years that timestamps may have.
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

/// A point in time: nanoseconds since 1970, in the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(i128);

impl Instant {
    fn of_nanos(nanos: i128) -> Option<Self> {
        let second = i64::try_from(nanos.div_euclid(SECOND.into())).ok()?;
        (FIRST_SECOND..=LAST_SECOND).contains(&second).then_some(Self(nanos))
    }

    /// Nanoseconds since 1970.
    pub(super) fn nanos(self) -> i128 {
        self.0
    }

    /// Seconds since 1970, rounded down.
    pub(super) fn seconds(self) -> i64 {
        self.0.div_euclid(SECOND.into()) as i64
    }

    fn civil(self) -> DateTime {
        let since = SignedDuration::from_nanos_i128(self.0);
        DateTime::constant(1970, 1, 1, 0, 0, 0, 0).saturating_add(since)
    }
}

/// A duration, unless it overflowed.
pub(super) fn duration<'a>(nanos: Option<i64>) -> Out<'a> {
    nanos.map_or_else(|| fail(INT_OVERFLOW), |n| Ok(Val::Duration(n)))
}

/// A timestamp moved by some nanoseconds.
pub(super) fn shift<'a>(t: Instant, nanos: i128) -> Out<'a> {
    match Instant::of_nanos(t.0 + nanos) {
        Some(t) => Ok(Val::Timestamp(t)),
        None => fail("timestamp overflow"),
    }
}

pub(super) fn to_duration<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Duration(*nanos)),
        [Val::Str(s)] => match parse_duration(s) {
            Some(nanos) => Ok(Val::Duration(nanos)),
            None => no_conversion("string", "google.protobuf.Duration"),
        },
        [Val::Int(_)] => no_conversion("int", "google.protobuf.Duration"),
        _ => no_overload(),
    }
}

pub(super) fn to_timestamp<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Timestamp(t)] => Ok(Val::Timestamp(*t)),
        [Val::Int(seconds)] => match Instant::of_nanos(i128::from(*seconds) * i128::from(SECOND)) {
            Some(t) => Ok(Val::Timestamp(t)),
            None => fail("timestamp overflow"),
        },
        [Val::Str(s)] => match parse_rfc3339(s) {
            Some(t) => match Instant::of_nanos(t) {
                Some(t) => Ok(Val::Timestamp(t)),
                None => fail("timestamp overflow"),
            },
            None => no_conversion("string", "google.protobuf.Timestamp"),
        },
        _ => no_overload(),
    }
}

/// A duration as Go reads it: `1h30m`, `-1.5s`, `0`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => i128::from(SECOND),
            "m" => i128::from(MINUTE),
            "h" => i128::from(HOUR),
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
        // Digits beyond the eighteenth are worth less than a nanosecond of an hour.
        let fraction = &fraction[..fraction.len().min(18)];
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        total += whole * unit + part * unit / 10i128.pow(fraction.len() as u32);
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A duration as the `duration` format admits it: Go's, or words such as `3 days`.
pub(super) fn parse_format_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], MINUTE),
        (&["h", "hr", "hour"], HOUR),
        (&["d", "day"], 24 * HOUR),
        (&["w", "wk", "week"], 7 * 24 * HOUR),
    ];
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let word_end =
            tail.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(tail.len());
        let (word, tail) = tail.split_at(word_end);
        rest = tail;
        if word.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        let word = word.to_lowercase();
        for (names, nanos) in UNITS {
            let last = names.last().copied().unwrap_or_default();
            if names.contains(&word.as_str()) || word.starts_with(last) {
                total = Some(total.unwrap_or(0).wrapping_add(number.wrapping_mul(nanos)));
            }
        }
    }
    total
}

fn digits(text: &str, from: usize, count: usize) -> Option<i64> {
    let part = text.get(from..from + count)?;
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
}

/// A full date, as RFC 3339 has it.
fn civil_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    Date::new(year as i16, month as i8, day as i8).ok()
}

/// The date alone, at midnight UTC.
pub(super) fn parse_date(text: &str) -> Option<Instant> {
    if text.len() != 10 {
        return None;
    }
    Instant::of_nanos(at_offset(civil_date(text)?.at(0, 0, 0, 0), 0))
}

/// Nanoseconds since 1970 of a wall clock that is ahead by some seconds.
fn at_offset(t: DateTime, ahead: i64) -> i128 {
    let since = t.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    since.as_nanos() - i128::from(ahead) * i128::from(SECOND)
}

/// A timestamp exactly as RFC 3339 and Go have it.
fn parse_rfc3339(text: &str) -> Option<i128> {
    let (t, offset) = date_and_time(text)?;
    let seconds = match offset.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (digits(offset, 1, 2)?, digits(offset, 4, 2)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    Some(at_offset(t, seconds))
}

/// Date, time and fraction, and what follows them.
fn date_and_time(text: &str) -> Option<(DateTime, &str)> {
    let date = civil_date(text)?;
    let bytes = text.as_bytes();
    if bytes.get(10) != Some(&b'T') || bytes.get(13) != Some(&b':') || bytes.get(16) != Some(&b':')
    {
        return None;
    }
    let (hour, minute, second) = (digits(text, 11, 2)?, digits(text, 14, 2)?, digits(text, 17, 2)?);
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return None;
        }
        let shown = &fraction[..end.min(9)];
        nanos = format!("{shown:0<9}").parse().ok()?;
        rest = &fraction[end..];
    }
    if second > 59 {
        return None;
    }
    let t = DateTime::new(
        date.year(),
        date.month(),
        date.day(),
        hour as i8,
        minute as i8,
        second as i8,
        nanos,
    );
    Some((t.ok()?, rest))
}

/// A timestamp as the `date-time` format admits it: RFC 3339, or a local time taken as UTC.
pub(super) fn parse_date_time(text: &str) -> Option<Instant> {
    if text.is_empty() {
        return Instant::of_nanos(0);
    }
    let nanos = parse_rfc3339(text).or_else(|| match date_and_time(text)? {
        (t, "") => Some(at_offset(t, 0)),
        _ => None,
    })?;
    Instant::of_nanos(nanos)
}

/// A duration in seconds, with as many decimals as it has.
pub(super) fn show_duration(nanos: i64) -> String {
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

/// A timestamp in UTC, with as many decimals as it has.
pub(super) fn show_timestamp(t: Instant) -> String {
    format!("{}Z", t.civil())
}

/// The wall clock where it is ahead of UTC.
fn ahead(t: Instant, offset: Offset) -> DateTime {
    t.civil().saturating_add(SignedDuration::from_secs(offset.seconds().into()))
}

/// The wall clock of a timestamp, in the zone that the second argument names.
fn local(args: &[Val<'_>]) -> Result<DateTime, Fail> {
    match args {
        [Val::Timestamp(t)] => Ok(t.civil()),
        [Val::Timestamp(t), Val::Str(zone)] => match zone.split_once(':') {
            None if zone.is_empty() || &**zone == "UTC" => Ok(t.civil()),
            None => match TimeZone::get(zone) {
                Ok(zone) => {
                    // The rules of a zone are known a little less far than timestamps reach.
                    let near = Timestamp::from_second(t.seconds()).unwrap_or(Timestamp::MAX);
                    Ok(ahead(*t, zone.to_offset(near)))
                }
                Err(_) => fail(format!("unknown time zone {}", &**zone)),
            },
            Some((hours, minutes)) => {
                let number = |s: &str| match s.parse::<i32>() {
                    Ok(n) if n.abs() < 1000 => Ok(n),
                    _ => fail(format!("strconv.Atoi: parsing \"{s}\": invalid syntax")),
                };
                let (h, m) = (number(hours)?, number(minutes)?);
                let minutes = if hours.starts_with('-') { h * 60 - m } else { h * 60 + m };
                match Offset::from_seconds(minutes * 60) {
                    Ok(offset) => Ok(ahead(*t, offset)),
                    Err(_) => fail("time zone offset out of range"),
                }
            }
        },
        _ => no_overload(),
    }
}

pub(super) fn full_year<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(local(args)?.year().into()))
}

pub(super) fn month<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(i64::from(local(args)?.month()) - 1))
}

pub(super) fn day_of_year<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(i64::from(local(args)?.day_of_year()) - 1))
}

pub(super) fn day_of_month<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(i64::from(local(args)?.day()) - 1))
}

pub(super) fn date<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(local(args)?.day().into()))
}

pub(super) fn day_of_week<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    Ok(Val::Int(local(args)?.weekday().to_sunday_zero_offset().into()))
}

pub(super) fn hours<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / HOUR)),
        _ => Ok(Val::Int(local(args)?.hour().into())),
    }
}

pub(super) fn minutes<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / MINUTE)),
        _ => Ok(Val::Int(local(args)?.minute().into())),
    }
}

pub(super) fn seconds<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / SECOND)),
        _ => Ok(Val::Int(local(args)?.second().into())),
    }
}

pub(super) fn milliseconds<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 1_000_000)),
        _ => Ok(Val::Int(local(args)?.millisecond().into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        let cases = [
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("-2ms", Some(-2_000_000)),
            (".5s", Some(500_000_000)),
            ("0", Some(0)),
            ("1", None),
            ("", None),
            ("1x", None),
            ("9999999h", None),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_duration(text), expect, "{text}");
        }
        assert_eq!(parse_format_duration("3 days"), Some(3 * 24 * HOUR));
        assert_eq!(parse_format_duration("soon"), None);
    }

    #[test]
    fn timestamps_are_rfc3339() {
        for (text, ok) in [
            ("2020-01-01T00:00:00Z", true),
            ("2020-01-01T00:00:00.123+01:00", true),
            ("2020-01-01T00:00:00", false),
            ("2020-01-01 00:00:00Z", false),
            ("2020-13-01T00:00:00Z", false),
            ("2020-01-01T00:00:60Z", false),
            ("2020-01-01T00:00:00é", false),
        ] {
            assert_eq!(parse_rfc3339(text).is_some(), ok, "{text}");
        }
    }
}
