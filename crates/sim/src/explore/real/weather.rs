//! What goes wrong between the parts of a site: one fate for each request, drawn.
//!
//! Guarantees: every draw comes from the schedule's number, in the order in which requests come; in
//! calm weather nothing goes wrong and nothing is drawn. It only says what happens: [`super::wire`]
//! and [`super::bmc`] make it happen.

use super::super::draw::Draw;
use super::super::tale::Disturbance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Between whom something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// The lists and watches of all controllers: what their caches hold.
    Reader,
    /// What a controller asks and writes itself.
    Controller,
    /// Agents and kubelets.
    Hosts,
    /// What BMCs are asked and told.
    Bmc,
}

impl Link {
    /// Every link.
    pub(super) const ALL: [Self; 4] = [Self::Reader, Self::Controller, Self::Hosts, Self::Bmc];
}

/// What a request is, as far as that matters to what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Nothing changes by it.
    Read,
    /// The beginning of a watch; whether it takes up one that ended.
    Watch {
        /// It names the revision to go on from.
        resumes: bool,
    },
    /// A patch, which can meet a conflict.
    Patch,
    /// Whatever else changes something.
    Write,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives, and so does its answer.
    Well,
    /// It never arrives.
    Lost,
    /// It arrives, and its answer does not.
    Unheard,
    /// It is answered with this status, and not done.
    Refused(u16),
    /// Whoever asked dies, before it arrives or after.
    Dies {
        /// It arrives before.
        after: bool,
    },
}

/// A request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Until it arrives.
    pub(super) before: Duration,
    /// What becomes of it.
    pub(super) fate: Fate,
    /// Until its answer arrives.
    pub(super) after: Duration,
}

impl Passage {
    pub(super) const WELL: Self =
        Self { before: Duration::ZERO, fate: Fate::Well, after: Duration::ZERO };
}

/// How a watch ends that is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection ends.
    Cut,
    /// The server has forgotten what would come next.
    Expired,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Weather(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    died: Notify,
}

struct Inner {
    draw: Draw,
    storm: bool,
    /// Until when nothing passes.
    cut: BTreeMap<Link, Instant>,
    /// Until when what a watch says is late, and by how much at most.
    late: BTreeMap<Link, (Instant, u64)>,
    /// After how many writes of controllers their process dies, and on which side of the last.
    dies: Option<(usize, bool)>,
    /// Watches that go on.
    watches: Vec<(Link, oneshot::Sender<End>)>,
    /// What came about on its own, to be counted.
    met: Vec<Disturbance>,
}

