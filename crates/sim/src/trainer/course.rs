//! The course of a training job: pure, from the seats of its ranks to what it says of its progress.
//!
//! All ranks must compute for a step to count. When one is lost, what no checkpoint holds is lost
//! with it; the others wait in their pods until all run again, as under an elastic launcher, and go on
//! from the checkpoint after the time that a restart takes. Checkpoints are a function of time, so
//! nothing is written while all is well.

use std::collections::BTreeMap;
use std::time::Duration;

use api::training::{Lost, MAX_LOST, MAX_STOPS, Pace, Phase, Progress, Stop};
use jiff::Timestamp;

/// What the tenant asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// How many ranks.
    pub ranks: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// What checkpoints and restarts cost, in seconds of training.
    pub pace: Pace,
    /// Seconds of training in a second of the clock.
    pub speed: f64,
}

/// A pod that holds a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// Its UID.
    pub pod: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// Its container runs, during the boot that its node runs now.
    pub runs: bool,
    /// It was asked to leave.
    pub leaves: bool,
    /// Why nothing computes in it although it runs: the hardware's truth, which a program feels.
    pub broken: Option<String>,
}

impl Seat {
    fn computes(&self) -> bool {
        self.runs && self.broken.is_none()
    }
}

/// All that the course rests on.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// What was asked for.
    pub recipe: Recipe,
    /// The pods of each rank that have not ended.
    pub seats: BTreeMap<u32, Vec<Seat>>,
}

impl Facts {
    fn of(&self, rank: u32) -> &[Seat] {
        self.seats.get(&rank).map_or(&[], Vec::as_slice)
    }

    /// Ranks that do not compute now.
    fn idle(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.recipe.ranks).filter(|rank| !self.of(*rank).iter().any(Seat::computes))
    }

    fn lost(&self, rank: u32) -> Lost {
        let seat = self.of(rank).first();
        let why = match seat {
            None => "its pod is gone".to_owned(),
            Some(Seat { broken: Some(why), .. }) => why.clone(),
            Some(_) => "its node runs no more".to_owned(),
        };
        Lost {
            rank,
            pod: seat.map(|seat| seat.pod.clone()).unwrap_or_default(),
            node: seat.and_then(|seat| seat.node.clone()).unwrap_or_default(),
            why,
            asked: None,
            left: None,
            made: None,
            placed: None,
            on: None,
        }
    }
}

/// What is to be said of the job, given what was said before and where its ranks sat then.
pub fn next(before: Option<&Progress>, facts: &Facts) -> Progress {
    let mut progress = before.cloned().unwrap_or_else(|| begin(facts));
    let idle: Vec<u32> = facts.idle().collect();
    if progress.phase == Phase::Computing && !idle.is_empty() {
        stop(&mut progress, facts.now);
    }
    if progress.phase == Phase::Gathering {
        let now = facts.now;
        if let Some(stop) = progress.stops.last_mut().filter(|stop| stop.going.is_none()) {
            for rank in &idle {
                if stop.lost.len() < MAX_LOST && stop.lost.iter().all(|lost| lost.rank != *rank) {
                    stop.lost.push(facts.lost(*rank));
                }
            }
            stop.lost.iter_mut().for_each(|lost| follow(lost, facts));
            if idle.is_empty() {
                stop.gathered = Some(now);
                stop.going = Some(later(now, facts.recipe));
            }
        }
        if idle.is_empty() {
            progress.phase = Phase::Computing;
            progress.since = later(now, facts.recipe);
            (progress.pace, progress.speed) = (facts.recipe.pace, facts.recipe.speed);
        }
    }
    progress
}

fn begin(facts: &Facts) -> Progress {
    let Recipe { ranks, gpus, pace, speed } = facts.recipe;
    Progress {
        ranks,
        gpus,
        speed,
        pace,
        phase: Phase::Gathering,
        since: facts.now,
        kept: 0.0,
        checkpoints: 0,
        stopped: 0,
        stops: Vec::new(),
    }
}

/// Back to the last checkpoint. A restart that is cut off by another loss is no stop of its own.
fn stop(progress: &mut Progress, now: Timestamp) {
    let stretch = progress.stretch(now);
    let restarting = now < progress.since;
    progress.kept += stretch.kept;
    progress.checkpoints += stretch.checkpoints;
    progress.phase = Phase::Gathering;
    progress.since = now;
    if restarting && let Some(last) = progress.stops.last_mut() {
        (last.gathered, last.going) = (None, None);
        return;
    }
    progress.stopped += 1;
    if progress.stops.len() >= MAX_STOPS {
        progress.stops.remove(0);
    }
    progress.stops.push(Stop {
        at: now,
        redo: stretch.open,
        lost: Vec::new(),
        gathered: None,
        going: None,
    });
}

/// Notes what has become of a lost rank since.
fn follow(lost: &mut Lost, facts: &Facts) {
    let seats = facts.of(lost.rank);
    let old = seats.iter().find(|seat| seat.pod == lost.pod);
    if old.is_none_or(|seat| seat.leaves) {
        lost.asked.get_or_insert(facts.now);
    }
    if old.is_none() {
        lost.left.get_or_insert(facts.now);
    }
    let Some(new) = seats.iter().find(|seat| seat.pod != lost.pod) else { return };
    lost.made.get_or_insert(facts.now);
    if let Some(node) = &new.node {
        lost.placed.get_or_insert(facts.now);
        lost.on = Some(node.clone());
    }
}

