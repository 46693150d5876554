//! Durations and ages in the short form that kubectl prints.

use jiff::Timestamp;

/// What stands for a time that nobody can have meant: one to come, or no time at all.
pub(crate) const INVALID: &str = "<invalid>";

/// The longest duration that upstream can count: 2^63 - 1 nanoseconds.
const LONGEST: i64 = i64::MAX / 1_000_000_000;

/// The time since an RFC 3339 time.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    time.parse().map_or_else(|_| INVALID.to_owned(), |then| since(then, now))
}

/// The time from one moment to another.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(then).as_secs())
}

/// Kubernetes' short form of a duration in seconds: at most two units.
pub(crate) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match seconds.min(LONGEST) {
        i64::MIN..-1 => INVALID.to_owned(),
        -1..=0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        for (seconds, want) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (30 * 3600, "30h"),
            (3 * 86400 + 7200, "3d2h"),
            (100 * 86400, "100d"),
            (3 * 365 * 86400, "3y"),
            (3 * 365 * 86400 + 86400, "3y1d"),
            (9 * 365 * 86400, "9y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(human(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn ages_are_cut_to_whole_seconds() {
        let now: Timestamp = "2026-01-01T00:00:10.9Z".parse().unwrap();
        for (then, want) in [
            ("2026-01-01T00:00:09Z", "1s"),
            ("2026-01-01T00:00:12Z", "0s"),
            ("2026-01-01T00:00:13Z", "<invalid>"),
            ("2025-12-31T23:58:10.900000Z", "2m"),
            ("never", "<invalid>"),
        ] {
            assert_eq!(age(then, now), want, "{then}");
        }
    }
}
