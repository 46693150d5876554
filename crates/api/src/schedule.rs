//! Cron schedules, as CronJobs have them: what one says, what is wrong with it, and when it is next.
//!
//! Guarantees: reads what upstream's parser (robfig/cron) reads, and refuses the rest in its words. An
//! hour that a clock skips has no times, one that it repeats has them twice, as upstream has it.
//! Does not know of seconds or years, and names no zone: whoever asks says in which zone clocks are read.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// The values that a field may have, and the names of some.
struct Bounds {
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

static FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds {
        least: 1,
        most: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Bounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Words that stand for five fields.
const WORDS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A schedule that has no time in this many years has none; upstream looks as far.
const YEARS: i16 = 5;

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule(Due);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// At every minute that all fields have.
    At([Field; 5]),
    /// So long after the last time.
    Every(SignedDuration),
}

/// A field: its values as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    values: u64,
    /// It is `*` or `?`: of two fields for days, such a one does not count.
    any: bool,
}

/// What is wrong with a schedule, in the words of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Schedule {
    /// Reads `*/5 0-3 1,15 jan-mar ?`, `@hourly` or `@every 90s`, with or without a `TZ=` before it,
    /// which [`zone_of`] reads.
    ///
    /// # Errors
    /// What is wrong with it: the first thing that is.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let rest = without_zone(text);
        let line = WORDS.iter().find(|(word, _)| *word == rest).map_or(rest, |(_, line)| line);
        if let Some(duration) = line.strip_prefix("@every ") {
            return every(duration).map(|every| Self(Due::Every(every))).ok_or_else(|| {
                let why = format!("time: invalid duration {duration:?}");
                Unreadable(format!("failed to parse duration {rest}: {why}"))
            });
        }
        if line.starts_with('@') {
            return Err(Unreadable(format!("unrecognized descriptor: {rest}")));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != FIELDS.len() {
            let found = format!("[{}]", words.join(" "));
            let why = format!("expected exactly 5 fields, found {}: {found}", words.len());
            return Err(Unreadable(why));
        }
        let mut fields = [Field::default(); 5];
        for ((field, word), bounds) in fields.iter_mut().zip(&words).zip(&FIELDS) {
            for part in word.split(',').filter(|part| !part.is_empty()) {
                let read = range(part, bounds).map_err(Unreadable)?;
                field.values |= read.values;
                field.any |= read.any;
            }
        }
        Ok(Self(Due::At(fields)))
    }

    /// The first time after `after`, where clocks go as in `zone`; none if there is none in five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let fields = match &self.0 {
            Due::Every(every) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                return whole.checked_add(*every).ok();
            }
            Due::At(fields) => fields,
        };
        let minute = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60).ok()?.to_zoned(zone.clone());
        let last = at.year().saturating_add(YEARS);
        // Offsets of zones that are no whole minutes are of the nineteenth century.
        while at.year() <= last {
            let [minutes, hours, _, months, _] = fields;
            at = if !months.has(at.month()) {
                at.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok()?
            } else if !day(fields, &at) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !hours.has(at.hour()) {
                at.checked_add((60 - i64::from(at.minute())).minutes()).ok()?
            } else if !minutes.has(at.minute()) {
                at.checked_add(1.minute()).ok()?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }
}

/// The zone that a schedule names for itself, as old ones do: `TZ=Europe/Zurich 0 3 * * *`.
pub fn zone_of(text: &str) -> Option<&str> {
    let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="))?;
    Some(zoned.split_once(' ').map_or(zoned, |(zone, _)| zone))
}

fn without_zone(text: &str) -> &str {
    match zone_of(text) {
        Some(_) => text.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => text,
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.values >> value & 1 == 1)
    }
}

/// A day is due if both fields have it; if both are restricted, if one has it.
fn day([_, _, days, _, weekdays]: &[Field; 5], at: &Zoned) -> bool {
    let (of_month, of_week) =
        (days.has(at.day()), weekdays.has(at.weekday().to_sunday_zero_offset()));
    match days.any || weekdays.any {
        true => of_month && of_week,
        false => of_month || of_week,
    }
}

