//! How much of its time a gang job makes progress: measured on jobs that run over a fleet's outages,
//! beside what the formula says.
//!
//! A pool of so many seats is cut into jobs of one size. A job runs while all of its seats are in
//! service, writes a checkpoint at every interval and stands still meanwhile. When a seat is lost, what
//! was done since the last complete checkpoint is lost too; once the last seat is filled again, the
//! job restarts and goes on.
//!
//! The formula ([`plan::capacity::Job::ettr`]) takes failures for independent and a spare for granted;
//! the time that jobs waited because no spare was there is given apart.

use std::time::Duration;

use plan::capacity::{self, Job};
use serde::Serialize;

use super::seats::{Gap, Pool};

/// The sizes of the jobs, in GPUs.
pub const SIZES: [u32; 4] = [64, 256, 1_024, 2_048];
/// GPUs of one node.
const GPUS: u32 = 8;
/// What writing a checkpoint takes: the 20 s with which the published tables reckon.
const WRITE: Duration = Duration::from_secs(20);
/// From the moment that all seats are filled until steps are made again: start of the processes,
/// communicators, the checkpoint read back. Assumed; published figures lie between 1 and 5 minutes.
const RESTART: Duration = Duration::from_secs(120);
/// A seat that stood empty longer than this waited for a spare: a warm one takes its place in less.
const WARM: Duration = Duration::from_secs(5 * 60);

/// What costs time, as shares of it that add up to 1 together with the progress made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lost {
    /// Writing checkpoints.
    pub checkpoints: f64,
    /// Work done again, because it was not in a checkpoint.
    pub work: f64,
    /// A seat was empty, up to 5 minutes each time: the fault was noticed and a spare took the place.
    pub swap: f64,
    /// A seat was empty for longer, because no spare was there.
    pub no_spare: f64,
    /// Starting again once all seats were filled.
    pub restart: f64,
}

/// The jobs of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ettr {
    /// GPUs of one job.
    pub gpus: u32,
    /// How many jobs ran at a time.
    pub jobs: usize,
    /// How often one of them was stopped.
    pub interruptions: usize,
    /// The share of their time in which they made progress that was kept.
    pub measured: f64,
    /// What the formula says for the fleet's failure rate and its mean warm swap.
    pub formula: f64,
    /// Seconds between checkpoints: Young's and Daly's.
    pub checkpoint_every: u64,
    /// Seconds that a checkpoint takes.
    pub checkpoint_cost: u64,
    /// Seconds that a restart takes.
    pub restart_cost: u64,
    /// Where the rest went.
    pub lost: Lost,
}

/// Runs jobs of every size that fits the pool.
#[must_use]
pub fn measure(pool: &Pool<'_>) -> Vec<Ettr> {
    let gaps = pool.gaps();
    SIZES.iter().filter_map(|gpus| of_size(pool, &gaps, *gpus)).collect()
}

fn of_size(pool: &Pool<'_>, gaps: &[Gap], gpus: u32) -> Option<Ettr> {
    let nodes = usize::try_from(gpus / GPUS).ok()?;
    let jobs = pool.seats / nodes;
    if jobs == 0 || pool.length.is_zero() {
        return None;
    }
    let days = pool.length.as_secs_f64() / 86_400.0;
    let per_thousand = gaps.len() as f64 * 1_000.0 / (pool.seats as f64 * days);
    let job = Job {
        // A fleet that never fails: a job that fails once in all the time it was watched, or less.
        mttf: capacity::mttf(nodes as f64, per_thousand).unwrap_or(pool.length),
        write: WRITE,
        restart: warm_swap(gaps) + RESTART,
    };
    let every = Duration::from_secs(job.young_daly().as_secs().max(1));
    let mut spent = Spent::default();
    for number in 0..jobs {
        let seats = number * nodes..(number + 1) * nodes;
        let own: Vec<Gap> = gaps.iter().filter(|gap| seats.contains(&gap.seat)).copied().collect();
        spent.run(&own, pool.length, every);
    }
    let whole = pool.length.as_secs_f64() * jobs as f64;
    let share = |time: Duration| round(time.as_secs_f64() / whole);
    Some(Ettr {
        gpus,
        jobs,
        interruptions: spent.interruptions,
        measured: share(spent.kept),
        formula: round(job.ettr(every)),
        checkpoint_every: every.as_secs(),
        checkpoint_cost: WRITE.as_secs(),
        restart_cost: RESTART.as_secs(),
        lost: Lost {
            checkpoints: share(spent.checkpoints),
            work: share(spent.work),
            swap: share(spent.swap),
            no_spare: share(spent.no_spare),
            restart: share(spent.restart),
        },
    })
}

