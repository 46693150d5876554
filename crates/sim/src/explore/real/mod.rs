//! Schedules through the embedded server: the shipped controllers whole, with their caches, queues and
//! clients, against the API server in memory and the simulated datacentre, on a held clock in one
//! thread.
//!
//! A schedule is a number, as over tables. What is drawn here is what lies around the controllers: a
//! site, faults, people, and a [`weather`] in which requests and answers are lost, refused and late,
//! watches break off and lag, and processes die in the middle of a write. Judged is what was written
//! and what the datacentre did, by the same rules.

mod audit;
mod bmc;
mod judge;
mod people;
mod record;
mod sabotage;
mod schedule;
mod site;
mod strike;
mod weather;
mod wire;

use super::Summary;
use super::tale::Tale;
pub use sabotage::Sabotage;
use schedule::NO_BEGINNING;
use site::{Beginning, Shape};
use std::cell::OnceCell;

/// The sites that there are.
const SHAPES: [Shape; 6] = [
    Shape { machines: 2, racks: 1, spares: 0, vendor: 1 },
    Shape { machines: 3, racks: 1, spares: 1, vendor: 2 },
    Shape { machines: 4, racks: 2, spares: 1, vendor: 3 },
    Shape { machines: 3, racks: 1, spares: 0, vendor: 4 },
    Shape { machines: 4, racks: 1, spares: 1, vendor: 5 },
    Shape { machines: 6, racks: 2, spares: 1, vendor: 6 },
];
/// One schedule in so many begins with machines that were never switched on.
const COLD: u64 = 8;

/// Plays schedules, one after the other, each on a site of its own.
#[derive(Default)]
pub(super) struct Player {
    beginnings: [OnceCell<Result<Beginning, String>>; SHAPES.len()],
}

impl Player {
    /// Plays the schedule of this number.
    pub(super) fn play(&self, number: u64, sabotage: Option<Sabotage>, told: bool) -> Tale {
        // A number's neighbours have other sites.
        let shape = usize::try_from(number % SHAPES.len() as u64).unwrap_or(0);
        let cold = (number / SHAPES.len() as u64).is_multiple_of(COLD);
        let failed = |why: String| Tale { wrong: vec![why], ..Tale::default() };
        let (Some(cell), Some(shape)) = (self.beginnings.get(shape), SHAPES.get(shape)) else {
            return Tale::default();
        };
        if cold {
            return match Beginning::delivered(*shape) {
                Ok(begin) => run(schedule::play(&begin, number, sabotage, told)),
                Err(why) => failed(why),
            };
        }
        match cell
            .get_or_init(|| run(async { schedule::bring_up(&Beginning::delivered(*shape)?).await }))
        {
            Ok(begin) => run(schedule::play(begin, number, sabotage, told)),
            Err(why) => failed(why.clone()),
        }
    }
}

/// Runs to the end on a held clock in this thread.
fn run<T: Failing>(what: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => runtime.block_on(what),
        Err(error) => T::failed(format!("cannot run: {error}")),
    }
}

/// What can say that it did not come about.
trait Failing {
    fn failed(why: String) -> Self;
}

impl Failing for Tale {
    fn failed(why: String) -> Self {
        Self { wrong: vec![why], ..Self::default() }
    }
}

impl<T> Failing for Result<T, String> {
    fn failed(why: String) -> Self {
        Err(why)
    }
}

/// Plays the schedules `seed..seed + schedules` through the embedded server, on `threads` threads, and
/// tells of each.
pub fn explore(
    seed: u64,
    schedules: u64,
    threads: u64,
    sabotage: Option<Sabotage>,
    told: super::Told<'_>,
) -> Summary {
    let player = || {
        let player = Player::default();
        move |number| player.play(number, sabotage, false)
    };
    super::spread(seed, schedules, threads, player, told)
}

/// The first of the schedules `seed..seed + most` in which a sabotage shows, and how.
pub fn hunt(seed: u64, most: u64, sabotage: Sabotage) -> Option<(u64, String)> {
    let player = Player::default();
    (0..most).find_map(|number| {
        let tale = player.play(seed.wrapping_add(number), Some(sabotage), false);
        let mut found = tale.wrong.iter().filter(|wrong| !wrong.starts_with(NO_BEGINNING));
        found.next().map(|wrong| (number + 1, wrong.clone()))
    })
}

/// Plays one schedule and tells all of it, with what was wrong.
pub fn replay(number: u64, sabotage: Option<Sabotage>) -> (Vec<String>, Vec<String>) {
    let tale = Player::default().play(number, sabotage, true);
    (tale.lines.unwrap_or_default(), tale.wrong)
}
