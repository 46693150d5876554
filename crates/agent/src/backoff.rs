//! Writes to the API, one at a time, and how long to wait after one that failed.

use std::time::Duration;

use futures::future::BoxFuture;
use kit::ids::Ids;
use tokio::time::Instant;

/// The first wait and the longest.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));

/// Waits that double, spread between half and one and a half, so that thousands of agents do not come
/// back at one instant.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// It failed: the next try is later.
    pub(crate) fn failed(&mut self, ids: &Ids) {
        let exact = BOUNDS.0.saturating_mul(1 << self.failures.min(16)).min(BOUNDS.1);
        self.failures = self.failures.saturating_add(1);
        let mut bytes = [0; 2];
        // Without random numbers all come back at once, which is slower and still right.
        let share = match ids.fill(&mut bytes) {
            Ok(()) => f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX),
            Err(_) => 0.5,
        };
        self.until = Some(Instant::now() + exact.mul_f64(0.5 + share));
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// When the next try may begin, if that is not now.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }
}

/// A write that is under way, if one is.
pub(crate) type Writing<T> = Option<BoxFuture<'static, kube::Result<T>>>;

/// Waits for the write that is under way; for ever if there is none.
pub(crate) async fn answer<T>(writing: &mut Writing<T>) -> kube::Result<T> {
    let Some(write) = writing else { return std::future::pending().await };
    let answer = write.await;
    *writing = None;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_a_bound_and_end() {
        let ids = Ids::seeded(1);
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..40 {
            backoff.failed(&ids);
            waits.push(backoff.until().unwrap() - Instant::now());
        }
        assert!(waits[0] <= Duration::from_millis(300), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(90)), "{waits:?}");
        assert!(waits[30] >= Duration::from_secs(30), "{waits:?}");
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(backoff.until(), None);
        backoff.reset();
        backoff.failed(&ids);
        assert!(backoff.until().unwrap() - Instant::now() < Duration::from_secs(1));
    }
}
