//! The schedule explorer: many orders of events, held against a hidden truth.
//!
//! A schedule is a number. From it follow a beginning, some 25 to 85 steps in which controllers see,
//! plan and write in any order while they crash, are cut off, meet another instance of themselves,
//! lose replies, and hardware, people and tenants do what they do; then fair time without new faults
//! until nothing moves; then judgement. The same number is the same schedule.
//!
//! The decisions are the shipped ones (`plan`), carried out as [`plan::deed`] prescribes. Not real: the
//! API and the BMCs are tables in memory, and the check of a fence and the deed behind it are one
//! step, as no API offers it for a BMC.

mod apply;
mod begin;
mod bug;
#[cfg(test)]
mod cases;
mod controller;
mod draw;
mod metal;
mod oracle;
#[cfg(feature = "site")]
pub mod real;
mod schedule;
mod store;
mod strike;
mod summary;
mod tale;
mod verdict;
mod world;

pub use bug::Bug;
pub use summary::Summary;
pub use tale::{Coverage, Disturbance, Fault};

/// Hears of each schedule that was played: its number, and what was wrong with it first.
pub type Told<'a> = &'a (dyn Fn(u64, Option<&str>) + Sync);

/// How many wrong schedules are kept.
const KEPT: usize = 64;

/// Plays the schedules `seed..seed + schedules` on `threads` threads, and tells of each.
pub fn explore(
    seed: u64,
    schedules: u64,
    threads: u64,
    bug: Option<Bug>,
    told: Told<'_>,
) -> Summary {
    let player = || {
        let worlds = begin::worlds();
        move |number| schedule::play(&worlds, number, bug, false)
    };
    spread(seed, schedules, threads, player, told)
}

/// Has every thread play its share by a player of its own, and adds up.
fn spread<P: FnMut(u64) -> tale::Tale>(
    seed: u64,
    schedules: u64,
    threads: u64,
    player: impl Fn() -> P + Sync,
    told: Told<'_>,
) -> Summary {
    let threads = threads.max(1);
    let part = |thread: u64| {
        let mut play = player();
        let mut summary = Summary::default();
        let mut number = seed.wrapping_add(thread);
        let mut left = schedules.saturating_sub(thread).div_ceil(threads);
        while left > 0 {
            let tale = play(number);
            summary.schedules += 1;
            summary.steps.push(tale.steps);
            // Addition keeps no order, so that the threads' shares do not matter.
            summary.hash = summary.hash.wrapping_add(tale.hash.rotate_left(7) ^ number);
            summary.coverage.add(&tale.coverage);
            told(number, tale.wrong.first().map(String::as_str));
            if let Some(wrong) = tale.wrong.first()
                && summary.wrong.len() < KEPT
            {
                summary.wrong.push((number, wrong.clone()));
            }
            number = number.wrapping_add(threads);
            left -= 1;
        }
        summary
    };
    let parts: Vec<Summary> = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut all = Summary::default();
    for part in parts {
        all.schedules += part.schedules;
        all.steps.extend(part.steps);
        all.hash = all.hash.wrapping_add(part.hash);
        all.coverage.add(&part.coverage);
        all.wrong.extend(part.wrong);
    }
    all.steps.sort_unstable();
    all.wrong.sort();
    all
}

/// The first of the schedules `seed..seed + most` in which a planted bug shows, and how.
pub fn hunt(seed: u64, most: u64, bug: Bug) -> Option<(u64, String)> {
    let worlds = begin::worlds();
    (0..most).find_map(|number| {
        let tale = schedule::play(&worlds, seed.wrapping_add(number), Some(bug), false);
        tale.wrong.first().map(|wrong| (number + 1, wrong.clone()))
    })
}

/// Plays one schedule and tells all of it, with what was wrong.
pub fn replay(number: u64, bug: Option<Bug>) -> (Vec<String>, Vec<String>) {
    let tale = schedule::play(&begin::worlds(), number, bug, true);
    (tale.lines.unwrap_or_default(), tale.wrong)
}
