//! How long is waited for what, and waiting that can be called off.

use std::net::{Shutdown, TcpStream};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long is waited for what. The defaults suit object storage over a datacentre's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, per address of the host.
    pub connect: Duration,
    /// Without a byte, before a connection is given up as stalled.
    pub stall: Duration,
    /// Failures of one range in a row, without a byte between them, that end the load.
    pub tries: NonZero<u32>,
    /// Bounds the wait before the second try; every further one doubles the bound. The wait itself is
    /// a random part of the bound, so that a thousand clients do not come back at once.
    pub backoff: Duration,
    /// The longest wait between tries. A server that asks for a longer one (`Retry-After`) ends the
    /// load.
    pub longest: Duration,
    /// How long a range must have been under way before it is asked for a second time beside the
    /// first, when there is nothing else left to read.
    pub hedge: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(20),
            tries: NonZero::new(10).unwrap_or(NonZero::<u32>::MIN),
            backoff: Duration::from_millis(100),
            longest: Duration::from_secs(60),
            hedge: Duration::from_millis(300),
        }
    }
}

impl Patience {
    /// How long to wait after so many failures in a row: "full jitter", a random part of a bound that
    /// doubles. `chance` is 0 to 1.
    pub(crate) fn wait(&self, failures: u32, chance: f64) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(doubled.max(1)).min(self.longest).mul_f64(chance)
    }
}

/// A random number from 0 to 1. Where the system has none, the half: waiting is all it is for.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// The strings of one read under way: how far it is, and how to end it from outside whatever it waits
/// for.
#[derive(Debug, Default)]
pub(crate) struct Reins {
    state: Mutex<State>,
    called: Condvar,
    at: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    over: bool,
    socket: Option<Arc<TcpStream>>,
}

impl Reins {
    /// Ends the read: it fails, now or when it next would wait.
    pub(crate) fn call_off(&self) {
        let mut state = self.lock();
        state.over = true;
        if let Some(socket) = state.socket.take() {
            // Wakes who reads from it; an error means that it is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.called.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Says which connection the read waits on from now on; false if it was called off.
    pub(crate) fn hold(&self, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.lock();
        if !state.over {
            state.socket = Some(Arc::clone(socket));
        }
        !state.over
    }

    /// Says that the connection is not the read's any more.
    pub(crate) fn release(&self) {
        self.lock().socket = None;
    }

    /// Waits so long; false if it was called off.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.called.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Where the read is: the next byte that it wants.
    pub(crate) fn at(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_at(&self, at: u64) {
        self.at.store(at, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_a_part_of_it() {
        let patience = Patience::default();
        let waits = [1, 2, 3, 100].map(|failures| patience.wait(failures, 1.0).as_millis());
        assert_eq!(waits, [100, 200, 400, 60_000]);
        assert_eq!(patience.wait(3, 0.5).as_millis(), 200);
        assert_eq!(patience.wait(3, 0.0), Duration::ZERO);
        assert!((0..100).map(|_| chance()).all(|part| (0.0..=1.0).contains(&part)));
    }

    #[test]
    fn who_waits_is_called_off() {
        let reins = Reins::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reins.wait(Duration::from_secs(3600)));
            reins.call_off();
            assert!(!waiting.join().unwrap());
        });
        assert!(reins.is_over() && !reins.wait(Duration::ZERO));
        assert!(Reins::default().wait(Duration::ZERO));
    }
}
