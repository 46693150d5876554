//! Which of the times of a schedule is due.

use api::schedule::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;

/// More times than this were missed: something is wrong, and it is said.
const MANY: i64 = 100;
/// A controller that looks at the very instant might see a clock that is not there yet.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

/// The times of a CronJob, seen from now.
pub(super) struct Times<'a> {
    pub(super) schedule: Schedule,
    pub(super) zone: &'a TimeZone,
    pub(super) cron_job: &'a CronJob,
    pub(super) now: Timestamp,
}

/// How many times have passed since the last one for which there was a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// So few that it is nothing to speak of.
    Few,
    /// Very many.
    Many,
}

/// Whether it is too late for a time.
pub(super) fn is_late(time: Timestamp, deadline: Option<i64>, now: Timestamp) -> bool {
    deadline.is_some_and(|seconds| {
        let last = time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        last < now
    })
}

impl Times<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.zone)
    }

    /// Since when times count: the last one that had its Job, else the birth of the CronJob.
    fn since(&self) -> Timestamp {
        let status = self.cron_job.status.as_ref();
        let last = status.and_then(|status| status.last_schedule_time.as_ref());
        let born = self.cron_job.metadata.creation_timestamp.as_ref();
        last.or(born).map_or(self.now, |time| time.0)
    }

    /// The latest time that has come and for which there was no Job, no earlier than the deadline
    /// allows.
    pub(super) fn due(&self, deadline: Option<i64>) -> Option<(Timestamp, Missed)> {
        let since = self.since();
        let earliest = deadline
            .and_then(|seconds| self.now.checked_sub(SignedDuration::from_secs(seconds)).ok());
        let first = self.next(earliest.map_or(since, |earliest| earliest.max(since)))?;
        if self.now < first {
            return None;
        }
        let second = self.next(first).filter(|second| *second <= self.now);
        let Some(second) = second else { return Some((first, Missed::Few)) };
        // All of them could be years: as upstream does, most are skipped by the distance of the first
        // two, and the rest are looked at.
        let distance = second.as_second() - first.as_second();
        let passed = (self.now.as_second() - first.as_second()) / distance + 1;
        let skip = SignedDuration::from_secs((passed - 2).max(0) * distance);
        let mut latest = first;
        let mut at = first.checked_add(skip).unwrap_or(first).max(first);
        while let Some(next) = self.next(at).filter(|next| *next <= self.now) {
            (latest, at) = (next, next);
        }
        Some((latest, if passed > MANY { Missed::Many } else { Missed::Few }))
    }

    /// When to look again: at the next time after the latest that has come.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let latest = self.due(None).map_or_else(|| self.since(), |(latest, _)| latest);
        self.next(latest)?.checked_add(MARGIN).ok()
    }
}
