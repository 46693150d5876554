//! Where the time of a training job went: each stop cut into parts by what it waited for, from
//! timestamps that stand in objects.
//!
//! A stop is one stretch of time from the loss of a rank to the next new step, and every moment of it
//! belongs to one cause: to the first thing in the way. What happens beside that costs nothing: a
//! spare that is there before the pod has left costs no time at all. What controllers take is the same
//! on any hardware; what the training itself takes passes faster where hardware is simulated, so it is
//! given both ways.

use std::time::Duration;

use api::training::{Lost, Progress, Stop};
use api::{Incident, Machine};
use jiff::{SignedDuration, Timestamp};

/// What a stopped job waits for, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The fault was not known yet.
    Noticed,
    /// The repair was held back: time for a wave to show itself, a breaker, a budget.
    Held,
    /// The rank's pod had to end.
    Drained,
    /// The Job made no other pod yet.
    Made,
    /// No spare was in the pool yet.
    Swapped,
    /// The other pod had no node, or did not run yet.
    Placed,
    /// All ranks ran, and began anew from the checkpoint.
    Restarted,
    /// Work that no checkpoint held was done again.
    Redone,
}

impl Cause {
    /// Every cause, in order.
    pub const ALL: [Self; 8] = [
        Self::Noticed,
        Self::Held,
        Self::Drained,
        Self::Made,
        Self::Swapped,
        Self::Placed,
        Self::Restarted,
        Self::Redone,
    ];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noticed => "detection",
            Self::Held => "settling",
            Self::Drained => "drain",
            Self::Made => "new pod",
            Self::Swapped => "swap",
            Self::Placed => "reschedule",
            Self::Restarted => "restart",
            Self::Redone => "redone work",
        }
    }

    /// What it is, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Noticed => "from the fault to its incident",
            Self::Held => "a wave is given time to show itself; breakers, budgets",
            Self::Drained => "the rank's pod ends",
            Self::Made => "until the Job makes another",
            Self::Swapped => "until a spare is in the pool, if it was not by then",
            Self::Placed => "until that pod runs on the spare",
            Self::Restarted => "processes, communicators, the checkpoint read back",
            Self::Redone => "since the last complete checkpoint",
        }
    }

    /// Whether the training's own time passes, and not the clock's.
    const fn trains(self) -> bool {
        matches!(self, Self::Restarted | Self::Redone)
    }
}

/// A part of the time lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// By what.
    pub cause: Cause,
    /// On this clock.
    pub here: Duration,
    /// On hardware that is not simulated.
    pub real: Duration,
}

/// The parts of a stop until now, in order, each cause once. Incidents and machines are all that are
/// known.
pub fn parts(
    now: Timestamp,
    progress: &Progress,
    stop: &Stop,
    incidents: &[Incident],
    machines: &[Machine],
) -> Vec<Part> {
    let mut marks: Vec<(Cause, Option<Timestamp>)> = Vec::new();
    if let Some(lost) = slowest(stop) {
        let noticed = opened(stop, lost, incidents).or(lost.asked).or(lost.left);
        // A node that was in the pool before was there at once.
        let swapped = assigned(lost, machines).or(lost.made).filter(|_| lost.placed.is_some());
        marks.extend([
            (Cause::Noticed, noticed),
            (Cause::Held, lost.asked),
            (Cause::Drained, lost.left),
            (Cause::Made, lost.made),
            (Cause::Swapped, swapped),
        ]);
    }
    marks.push((Cause::Placed, stop.gathered));
    marks.push((Cause::Restarted, stop.going));
    let mut from = stop.at;
    let mut parts = Vec::new();
    for (index, (cause, mark)) in marks.iter().enumerate() {
        // Of what has not come, the first is waited for until now; the rest was never in the way.
        let passed = marks.iter().skip(index).any(|(_, mark)| mark.is_some());
        let until = mark.unwrap_or(if passed { from } else { now }).min(now).max(from);
        parts.push(part(*cause, span(from, until), progress.speed));
        from = until;
    }
    let redo = Duration::try_from_secs_f64(stop.redo / progress.speed).unwrap_or_default();
    parts.push(part(Cause::Redone, redo, progress.speed));
    parts
}

/// The sum of several parts of one cause each, by cause.
pub fn sum(stops: &[Vec<Part>]) -> Vec<Part> {
    let of = |cause: Cause| {
        let all = || stops.iter().flatten().filter(move |part| part.cause == cause);
        Part { cause, here: all().map(|p| p.here).sum(), real: all().map(|p| p.real).sum() }
    };
    Cause::ALL.into_iter().map(of).collect()
}

/// The spare that took the place of a lost rank's machine, and how near it stands.
pub fn cover<'a>(
    lost: &Lost,
    machines: &'a [Machine],
) -> Option<(&'a Machine, Option<&'static str>)> {
    let (old, new) = (below(&lost.node, machines)?, below(lost.on.as_deref()?, machines)?);
    (old.name() != new.name()).then(|| (new, crate::pool::near(old, new)))
}

/// The rank whose loss held the job up longest.
pub fn slowest(stop: &Stop) -> Option<&Lost> {
    stop.lost.iter().max_by_key(|lost| {
        let end = |mark: Option<Timestamp>| mark.unwrap_or(Timestamp::MAX);
        // One that came back by itself waited for nothing.
        let moved = lost.made.is_some() || stop.gathered.is_none();
        (moved, end(lost.placed), end(lost.left), std::cmp::Reverse(lost.rank))
    })
}

