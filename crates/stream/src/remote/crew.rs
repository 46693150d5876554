//! Many ranges beside each other: threads that share a queue, as many at work as are worth having,
//! and a second try for the slowest.
//!
//! Each thread reads straight into memory that is its alone. Once nothing is left in the queue, a
//! range that takes far longer than others did is asked for again beside the first, from the byte
//! where that one is, into memory of its own; whichever ends first calls the other off. That is done
//! once for a range, for few ranges and two at a time, so that it costs neither much memory nor a busy
//! server's time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fault::Fault;
use super::fetch::Fetch;
use super::object::Object;
use super::pace::Pace;
use super::patience::Reins;
use crate::source::Piece;

/// Of so many ranges one may be asked for twice to some avail.
const HEDGED: usize = 20;

/// Ranges that are asked for twice at a time: each holds its bytes once more.
const BESIDE: usize = 2;

/// How much longer than the median a range takes that is slow.
const SLOW: u32 = 3;

/// How much more patience there is while nothing tells how long a range takes.
const UNTOLD: u32 = 10;

/// The shortest time that tells a speed.
const ROUND: Duration = Duration::from_millis(50);

/// Does every job, on so many connections at most.
pub(super) fn fill(
    object: &Object,
    jobs: Vec<Vec<Piece<'_>>>,
    most: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Fault> {
    let jobs: VecDeque<_> = jobs.into_iter().filter(|pieces| !pieces.is_empty()).collect();
    let threads = most.min(jobs.len() + BESIDE).max(1);
    let state = State {
        left: jobs.len(),
        spare: jobs.len().div_ceil(HEDGED),
        queue: jobs,
        running: Vec::new(),
        beside: 0,
        pace: Pace::new(most),
        round: Round::default(),
        took: Vec::new(),
        failed: None,
    };
    let crew = Crew { object, progress, state: Mutex::new(state), called: Condvar::new() };
    if threads == 1 {
        crew.work();
    } else {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| crew.work());
            }
        });
    }
    let state = crew.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failed.map_or(Ok(()), Err)
}

struct Crew<'a, 'm> {
    object: &'a Object,
    progress: &'a (dyn Fn(u64) + Sync),
    state: Mutex<State<'m>>,
    called: Condvar,
}

struct State<'m> {
    queue: VecDeque<Vec<Piece<'m>>>,
    running: Vec<Running>,
    /// Jobs that are not done.
    left: usize,
    /// Ranges that may still be asked for twice.
    spare: usize,
    /// Ranges that are, now.
    beside: usize,
    pace: Pace,
    round: Round,
    /// How long ranges took.
    took: Vec<Duration>,
    failed: Option<Fault>,
}

/// A range under way.
struct Running {
    range: Range<u64>,
    reins: Arc<Reins>,
    since: Instant,
    second: Second,
}

/// The second try of a range.
enum Second {
    None,
    Running(Arc<Reins>),
    /// The bytes from an offset on.
    Done(u64, Vec<u8>),
    Failed,
}

/// What tells how fast it goes.
#[derive(Default)]
struct Round {
    since: Option<Instant>,
    bytes: u64,
    busy: u64,
    jobs: usize,
}

enum Task<'m> {
    First(Vec<Piece<'m>>, Range<u64>, Arc<Reins>),
    Second(Range<u64>, u64, Arc<Reins>),
}