/// Six digits are more than any share here is worth, and print alike everywhere.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

/// How long a seat stood empty on average, where a spare was there to take it.
fn warm_swap(gaps: &[Gap]) -> Duration {
    let warm: Vec<Duration> =
        gaps.iter().map(|gap| gap.to - gap.from).filter(|empty| *empty <= WARM).collect();
    match u32::try_from(warm.len()) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(count) => warm.iter().sum::<Duration>() / count,
    }
}

/// What became of the time of some jobs.
#[derive(Debug, Default, PartialEq)]
struct Spent {
    interruptions: usize,
    kept: Duration,
    checkpoints: Duration,
    work: Duration,
    swap: Duration,
    no_spare: Duration,
    restart: Duration,
}

impl Spent {
    /// One job from the beginning to the end, over the gaps of its seats in their order.
    fn run(&mut self, gaps: &[Gap], length: Duration, every: Duration) {
        // Since when all seats are filled, and from when on steps are made.
        let (mut filled, mut going) = (Duration::ZERO, Duration::ZERO);
        for gap in gaps {
            if gap.from >= going {
                self.restart += going - filled;
                self.work(gap.from - going, every, false);
                self.interruptions += 1;
                filled = gap.from;
            } else if gap.from >= filled {
                self.restart += gap.from - filled;
                filled = gap.from;
            }
            if gap.to > filled {
                let empty = gap.to - filled;
                self.swap += empty.min(WARM);
                self.no_spare += empty.saturating_sub(WARM);
                filled = gap.to;
            }
            going = (filled + RESTART).min(length);
        }
        self.restart += going - filled.min(going);
        self.work(length - going, every, true);
    }