impl Weather {
    /// Calm.
    pub(super) fn new(seed: u64) -> Self {
        let inner = Inner {
            draw: Draw::new(seed ^ 0x57E_A7E5),
            storm: false,
            cut: BTreeMap::new(),
            late: BTreeMap::new(),
            dies: None,
            watches: Vec::new(),
            met: Vec::new(),
        };
        Self(Arc::new(Shared { inner: Mutex::new(inner), died: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on requests meet fates.
    pub(super) fn storm(&self) {
        self.lock().storm = true;
    }

    /// From now on all is well.
    pub(super) fn calm(&self) {
        let mut inner = self.lock();
        inner.storm = false;
        inner.cut.clear();
        inner.late.clear();
        inner.dies = None;
    }

    /// Nothing passes here for a while; watches end.
    pub(super) fn cut(&self, link: Link, wait: Duration) {
        self.lock().cut.insert(link, Instant::now() + wait);
        self.break_watches(link, End::Cut);
    }

    /// Watches say what they say late for a while.
    pub(super) fn delay(&self, link: Link, wait: Duration, seconds: u64) {
        self.lock().late.insert(link, (Instant::now() + wait, seconds));
    }

    /// Watches that go on here end.
    pub(super) fn break_watches(&self, link: Link, how: End) {
        let mut broken = Vec::new();
        self.lock().watches.retain_mut(|(of, end)| {
            let here = *of == link && !end.is_closed();
            if here {
                broken.push(std::mem::replace(end, oneshot::channel().0));
            }
            !here && !end.is_closed()
        });
        for end in broken {
            // One that has ended meanwhile needs no end.
            let _ = end.send(how);
        }
    }

    /// The controllers' process dies at one of its next writes.
    pub(super) fn arm(&self, writes: usize, after: bool) {
        self.lock().dies = Some((writes, after));
    }

    /// Whoever asked is dead: nothing comes of it any more.
    pub(super) async fn die(&self) -> std::convert::Infallible {
        self.0.died.notify_one();
        std::future::pending().await
    }

    /// Returns when the controllers' process has died.
    pub(super) async fn died(&self) {
        self.0.died.notified().await;
    }

    /// A watch begins; whoever holds the receiver hears how it is to end.
    pub(super) fn watch(&self, link: Link) -> oneshot::Receiver<End> {
        let (end, ends) = oneshot::channel();
        self.lock().watches.push((link, end));
        ends
    }

    /// How long what a watch says is held back.
    pub(super) fn late(&self, link: Link) -> Duration {
        let mut inner = self.lock();
        let Some((until, most)) = inner.late.get(&link).copied() else { return Duration::ZERO };
        if until <= Instant::now() {
            inner.late.remove(&link);
            return Duration::ZERO;
        }
        Duration::from_millis(inner.number(most * 1_000))
    }

    /// What came about since this was last asked.
    pub(super) fn met(&self) -> Vec<Disturbance> {
        std::mem::take(&mut self.lock().met)
    }

    /// What becomes of a request.
    pub(super) fn passage(&self, link: Link, errand: Errand) -> Passage {
        let mut inner = self.lock();
        if inner.cut.get(&link).is_some_and(|until| *until > Instant::now()) {
            return Passage { fate: Fate::Lost, ..Passage::WELL };
        }
        if let Some(after) = inner.dies_now(link, errand) {
            return Passage { fate: Fate::Dies { after }, ..Passage::WELL };
        }
        if !inner.storm {
            return Passage::WELL;
        }
        let (before, after) = (inner.wait(), inner.wait());
        let fate = inner.fate(link, errand);
        match fate {
            Fate::Lost => inner.met.push(Disturbance::LostRequest),
            Fate::Unheard => inner.met.push(Disturbance::LostReply),
            _ => {}
        }
        Passage { before, fate, after }
    }
}

impl Inner {
    fn number(&mut self, below: u64) -> u64 {
        let below = usize::try_from(below).unwrap_or(usize::MAX);
        u64::try_from(self.draw.below(below)).unwrap_or(0)
    }

    /// Most answers come at once, some after a second, few after many.
    fn wait(&mut self) -> Duration {
        let most = match self.draw.below(16) {
            0 => 8_000,
            1..4 => 1_000,
            _ => 20,
        };
        Duration::from_millis(self.number(most))
    }

    /// Counts down to the death of the controllers' process.
    fn dies_now(&mut self, link: Link, errand: Errand) -> Option<bool> {
        let theirs = matches!(link, Link::Controller | Link::Bmc);
        let writes = matches!(errand, Errand::Patch | Errand::Write);
        let (left, after) = self.dies.filter(|_| theirs && writes)?;
        self.dies = left.checked_sub(1).map(|left| (left, after));
        self.dies.is_none().then_some(after)
    }

    fn fate(&mut self, link: Link, errand: Errand) -> Fate {
        let luck = self.draw.below(48);
        match (errand, luck) {
            (Errand::Read | Errand::Watch { .. }, 0) => Fate::Lost,
            (Errand::Read | Errand::Watch { .. }, 1) => Fate::Refused(503),
            (Errand::Watch { resumes: true }, 2..4) => Fate::Refused(410),
            (Errand::Patch | Errand::Write, 0) => Fate::Lost,
            (Errand::Patch | Errand::Write, 1 | 2) => Fate::Unheard,
            (Errand::Patch, 3) if link != Link::Bmc => Fate::Refused(409),
            (Errand::Patch | Errand::Write, 4) => {
                Fate::Refused(self.draw.pick(&[429, 500, 503]).unwrap_or(503))
            }
            _ => Fate::Well,
        }
    }
}
