//! Who is connected: how many may be, and how they leave.
//!
//! A connection that waits for a request is idle and may be ended at any moment; one that is being
//! answered is not, until the time for that is over.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    most: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    next: u64,
    guests: HashMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    socket: Arc<TcpStream>,
    busy: bool,
}

/// A place within, which is given back when dropped.
pub(super) struct Pass {
    gate: Arc<Gate>,
    number: u64,
}

impl Gate {
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), left: Condvar::new() }
    }

    /// Lets a connection in; `None` if there are too many, or nobody is let in any more.
    pub(super) fn enter(self: &Arc<Self>, socket: &Arc<TcpStream>) -> Option<Pass> {
        let mut state = self.lock();
        if state.closed || state.guests.len() >= self.most {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.guests.insert(number, Guest { socket: Arc::clone(socket), busy: false });
        Some(Pass { gate: Arc::clone(self), number })
    }

    /// Ends who is idle at once, and whoever is left after so long. Whether nobody was.
    pub(super) fn close(&self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        let mut state = self.lock();
        state.closed = true;
        for guest in state.guests.values().filter(|guest| !guest.busy) {
            // An error means that the other side was faster.
            let _ = guest.socket.shutdown(Shutdown::Both);
        }
        while !state.guests.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for guest in state.guests.values() {
                    let _ = guest.socket.shutdown(Shutdown::Both);
                }
                return false;
            }
            state = self.left.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Says whether a request is being answered; whether another may be after it.
    pub(super) fn busy(&self, busy: bool) -> bool {
        let mut state = self.gate.lock();
        if let Some(guest) = state.guests.get_mut(&self.number) {
            guest.busy = busy;
        }
        !state.closed
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.lock().guests.remove(&self.number);
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(listener.accept().unwrap().0), client)
    }

    #[test]
    fn as_many_come_in_as_may() {
        let gate = Arc::new(Gate::new(1));
        let (socket, _client) = pair();
        let pass = gate.enter(&socket);
        assert!(pass.is_some() && gate.enter(&socket).is_none());
        drop(pass);
        assert!(gate.enter(&socket).is_some());
    }

    #[test]
    fn who_is_idle_leaves_at_once_and_who_is_busy_when_it_is_over() {
        let gate = Arc::new(Gate::new(2));
        let ((idle, mut waiting), (busy, mut reading)) = (pair(), pair());
        let (first, second) = (gate.enter(&idle).unwrap(), gate.enter(&busy).unwrap());
        second.busy(true);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| gate.close(Duration::from_secs(3600)));
            assert_eq!(waiting.read(&mut [0]).unwrap(), 0);
            drop(first);
            assert!(!second.busy(false), "nothing more is answered");
            drop(second);
            assert!(closing.join().unwrap());
        });
        let late = Arc::new(Gate::new(1));
        let pass = late.enter(&busy).unwrap();
        pass.busy(true);
        assert!(!late.close(Duration::ZERO));
        assert_eq!(reading.read(&mut [0]).unwrap(), 0);
    }
}