    /// A stretch in which steps were made, with a checkpoint at every interval. What came after the
    /// last one is kept only if nothing broke.
    fn work(&mut self, stretch: Duration, every: Duration, kept: bool) {
        let cycle = every + WRITE;
        let cycles = stretch.as_nanos() / cycle.as_nanos().max(1);
        let cycles = u32::try_from(cycles).unwrap_or(u32::MAX);
        let rest = stretch - cycle * cycles;
        self.kept += every * cycles;
        self.checkpoints += WRITE * cycles + rest.saturating_sub(every);
        *if kept { &mut self.kept } else { &mut self.work } += rest.min(every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::seats::Outage;

    const HOUR: Duration = Duration::from_secs(3_600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn gap(seat: usize, from: u64, to: u64) -> Gap {
        Gap { from: seconds(from), to: seconds(to), seat }
    }

    fn run(gaps: &[Gap], length: u64, every: u64) -> Spent {
        let mut spent = Spent::default();
        spent.run(gaps, seconds(length), seconds(every));
        let sum = spent.kept + spent.checkpoints + spent.work + spent.swap;
        assert_eq!(sum + spent.no_spare + spent.restart, seconds(length), "no time is lost");
        spent
    }

    #[test]
    fn a_job_that_is_not_stopped_only_writes_checkpoints() {
        // 10 cycles of 100 s and 20 s, and 50 s of work that nothing breaks.
        let spent = run(&[], 1_250, 100);
        let expected =
            Spent { kept: seconds(1_050), checkpoints: seconds(200), ..Spent::default() };
        assert_eq!(spent, expected);
    }

    #[test]
    fn what_is_not_in_a_checkpoint_is_done_again() {
        // Stopped at 290: two cycles of 120 s and 50 s lost; empty for 30 s, restart for 120 s; then 560 s:
        // four cycles, and 80 s more.
        let spent = run(&[gap(0, 290, 320)], 1_000, 100);
        let expected = Spent {
            interruptions: 1,
            kept: seconds(200 + 400 + 80),
            checkpoints: seconds(40 + 80),
            work: seconds(50),
            swap: seconds(30),
            no_spare: Duration::ZERO,
            restart: seconds(120),
        };
        assert_eq!(spent, expected);
    }

    #[test]
    fn seats_that_are_empty_together_stop_a_job_once() {
        // The second begins while the first is empty, the third in the restart.
        let spent = run(&[gap(0, 100, 150), gap(1, 120, 200), gap(2, 260, 270)], 1_000, 1_000);
        assert_eq!(spent.interruptions, 1);
        assert_eq!(spent.work, seconds(100));
        assert_eq!(spent.swap, seconds(100 + 10));
        assert_eq!(spent.restart, seconds(60 + 120));
        assert_eq!(spent.kept, seconds(610));
    }

    #[test]
    fn waiting_for_a_spare_is_told_apart() {
        let spent = run(&[gap(0, 0, 1_000)], 2_000, 5_000);
        assert_eq!((spent.swap, spent.no_spare), (seconds(300), seconds(700)));
        assert_eq!((spent.restart, spent.kept), (seconds(120), seconds(880)));
        let never = run(&[gap(0, 500, 2_000)], 2_000, 5_000);
        assert_eq!((never.kept, never.work), (Duration::ZERO, seconds(500)));
    }

    #[test]
    fn independent_failures_are_what_the_formula_says() {
        // 400 seats for 350 days, 6 failures per 1,000 node-days, replaced within a minute.
        let ids = kit::ids::Ids::seeded(7);
        let draw = |bound: u64| {
            let mut bytes = [0; 8];
            ids.fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes) % bound
        };
        let length = HOUR * 24 * 350;
        let outages: Vec<Outage> = (0..840)
            .map(|_| {
                let from = seconds(draw(length.as_secs()));
                let machine = usize::try_from(draw(400)).unwrap();
                Outage {
                    machine,
                    from,
                    replaced: None,
                    returned: Some(from + MINUTE),
                    planned: false,
                }
            })
            .collect();
        let pool = Pool { seats: 400, length, outages: &outages };
        let found = measure(&pool);
        let sizes: Vec<(u32, usize)> = found.iter().map(|e| (e.gpus, e.jobs)).collect();
        assert_eq!(sizes, [(64, 50), (256, 12), (1_024, 3), (2_048, 1)]);
        for ettr in &found {
            assert!((ettr.measured - ettr.formula).abs() < 0.003, "{ettr:?}");
            let lost = &ettr.lost;
            let sum = lost.checkpoints + lost.work + lost.swap + lost.no_spare + lost.restart;
            assert!((sum + ettr.measured - 1.0).abs() < 1e-5, "{ettr:?}");
        }
        assert_eq!(found, measure(&pool));
    }

    #[test]
    fn a_pool_without_failures_or_seats_has_an_answer() {
        let quiet = Pool { seats: 8, length: HOUR * 24, outages: &[] };
        let found = measure(&quiet);
        assert_eq!(found.len(), 1);
        assert!(found[0].measured > 0.98, "{found:?}");
        assert!(measure(&Pool { seats: 7, ..quiet }).is_empty());
        assert!(measure(&Pool { length: Duration::ZERO, ..quiet }).is_empty());
    }
}
