//! Objects that live for a while only: the leases that end them.
//!
//! The server has no timer. What has outlived its time is removed by whichever request comes next,
//! before that is carried out, so that nobody sees it; and by whoever runs the server, so that
//! watchers learn of it when nobody asks. Under a paused clock events last as long as the pause.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use store::LeaseId;

use super::ApiServer;
use crate::status::ApiError;

/// How much longer than asked an object may live, so that many share a lease; upstream's figure.
const SLACK: Duration = Duration::from_secs(60);

/// How many objects share a lease, so that none ends too many at once; upstream's figure.
const SHARED_BY: u32 = 1_000;

/// The lease that new objects share, of the last duration that was asked for.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<Option<Shared>>);

#[derive(Debug, Clone, Copy)]
struct Shared {
    id: LeaseId,
    /// When it ends, in milliseconds since 1970.
    ends: u64,
    ttl: Duration,
    free: u32,
}

impl Leases {
    fn take(&self, ttl: Duration, until: u64) -> Option<LeaseId> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |s: &&mut Shared| s.ttl == ttl && s.ends >= until && s.free > 0;
        let lease = shared.as_mut().filter(fits)?;
        lease.free -= 1;
        Some(lease.id)
    }

    fn share(&self, lease: Shared) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl ApiServer {
    /// A lease for an object that is written now and lives for `ttl`, or a little longer.
    pub(crate) async fn lease(&self, ttl: Duration) -> Result<LeaseId, ApiError> {
        let now = self.milliseconds();
        if let Some(id) = self.0.leases.take(ttl, now.saturating_add(millis(ttl))) {
            return Ok(id);
        }
        let life = ttl.saturating_add(SLACK);
        let id = self.store().grant(None, millis(life), now).await.map_err(ApiError::internal)?;
        let ends = now.saturating_add(millis(life));
        self.0.leases.share(Shared { id, ends, ttl, free: SHARED_BY - 1 });
        Ok(id)
    }

    /// Removes what has outlived its time. Requests do so by themselves; whoever runs the server
    /// calls it now and then, so that watchers hear of it while there are none.
    pub async fn expire(&self) {
        let now = self.milliseconds();
        if self.store().next_expiry().is_none_or(|next| next > now) {
            return;
        }
        if let Err(error) = self.store().expire(now).await {
            // What should have gone is seen a little longer; the next request tries again.
            tracing::error!(%error, "cannot remove what has outlived its time");
        }
    }

    /// The time as leases count it.
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.0.clock.now().as_millisecond()).unwrap_or(0)
    }
}
