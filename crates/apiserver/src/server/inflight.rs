//! How many requests are under way at a time, and whose they are.
//!
//! Guarantees: never more than the limit of their sort but for administrators, whom nobody can shut
//! out; and nobody who is alone at the door takes the last quarter of it, so that whoever comes next
//! is let in. When several come, none that holds more than an equal share gets more before the others
//! have theirs. Nobody waits: what is not let in is answered at once and told to come again, as
//! Kubernetes' clients do by themselves, so that a server under a held clock cannot stand still.
//! Watches and streams are not counted; they have limits of their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::{MASTERS, User};

/// How many requests may be under way at a time; zero is no limit. The defaults are a
/// kube-apiserver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// Those that only read.
    pub reading: usize,
    /// Those that may write.
    pub writing: usize,
}

impl InFlight {
    /// As many as come: what a server is that only its own process knows.
    pub const UNLIMITED: Self = Self { reading: 0, writing: 0 };
}

impl Default for InFlight {
    fn default() -> Self {
        Self { reading: 400, writing: 200 }
    }
}

/// The doors to the server.
#[derive(Debug)]
pub(super) struct Doors {
    reading: Arc<Door>,
    writing: Arc<Door>,
}

/// A limit, and who is inside.
#[derive(Debug)]
struct Door {
    limit: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    all: usize,
    by_user: BTreeMap<String, usize>,
    refused: u64,
}

/// Somebody who is inside, until dropped.
#[derive(Debug)]
pub(super) struct Entered {
    door: Arc<Door>,
    user: String,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inside = self.door.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.all -= 1;
        if let Some(own) = inside.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                inside.by_user.remove(&self.user);
            }
        }
    }
}

/// The server is full, or the user has a share already.
#[derive(Debug)]
pub(super) struct Full;

impl Doors {
    pub(super) fn new(limits: InFlight) -> Self {
        let door = |limit| Arc::new(Door { limit, inside: Mutex::default() });
        Self { reading: door(limits.reading), writing: door(limits.writing) }
    }

    /// Lets a request in by its verb.
    pub(super) fn enter(&self, user: &User, verb: &str) -> Result<Entered, Full> {
        let reads = matches!(verb, "get" | "list" | "watch");
        if reads { self.reading.enter(user) } else { self.writing.enter(user) }
    }

    /// What `/metrics` says of them.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut series = |name: &str, help: &str, sort: &str, of: fn(&Inside) -> u64| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {sort}");
            for (kind, door) in [("readOnly", &self.reading), ("mutating", &self.writing)] {
                let inside = door.inside.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = writeln!(text, "{name}{{request_kind=\"{kind}\"}} {}", of(&inside));
            }
        };
        series(
            "apiserver_current_inflight_requests",
            "Requests under way, but for watches and streams.",
            "gauge",
            |inside| inside.all as u64,
        );
        series(
            "apiserver_dropped_requests_total",
            "Requests that were not let in because too many were under way.",
            "counter",
            |inside| inside.refused,
        );
        text
    }
}

impl Door {
    fn enter(self: &Arc<Self>, user: &User) -> Result<Entered, Full> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let own = inside.by_user.get(&user.name).copied().unwrap_or(0);
        let free = user.is_in(MASTERS) || self.limit == 0;
        if !free && !inside.lets_in(own, self.limit) {
            inside.refused += 1;
            return Err(Full);
        }
        inside.all += 1;
        *inside.by_user.entry(user.name.clone()).or_default() += 1;
        Ok(Entered { door: Arc::clone(self), user: user.name.clone() })
    }
}

impl Inside {
    /// Whether one more comes in of somebody who has so many inside.
    fn lets_in(&self, own: usize, limit: usize) -> bool {
        if self.all >= limit {
            return false;
        }
        let users = self.by_user.len() + usize::from(own == 0);
        let share = if users == 1 { limit - limit / 4 } else { limit / users };
        own < share.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    fn enter_all(doors: &Doors, name: &str, verb: &str) -> Vec<Entered> {
        std::iter::from_fn(|| doors.enter(&user(name), verb).ok()).collect()
    }

    #[test]
    fn one_client_leaves_room_for_others_who_get_their_share() {
        let doors = Doors::new(InFlight { reading: 8, writing: 8 });
        let mut first = enter_all(&doors, "a", "create");
        assert_eq!(first.len(), 6);
        let second = enter_all(&doors, "b", "create");
        assert_eq!(second.len(), 2, "what was kept free");
        assert!(doors.enter(&user("c"), "create").is_err(), "it is full");
        assert!(doors.enter(&user("c"), "list").is_ok(), "reading is another matter");
        first.truncate(4);
        assert!(doors.enter(&user("a"), "create").is_err(), "the share is taken");
        let more = enter_all(&doors, "b", "create");
        assert_eq!(more.len(), 2, "up to the share");
        drop((first, second, more));
        assert_eq!(enter_all(&doors, "a", "create").len(), 6);
    }

    #[test]
    fn administrators_are_never_shut_out() {
        let doors = Doors::new(InFlight { reading: 1, writing: 1 });
        let _held = doors.enter(&user("a"), "get").unwrap();
        assert!(doors.enter(&user("b"), "get").is_err());
        let masters = User { groups: vec![MASTERS.to_owned()], ..user("m") };
        assert!(doors.enter(&masters, "get").is_ok());
        assert!(
            doors.text().contains("apiserver_dropped_requests_total{request_kind=\"readOnly\"} 1")
        );
    }

    #[test]
    fn no_limit_is_none() {
        let doors = Doors::new(InFlight::UNLIMITED);
        let all: Vec<Entered> =
            (0..5000).map(|_| doors.enter(&user("a"), "get").unwrap()).collect();
        assert_eq!(all.len(), 5000);
    }
}