impl<'m> Crew<'_, 'm> {
    fn work(&self) {
        while let Some(task) = self.next() {
            match task {
                Task::First(pieces, range, reins) => self.first(pieces, range, reins),
                Task::Second(range, start, reins) => self.second(&range, start, reins),
            }
        }
    }

    /// Waits for something to do; `None` when there is nothing left or something failed.
    fn next(&self) -> Option<Task<'m>> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() || state.left == 0 {
                return None;
            }
            if state.running.len() < state.pace.width()
                && let Some(pieces) = state.queue.pop_front()
            {
                let range = covered(&pieces);
                let reins = Arc::<Reins>::default();
                state.running.push(Running {
                    range: range.clone(),
                    reins: Arc::clone(&reins),
                    since: Instant::now(),
                    second: Second::None,
                });
                return Some(Task::First(pieces, range, reins));
            }
            let now = Instant::now();
            let due = state.slowest(self.object.wire.how.patience.hedge);
            match due {
                Some((place, due)) if due <= now => {
                    return Some(self.beside(&mut state, place));
                }
                Some((_, due)) => {
                    let waited = self.called.wait_timeout(state, due - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Begins the second try of a range.
    fn beside(&self, state: &mut State<'m>, place: usize) -> Task<'m> {
        state.spare -= 1;
        state.beside += 1;
        self.object.wire.counts.hedges.fetch_add(1, Ordering::Relaxed);
        let reins = Arc::<Reins>::default();
        let running = &mut state.running[place];
        running.second = Second::Running(Arc::clone(&reins));
        Task::Second(running.range.clone(), running.reins.at().max(running.range.start), reins)
    }

    fn first(&self, mut pieces: Vec<Piece<'m>>, range: Range<u64>, reins: Arc<Reins>) {
        let bytes = pieces.iter().map(|(_, piece)| piece.len() as u64).sum();
        let mut fetch = Fetch::new(self.object, range.clone(), reins);
        let filled = match self.object.front(&range) {
            Some(front) => {
                give(&mut pieces, range.start, front, range.start);
                Ok(())
            }
            None => pieces.iter_mut().try_for_each(|(offset, into)| {
                fetch.skip_to(*offset)?;
                fetch.read(into)
            }),
        };
        let running = self.ended(&range);
        let done = match (filled, running.map(|running| (running.second, running.since))) {
            (Ok(()), Some((second, since))) => {
                let mut state = self.lock();
                match second {
                    Second::Running(reins) => reins.call_off(),
                    // Impatience, as below.
                    Second::Done(..) => state.spare += 1,
                    Second::None | Second::Failed => {}
                }
                state.took.push(since.elapsed());
                Ok(())
            }
            (Err(Fault::Cancelled), Some((Second::Done(start, rest), _))) => {
                give(&mut pieces, start, &rest, fetch.at());
                Ok(())
            }
            (filled, _) => filled,
        };
        match done {
            Ok(()) => {
                (self.progress)(bytes);
                self.finished();
            }
            Err(fault) => self.failed(fault),
        }
    }

    /// Tries a range a second time. Whatever goes wrong with it, the first may still succeed.
    fn second(&self, range: &Range<u64>, start: u64, reins: Arc<Reins>) {
        let mut rest = vec![0; usize::try_from(range.end - start).unwrap_or_default()];
        let read = Fetch::once(self.object, start..range.end, reins).read(&mut rest);
        let mut state = self.lock();
        state.beside -= 1;
        match state.running.iter_mut().find(|running| running.range == *range) {
            Some(running) => {
                running.second = match read {
                    Ok(()) => {
                        running.reins.call_off();
                        Second::Done(start, rest)
                    }
                    Err(_) => Second::Failed,
                };
            }
            // The first was done before: that was impatience, and is not to cost a range that hangs
            // its second try.
            None => state.spare += 1,
        }
        self.called.notify_all();
    }

    /// Takes a range off those under way.
    fn ended(&self, range: &Range<u64>) -> Option<Running> {
        let mut state = self.lock();
        let place = state.running.iter().position(|running| running.range == *range)?;
        Some(state.running.swap_remove(place))
    }

    /// One job less, and perhaps the end of a round.
    fn finished(&self) {
        let counts = &self.object.wire.counts;
        let bytes = counts.bytes.load(Ordering::Relaxed);
        let busy = counts.busy.load(Ordering::Relaxed);
        let mut state = self.lock();
        state.left -= 1;
        state.round.jobs += 1;
        let now = Instant::now();
        let since = *state.round.since.get_or_insert(now);
        if state.round.jobs >= state.pace.width() && now - since >= ROUND {
            let speed = (bytes - state.round.bytes) as f64 / (now - since).as_secs_f64();
            if busy > state.round.busy {
                state.pace.throttled();
            } else {
                state.pace.was(speed);
            }
            state.round = Round { since: Some(now), bytes, busy, jobs: 0 };
        }
        self.called.notify_all();
    }

    /// Ends everything. What fails because it was ended says nothing new.
    fn failed(&self, fault: Fault) {
        let mut state = self.lock();
        state.failed.get_or_insert(fault);
        for running in &state.running {
            running.reins.call_off();
            if let Second::Running(reins) = &running.second {
                reins.call_off();
            }
        }
        self.called.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<'m>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State<'_> {
    /// The range that is to be asked for again next, and when.
    fn slowest(&mut self, patience: Duration) -> Option<(usize, Instant)> {
        if !self.queue.is_empty() || self.spare == 0 || self.beside >= BESIDE {
            return None;
        }
        // One that has its last byte and not yet the processor is not slow.
        let alone = |running: &&(usize, &Running)| {
            let Running { range, reins, second, .. } = running.1;
            matches!(second, Second::None) && reins.at() < range.end
        };
        let running: Vec<_> = self.running.iter().enumerate().collect();
        let (place, slowest) = running.iter().filter(alone).min_by_key(|(_, r)| r.since)?;
        let middle = self.took.len() / 2;
        let bound = if self.took.is_empty() {
            patience * UNTOLD
        } else {
            patience.max(*self.took.select_nth_unstable(middle).1 * SLOW)
        };
        Some((*place, slowest.since + bound))
    }
}

/// From the first byte of a job to its last.
fn covered(pieces: &[Piece<'_>]) -> Range<u64> {
    let start = pieces.first().map_or(0, |(offset, _)| *offset);
    start..pieces.last().map_or(start, |(offset, piece)| offset + piece.len() as u64)
}

/// Copies bytes that begin at an offset to where they belong, as far as they lie behind another.
fn give(pieces: &mut [Piece<'_>], start: u64, bytes: &[u8], from: u64) {
    for (offset, into) in pieces {
        let had = usize::try_from(from.saturating_sub(*offset)).unwrap_or(usize::MAX);
        let Some(into) = into.get_mut(had..).filter(|into| !into.is_empty()) else { continue };
        let place = usize::try_from(*offset + had as u64 - start).unwrap_or(usize::MAX);
        into.copy_from_slice(&bytes[place..place + into.len()]);
    }
}