/// When the incident of the lost rank's machine was opened.
fn opened(stop: &Stop, lost: &Lost, incidents: &[Incident]) -> Option<Timestamp> {
    // The program and the agent see the same fault, and neither waits for the other.
    let from = stop.at.checked_sub(SignedDuration::from_secs(5)).unwrap_or(stop.at);
    let until = lost.left.unwrap_or(Timestamp::MAX);
    let of = incidents.iter().filter(|incident| incident.spec.node == lost.node);
    of.map(|incident| incident.spec.opened).filter(|at| (from..=until).contains(at)).min()
}

/// When the machine that the rank's other pod runs on was assigned to its pool.
fn assigned(lost: &Lost, machines: &[Machine]) -> Option<Timestamp> {
    let machine = below(lost.on.as_deref()?, machines)?;
    machine.spec.assignment.as_ref().map(|assignment| assignment.since)
}

/// The machine below a node, which bears its name. What the machine says of its node would not do: one
/// that is being repaired has none.
fn below<'a>(node: &str, machines: &'a [Machine]) -> Option<&'a Machine> {
    machines.iter().find(|machine| machine.name() == node)
}

fn part(cause: Cause, here: Duration, speed: f64) -> Part {
    let real = if cause.trains() { here.as_secs_f64() * speed } else { here.as_secs_f64() };
    Part { cause, here, real: Duration::try_from_secs_f64(real).unwrap_or(Duration::MAX) }
}

fn span(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::incident::IncidentSpec;
    use api::machine::Assignment;
    use api::training::{Pace, Phase};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    fn machine(name: &str, leaf: &str, assigned: Option<i64>) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        machine.spec.place.leaf = Some(leaf.to_owned());
        machine.spec.assignment = assigned.map(|since| Assignment {
            pool: "train".to_owned(),
            tenant: "acme".to_owned(),
            since: at(since),
        });
        machine
    }

    fn incident(node: &str, opened: i64) -> Incident {
        let spec =
            IncidentSpec { node: node.to_owned(), opened: at(opened), ..IncidentSpec::default() };
        Incident::new("i", spec)
    }

    fn stop() -> Stop {
        let lost = Lost {
            rank: 7,
            pod: "p".to_owned(),
            node: "a".to_owned(),
            why: "xid/95".to_owned(),
            asked: Some(at(15_400)),
            left: Some(at(16_400)),
            made: Some(at(26_400)),
            placed: Some(at(26_600)),
            on: Some("b".to_owned()),
        };
        Stop {
            at: at(0),
            redo: 180.0,
            lost: vec![lost],
            gathered: Some(at(28_600)),
            going: Some(at(28_800)),
        }
    }

    fn progress(stops: Vec<Stop>) -> Progress {
        Progress {
            ranks: 8,
            gpus: 8,
            speed: 600.0,
            pace: Pace { every: 300.0, write: 20.0, restart: 120.0 },
            phase: Phase::Gathering,
            since: at(0),
            kept: 0.0,
            checkpoints: 0,
            stopped: 1,
            stops,
        }
    }

    fn millis(parts: &[Part]) -> Vec<u128> {
        parts.iter().map(|part| part.here.as_millis()).collect()
    }

    #[test]
    fn every_moment_has_one_cause() {
        let progress = progress(vec![stop()]);
        let incidents = [incident("a", 400), incident("a", 99_000), incident("b", 100)];
        let machines = [machine("a", "l1", Some(-99)), machine("b", "l1", Some(500))];
        let parts = parts(at(60_000), &progress, &progress.stops[0], &incidents, &machines);
        let expected = [400, 15_000, 1_000, 10_000, 0, 2_200, 200, 300];
        assert_eq!(millis(&parts), expected, "the spare was there before the pod had left");
        let real: Vec<u64> = parts.iter().map(|part| part.real.as_secs()).collect();
        assert_eq!(real, [0, 15, 1, 10, 0, 2, 120, 180], "training passes 600 times as fast here");
        assert_eq!(parts.iter().map(|part| part.cause).collect::<Vec<_>>(), Cause::ALL);

        // A spare that came late: what the Job waited for by itself was no spare's fault.
        let late = [machine("a", "l1", None), machine("b", "l1", Some(26_500))];
        let parts = super::parts(at(60_000), &progress, &progress.stops[0], &incidents, &late);
        assert_eq!(millis(&parts), [400, 15_000, 1_000, 10_000, 100, 2_100, 200, 300]);
        assert_eq!(sum(&[parts.clone(), parts])[4].here.as_millis(), 200);
    }

    #[test]
    fn what_goes_on_is_counted_until_now() {
        let mut stop = stop();
        (stop.gathered, stop.going) = (None, None);
        stop.lost[0] =
            Lost { left: None, made: None, placed: None, on: None, ..stop.lost[0].clone() };
        let progress = progress(vec![stop]);
        let parts = |now| parts(at(now), &progress, &progress.stops[0], &[incident("a", 400)], &[]);
        assert_eq!(millis(&parts(20_400)), [400, 15_000, 5_000, 0, 0, 0, 0, 300]);
    }

    #[test]
    fn a_pod_that_a_person_deletes_has_no_incident() {
        let progress = progress(vec![stop()]);
        let parts = parts(at(60_000), &progress, &progress.stops[0], &[], &[]);
        let expected = [15_400, 0, 1_000, 10_000, 0, 2_200, 200, 300];
        assert_eq!(millis(&parts), expected);
    }

    #[test]
    fn the_spare_is_told_with_its_way() {
        let stop = stop();
        let lost = slowest(&stop).unwrap();
        // The broken one is in repair and has no node.
        let machines = [machine("a", "l1", None), machine("b", "l1", Some(1))];
        let (spare, near) = cover(lost, &machines).unwrap();
        assert_eq!((spare.name(), near), ("b", Some("same leaf")));
    }
}