/// `1h30m`, as Go writes durations; whole seconds, and one at least.
fn every(text: &str) -> Option<SignedDuration> {
    let known = |byte: u8| byte.is_ascii_digit() || b".hmsun".contains(&byte) || !byte.is_ascii();
    let text = text.strip_prefix('+').unwrap_or(text);
    let read: SignedDuration = text.bytes().all(known).then(|| text.parse().ok())??;
    Some(SignedDuration::from_secs(read.as_secs().max(1)))
}

fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let limits: Vec<&str> = parts[0].split('-').collect();
    let mut any = matches!(limits[0], "*" | "?");
    let (least, most) = (u64::from(bounds.least), u64::from(bounds.most));
    let (start, mut end) = if any {
        (least, most)
    } else {
        let start = number_or_name(limits[0], bounds)?;
        match limits.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if limits.len() == 1 {
                end = most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    any &= step <= 1;
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let values = (start..=end).step_by(step).fold(0, |values, value| values | 1 << value);
    Ok(Field { values, any })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().position(|known| *known == name) {
        Some(n) => Ok(n as u64 + u64::from(bounds.least)),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream_reads_them() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan-mar ?", "@hourly", "@every 1h", "0 0 * * sun"] {
            assert!(Schedule::parse(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("@never", "unrecognized descriptor: @never"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
        ] {
            assert_eq!(Schedule::parse(bad).unwrap_err().to_string(), why);
        }
    }

    /// The next times after one, in a zone, as clocks there show them.
    fn next(schedule: &str, after: &str, zone: &str) -> Vec<String> {
        let (schedule, zone) = (Schedule::parse(schedule).unwrap(), TimeZone::get(zone).unwrap());
        let mut at: Timestamp = after.parse().unwrap();
        let mut times = Vec::new();
        while let (Some(next), true) = (schedule.next(at, &zone), times.len() < 3) {
            times.push(next.to_zoned(zone.clone()).strftime("%a %F %H:%M%:z").to_string());
            at = next;
        }
        times
    }

    #[test]
    fn times_are_in_their_order() {
        let at = "2026-01-30T23:59:30Z";
        let all = ["Sat 2026-01-31 00:00+00:00", "Sat 2026-01-31 00:20+00:00"];
        assert_eq!(next("*/20 * * * *", at, "UTC")[..2], all);
        let all = ["Tue 2026-03-31 06:00+00:00", "Sun 2026-05-31 06:00+00:00"];
        assert_eq!(next("0 6 31 2-6 ?", at, "UTC")[..2], all);
        // Both fields for days are restricted: one is enough.
        let all = [
            "Sun 2026-02-01 12:00+00:00",
            "Mon 2026-02-02 12:00+00:00",
            "Mon 2026-02-09 12:00+00:00",
        ];
        assert_eq!(next("0 12 1 * mon", at, "UTC"), all);
        assert_eq!(next("0 0 29 2 *", at, "UTC")[..1], ["Tue 2028-02-29 00:00+00:00"]);
        assert_eq!(next("0 0 30 2 *", at, "UTC"), Vec::<String>::new());
        assert_eq!(next("@every 90s", at, "UTC")[..1], ["Sat 2026-01-31 00:01+00:00"]);
    }

    #[test]
    fn clocks_that_jump_skip_or_repeat() {
        let all = ["Sun 2026-03-29 01:30+01:00", "Sun 2026-03-29 03:30+02:00"];
        assert_eq!(next("30 1-3 * * *", "2026-03-29T00:00:00Z", "Europe/Zurich")[..2], all);
        let all = ["Sun 2026-10-25 02:30+02:00", "Sun 2026-10-25 02:30+01:00"];
        assert_eq!(next("30 2 * * *", "2026-10-25T00:00:00Z", "Europe/Zurich")[..2], all);
        let all = ["Sun 2026-03-29 12:00+02:00"];
        assert_eq!(next("0 12 * * *", "2026-03-28T22:00:00Z", "Europe/Zurich")[..1], all);
    }
}
