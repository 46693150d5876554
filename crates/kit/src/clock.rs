//! Wall time, from one place.
//!
//! A [`Clock`] is handed to whoever must know the time; nobody reads the system's clock otherwise.
//! A simulated clock moves with tokio's, so that a paused runtime holds wall time still as well and
//! advances it together with its timers.
//!
//! It does not sleep or schedule: that is tokio's part.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use tokio::time::Instant;

/// Where the current time comes from. Cheap to clone; clones agree.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated { start: Timestamp, origin: Instant },
}

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that reads `start` now and then moves with tokio's clock, paused or not.
    pub fn simulated(start: Timestamp) -> Self {
        Self(Source::Simulated { start, origin: Instant::now() })
    }

    /// The current time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::System => Timestamp::now(),
            // Simulated time stops at the end of the calendar rather than wrapping.
            Source::Simulated { start, origin } => {
                start.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// `2026-01-02T03:04:05Z`, the form of Kubernetes' `Time`. Fractions are cut off, not rounded.
pub fn rfc3339_seconds(at: Timestamp) -> String {
    const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    SECONDS.timestamp_to_string(&at)
}

/// `2026-01-02T03:04:05.000006Z`, the form of Kubernetes' `MicroTime`.
pub fn rfc3339_micros(at: Timestamp) -> String {
    const MICROS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    MICROS.timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn formats_cut_and_pad() {
        let check = |input: &str, seconds: &str, micros: &str| {
            assert_eq!(rfc3339_seconds(at(input)), seconds);
            assert_eq!(rfc3339_micros(at(input)), micros);
        };
        check("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z");
        check(
            "2026-01-02T03:04:05.999999999Z",
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.999999Z",
        );
        check("2026-01-02T03:04:05.1+02:00", "2026-01-02T01:04:05Z", "2026-01-02T01:04:05.100000Z");
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_moves_with_tokio_only() {
        let clock = Clock::simulated(at("2026-01-01T00:00:00Z"));
        assert_eq!(clock.now(), at("2026-01-01T00:00:00Z"));
        tokio::time::advance(Duration::from_secs(349 * 86_400)).await;
        assert_eq!(clock.clone().now(), at("2026-12-16T00:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_stops_at_the_end_of_the_calendar() {
        let clock = Clock::simulated(Timestamp::MAX);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), Timestamp::MAX);
    }

    #[test]
    fn system_time_is_not_in_the_past() {
        assert!(Clock::system().now() > at("2024-01-01T00:00:00Z"));
    }
}
