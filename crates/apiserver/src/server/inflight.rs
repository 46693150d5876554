//! How many requests are under way at a time, and whose they are.
//!
//! Guarantees: never more than the limit of their sort but for administrators, whom nobody can shut
//! out; and nobody who is alone at the door takes the last quarter of it, so that whoever comes next
//! is let in. When several come, none that holds more than an equal share gets more before the others
//! have theirs. Who finds no room waits in a line of his own, and the lines are served in turn: of six
//! thousand nodes that find their server again at one instant each renews its Lease before any is
//! served a tenth time. A line has an end, and so has the wait: then a client is told to come again, as
//! Kubernetes' clients do by themselves. Watches and streams are not counted; they have limits of their
//! own.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::auth::{MASTERS, User};

/// So many requests of one user may wait; a kube-apiserver's length of a queue.
const LINE: usize = 50;

/// So many requests may wait in all. One that waits holds its head and no more: its body is not read.
const LINES: usize = 10_000;

/// Nobody waits longer: a quarter of the minute that clients give a request, as in a kube-apiserver.
const PATIENCE: Duration = Duration::from_secs(15);

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
    /// Who waits, by user, in order of arrival. A user is in `turns` as long as he is here.
    lines: BTreeMap<String, VecDeque<(u64, oneshot::Sender<Entered>)>>,
    turns: VecDeque<String>,
    waiting: usize,
    /// Numbers those who wait.
    arrivals: u64,
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
        let mut inside = self.door.inside();
        inside.leave(&self.user);
        let called = inside.call(&self.door);
        drop(inside);
        for (caller, entered) in called {
            // Who has gone meanwhile is inside until this is dropped, and calls the next.
            let _ = caller.send(entered);
        }
    }
}

/// A place in a line, until dropped.
struct Place<'a> {
    door: &'a Arc<Door>,
    user: &'a str,
    number: u64,
    called: oneshot::Receiver<Entered>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        inside.waiting -= 1;
        if let Some(line) = inside.lines.get_mut(self.user) {
            line.retain(|(number, _)| *number != self.number);
        }
    }
}

/// What somebody at the door is told.
enum Told<'a> {
    Enter(Entered),
    Wait(Place<'a>),
    Full,
}

/// The server is full, or the user has a share already.
#[derive(Debug)]
pub(super) struct Full;

impl Doors {
    pub(super) fn new(limits: InFlight) -> Self {
        let door = |limit| Arc::new(Door { limit, inside: Mutex::default() });
        Self { reading: door(limits.reading), writing: door(limits.writing) }
    }

    /// Lets a request in by its verb, at once or when its turn comes.
    pub(super) async fn enter(&self, user: &User, verb: &str) -> Result<Entered, Full> {
        let reads = matches!(verb, "get" | "list" | "watch");
        let door = if reads { &self.reading } else { &self.writing };
        let entered = match door.ask(user) {
            Told::Enter(entered) => Some(entered),
            Told::Wait(mut place) => {
                tokio::time::timeout(PATIENCE, &mut place.called).await.ok().and_then(Result::ok)
            }
            Told::Full => None,
        };
        entered.ok_or_else(|| {
            door.inside().refused += 1;
            Full
        })
    }

    /// What `/metrics` says of them.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut series = |name: &str, help: &str, sort: &str, of: fn(&Inside) -> u64| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {sort}");
            for (kind, door) in [("readOnly", &self.reading), ("mutating", &self.writing)] {
                let inside = door.inside();
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
            "apiserver_current_inqueue_requests",
            "Requests that wait for their turn.",
            "gauge",
            |inside| inside.waiting as u64,
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
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<'a>(self: &'a Arc<Self>, user: &'a User) -> Told<'a> {
        let mut inside = self.inside();
        let free = user.is_in(MASTERS) || self.limit == 0;
        if free || inside.lets_in(&user.name, self.limit) {
            return Told::Enter(inside.enter(self, &user.name));
        }
        let line = inside.lines.get(&user.name).map_or(0, VecDeque::len);
        if line >= LINE || inside.waiting >= LINES {
            return Told::Full;
        }
        let (caller, called) = oneshot::channel();
        let number = inside.arrivals;
        inside.arrivals += 1;
        inside.waiting += 1;
        if !inside.lines.contains_key(&user.name) {
            inside.turns.push_back(user.name.clone());
        }
        inside.lines.entry(user.name.clone()).or_default().push_back((number, caller));
        Told::Wait(Place { door: self, user: &user.name, number, called })
    }
}

impl Inside {
    fn enter(&mut self, door: &Arc<Door>, user: &str) -> Entered {
        self.all += 1;
        *self.by_user.entry(user.to_owned()).or_default() += 1;
        Entered { door: Arc::clone(door), user: user.to_owned() }
    }

    fn leave(&mut self, user: &str) {
        self.all -= 1;
        if let Some(own) = self.by_user.get_mut(user) {
            *own -= 1;
            if *own == 0 {
                self.by_user.remove(user);
            }
        }
    }

    /// Whether one more comes in of a user.
    fn lets_in(&self, user: &str, limit: usize) -> bool {
        if self.all >= limit {
            return false;
        }
        let own = self.by_user.get(user).copied().unwrap_or(0);
        let users = self.by_user.len() + usize::from(own == 0);
        let share = if users == 1 { limit - limit / 4 } else { limit / users };
        own < share.max(1)
    }