/// When steps count again, if all ranks run now.
fn later(now: Timestamp, recipe: Recipe) -> Timestamp {
    let wait = Duration::try_from_secs_f64(recipe.pace.restart / recipe.speed);
    now.checked_add(wait.unwrap_or_default()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: Recipe = Recipe {
        ranks: 3,
        gpus: 8,
        pace: Pace { every: 300.0, write: 20.0, restart: 120.0 },
        speed: 60.0,
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn seat(pod: &str, node: &str) -> Seat {
        Seat { pod: pod.to_owned(), node: Some(node.to_owned()), runs: true, ..Seat::default() }
    }

    /// Three ranks whose pods run, and what is said of them.
    struct World {
        seats: BTreeMap<u32, Vec<Seat>>,
        said: Option<Progress>,
    }

    impl World {
        fn new() -> Self {
            let seats = (0..3).map(|n| (n, vec![seat(&format!("p{n}"), &format!("n{n}"))]));
            Self { seats: seats.collect(), said: None }
        }

        fn look(&mut self, seconds: i64) -> &Progress {
            let seats = self.seats.clone();
            let facts = Facts { now: at(seconds), recipe: RECIPE, seats };
            let next = next(self.said.as_ref(), &facts);
            self.said.insert(next)
        }
    }

    #[test]
    fn a_rank_that_is_lost_costs_what_no_checkpoint_holds() {
        let mut world = World::new();
        world.seats.remove(&2);
        assert_eq!(world.look(0).phase, Phase::Gathering, "it begins when all run");
        world.seats.insert(2, vec![seat("p2", "n2")]);
        let begun = world.look(10).clone();
        assert_eq!((begun.phase, begun.since), (Phase::Computing, at(12)));
        assert_eq!(*world.look(11), begun, "nothing is said while all is well");

        // 8 s are 480 s of training: one cycle of 320 s, and 160 s to do again.
        world.seats.get_mut(&1).unwrap()[0].broken = Some("xid/95".to_owned());
        let stopped = world.look(20).clone();
        assert_eq!((stopped.kept, stopped.checkpoints, stopped.stopped), (300.0, 1, 1));
        let stop = &stopped.stops[0];
        assert_eq!((stop.redo, stop.at, stop.lost.len()), (160.0, at(20), 1));
        assert_eq!((stop.lost[0].rank, &*stop.lost[0].why), (1, "xid/95"));
        assert_eq!(*world.look(30), stopped);

        world.seats.get_mut(&1).unwrap()[0].leaves = true;
        world.look(35);
        world.seats.insert(1, Vec::new());
        world.look(36);
        world.seats.insert(1, vec![Seat { runs: false, node: None, ..seat("q1", "") }]);
        world.look(46);
        world.seats.insert(1, vec![Seat { runs: false, ..seat("q1", "n9") }]);
        assert_eq!(world.look(47).phase, Phase::Gathering);
        world.seats.insert(1, vec![seat("q1", "n9")]);
        let again = world.look(49).clone();
        assert_eq!((again.phase, again.since, again.kept), (Phase::Computing, at(51), 300.0));
        let stop = &again.stops[0];
        let lost = &stop.lost[0];
        let milestones = [lost.asked, lost.left, lost.made, lost.placed, stop.gathered, stop.going];
        assert_eq!(milestones, [35, 36, 46, 47, 49, 51].map(|second| Some(at(second))));
        assert_eq!((lost.on.as_deref(), stop.lost.len()), (Some("n9"), 1));
    }

    #[test]
    fn losses_before_the_job_runs_again_are_one_stop() {
        let mut world = World::new();
        world.look(0);
        world.seats.get_mut(&0).unwrap()[0].runs = false;
        world.look(100);
        world.seats.get_mut(&2).unwrap()[0].broken = Some("xid/79".to_owned());
        world.look(101);
        world.seats.get_mut(&0).unwrap()[0].runs = true;
        world.seats.get_mut(&2).unwrap()[0].broken = None;
        assert_eq!(world.look(110).phase, Phase::Computing, "what was lost came back by itself");
        // Cut off while it restarts.
        world.seats.insert(1, Vec::new());
        let cut = world.look(111).clone();
        assert_eq!((cut.stopped, cut.stops[0].lost.len(), cut.stops[0].gathered), (1, 3, None));
        world.seats.insert(1, vec![seat("q1", "n1")]);
        let again = world.look(120);
        assert_eq!((again.phase, again.stops[0].going), (Phase::Computing, Some(at(122))));
    }

    #[test]
    fn a_wave_and_many_years_leave_a_short_story() {
        let mut world = World::new();
        let recipe = Recipe { ranks: 1_000, ..RECIPE };
        let facts = |now, seats| Facts { now, recipe, seats };
        let all = |runs| -> BTreeMap<u32, Vec<Seat>> {
            let seat = |n: u32| Seat { runs, ..seat(&format!("p{n}"), "n") };
            (0..1_000).map(|n| (n, vec![seat(n)])).collect()
        };
        for round in 0..100 {
            world.said = Some(next(world.said.as_ref(), &facts(at(round * 100), all(true))));
            world.said = Some(next(world.said.as_ref(), &facts(at(round * 100 + 50), all(false))));
        }
        let said = world.said.unwrap();
        assert_eq!((said.stopped, said.stops.len()), (100, MAX_STOPS));
        assert!(said.stops.iter().all(|stop| stop.lost.len() == MAX_LOST));
    }
}
