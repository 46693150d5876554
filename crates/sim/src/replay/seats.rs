//! Which seat of a pool stood empty when.
//!
//! A pool of so many nodes has as many seats. A seat belongs to a machine until another takes its
//! place, and then to that one; so a machine that returns as a spare is missed by nobody when it fails
//! again, until it serves.

use std::collections::BTreeMap;
use std::time::Duration;

/// One time that a machine was lost to those who used it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Which machine.
    pub machine: usize,
    /// When what ran on it stopped.
    pub from: Duration,
    /// When another machine took its place in the pool, and which.
    pub replaced: Option<(Duration, usize)>,
    /// When it was itself in service again.
    pub returned: Option<Duration>,
    /// It gave its seat to a machine that served already: nobody lost anything.
    pub planned: bool,
}

/// A pool and what happened to it.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// How many seats it has; at first machine 0 has seat 0, and so on.
    pub seats: usize,
    /// How long it was watched.
    pub length: Duration,
    /// What it lost.
    pub outages: &'a [Outage],
}

/// A time in which a seat was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Since when.
    pub from: Duration,
    /// Until when; the end of the time watched, if it stayed so.
    pub to: Duration,
    /// Which seat.
    pub seat: usize,
}

/// What happens to a machine, in the order in which it counts at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Its seat is filled.
    Ended,
    /// It is lost.
    Lost,
    /// Its seat is filled at the instant at which it is lost.
    AtOnce,
}

impl Pool<'_> {
    /// When which seat stood empty, in order.
    pub fn gaps(&self) -> Vec<Gap> {
        let pool = self;
        let mut turns: Vec<(Duration, Turn, usize)> = Vec::new();
        for (index, outage) in pool.outages.iter().enumerate() {
            turns.push((outage.from, Turn::Lost, index));
            // What ends as it begins has begun first.
            let end = |at: Duration, turn| if at == outage.from { Turn::AtOnce } else { turn };
            let replaced = outage.replaced.map(|(at, _)| (at, end(at, Turn::Ended), index));
            let returned = outage.returned.map(|at| (at, end(at, Turn::Ended), index));
            turns.extend(replaced.or(returned));
        }
        turns.sort_unstable();
        let mut seat_of: BTreeMap<usize, usize> =
            (0..pool.seats).map(|seat| (seat, seat)).collect();
        // Empty seats, with the outage that emptied them.
        let mut empty: BTreeMap<usize, (usize, Duration)> = BTreeMap::new();
        let mut gaps = Vec::new();
        for (at, turn, index) in turns.into_iter().filter(|(at, ..)| *at <= pool.length) {
            let Some(outage) = pool.outages.get(index) else { continue };
            let Some(seat) = seat_of.get(&outage.machine).copied() else { continue };
            match turn {
                Turn::Lost => {
                    empty.entry(seat).or_insert((index, at));
                }
                Turn::Ended | Turn::AtOnce => {
                    let Some((_, from)) = empty.get(&seat).filter(|(cause, _)| *cause == index)
                    else {
                        continue;
                    };
                    if !outage.planned {
                        gaps.push(Gap { from: *from, to: at, seat });
                    }
                    empty.remove(&seat);
                    if let Some((_, by)) = outage.replaced {
                        seat_of.remove(&outage.machine);
                        seat_of.insert(by, seat);
                    }
                }
            }
        }
        let left = empty.into_iter().map(|(seat, (_, from))| Gap { from, to: pool.length, seat });
        gaps.extend(left);
        gaps.sort_unstable();
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn gap(seat: usize, from: u64, to: u64) -> Gap {
        Gap { from: seconds(from), to: seconds(to), seat }
    }

    fn outage(machine: usize, from: u64) -> Outage {
        Outage { machine, from: seconds(from), replaced: None, returned: None, planned: false }
    }

    #[test]
    fn a_seat_goes_to_whoever_takes_the_place() {
        let by = |machine, from, at, by| Outage {
            replaced: Some((seconds(at), by)),
            ..outage(machine, from)
        };
        let outages = [
            by(0, 10, 40, 9),
            // The one that was replaced fails as a spare: nobody minds.
            Outage { returned: Some(seconds(60)), ..outage(0, 50) },
            // Its replacement fails, and the first takes its seat back.
            by(9, 100, 130, 0),
            // One that no spare replaces, and that returns by itself; another that never does.
            Outage { returned: Some(seconds(700)), ..outage(1, 200) },
            // One that is replaced at once.
            by(1, 720, 720, 7),
            // Another machine takes a seat from one that is well.
            Outage { planned: true, ..by(7, 750, 750, 8) },
            Outage { returned: Some(seconds(790)), ..outage(8, 780) },
            outage(0, 800),
        ];
        let pool = Pool { seats: 2, length: seconds(1_000), outages: &outages };
        let expected = [
            gap(0, 10, 40),
            gap(0, 100, 130),
            gap(1, 200, 700),
            gap(1, 720, 720),
            gap(1, 780, 790),
            gap(0, 800, 1_000),
        ];
        assert_eq!(pool.gaps(), expected);
    }
}