    /// Those who wait and for whom there is room now, a user after the other.
    fn call(&mut self, door: &Arc<Door>) -> Vec<(oneshot::Sender<Entered>, Entered)> {
        let mut called = Vec::new();
        // Who holds his share already stays where he is in the round.
        let mut passed = Vec::new();
        while self.all < door.limit
            && let Some(user) = self.turns.pop_front()
        {
            if !self.lets_in(&user, door.limit) {
                passed.push(user);
                continue;
            }
            let line = self.lines.get_mut(&user);
            let Some((_, caller)) = line.and_then(VecDeque::pop_front) else {
                self.lines.remove(&user);
                continue;
            };
            if !caller.is_closed() {
                called.push((caller, self.enter(door, &user)));
            }
            self.turns.push_back(user);
        }
        for user in passed.into_iter().rev() {
            self.turns.push_front(user);
        }
        called
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt;

    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    /// As many as come in at once.
    fn enter_all(doors: &Doors, name: &str, verb: &str) -> Vec<Entered> {
        std::iter::from_fn(|| enter(doors, name, verb)).collect()
    }

    fn enter(doors: &Doors, name: &str, verb: &str) -> Option<Entered> {
        doors.enter(&user(name), verb).now_or_never()?.ok()
    }

    /// Somebody who wants to write, and has asked.
    fn waiting<'a>(
        doors: &'a Doors,
        user: &'a User,
    ) -> Pin<Box<dyn Future<Output = Result<Entered, Full>> + 'a>> {
        let mut waits = Box::pin(doors.enter(user, "create"));
        assert!((&mut waits).now_or_never().is_none(), "there was room for {}", user.name);
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_leaves_room_for_others_who_get_their_share() {
        let doors = Doors::new(InFlight { reading: 8, writing: 8 });
        let mut first = enter_all(&doors, "a", "create");
        assert_eq!(first.len(), 6);
        let second = enter_all(&doors, "b", "create");
        assert_eq!(second.len(), 2, "what was kept free");
        assert!(enter(&doors, "c", "create").is_none(), "it is full");
        assert!(enter(&doors, "c", "list").is_some(), "reading is another matter");
        first.truncate(4);
        assert!(enter(&doors, "a", "create").is_none(), "the share is taken");
        let more = enter_all(&doors, "b", "create");
        assert_eq!(more.len(), 2, "up to the share");
        drop((first, second, more));
        assert_eq!(enter_all(&doors, "a", "create").len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_served_in_turn() {
        let doors = Doors::new(InFlight { reading: 1, writing: 1 });
        let held = enter(&doors, "m", "create").unwrap();
        let (a, b, c) = (user("a"), user("b"), user("c"));
        let [mut a1, mut a2] = [waiting(&doors, &a), waiting(&doors, &a)];
        let (b1, mut c1) = (waiting(&doors, &b), waiting(&doors, &c));
        assert!(doors.text().contains("inqueue_requests{request_kind=\"mutating\"} 4"));
        drop(held);
        let first = a1.as_mut().now_or_never().expect("the first who came").unwrap();
        assert!(a2.as_mut().now_or_never().is_none() && c1.as_mut().now_or_never().is_none());
        // Who gives up is passed over.
        drop(b1);
        drop(first);
        let second = c1.as_mut().now_or_never().expect("another's turn").unwrap();
        drop(second);
        let third = a2.as_mut().now_or_never().expect("then the first's again").unwrap();
        drop((a1, a2, c1));
        assert!(doors.text().contains("inqueue_requests{request_kind=\"mutating\"} 0"));
        drop(third);
        assert!(enter(&doors, "d", "create").is_some());
        let inside = doors.writing.inside();
        assert!(inside.lines.is_empty() && inside.turns.is_empty(), "{inside:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_has_an_end_and_so_has_the_wait() {
        let doors = Doors::new(InFlight { reading: 1, writing: 1 });
        let _held = enter(&doors, "m", "create").unwrap();
        let a = user("a");
        let mut line: Vec<_> = (0..LINE).map(|_| waiting(&doors, &a)).collect();
        let next = doors.enter(&a, "create").now_or_never().expect("an answer at once");
        assert!(next.is_err(), "the line is full");
        line.truncate(1);
        assert!(line.remove(0).await.is_err(), "nobody left within the time");
        assert!(doors.text().contains("dropped_requests_total{request_kind=\"mutating\"} 2"));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_called_and_has_gone_calls_the_next() {
        let doors = Doors::new(InFlight { reading: 1, writing: 1 });
        let held = enter(&doors, "m", "create").unwrap();
        let (a, b) = (user("a"), user("b"));
        let (first, mut second) = (waiting(&doors, &a), waiting(&doors, &b));
        drop(held);
        drop(first);
        assert!(second.as_mut().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn administrators_are_never_shut_out() {
        let doors = Doors::new(InFlight { reading: 1, writing: 1 });
        let _held = enter(&doors, "a", "get").unwrap();
        assert!(enter(&doors, "b", "get").is_none());
        let masters = User { groups: vec![MASTERS.to_owned()], ..user("m") };
        assert!(doors.enter(&masters, "get").now_or_never().is_some_and(|told| told.is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_is_none() {
        let doors = Doors::new(InFlight::UNLIMITED);
        let all: Vec<Entered> = (0..5000).map(|_| enter(&doors, "a", "get").unwrap()).collect();
        assert_eq!(all.len(), 5000);
    }
}
