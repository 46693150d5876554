//! What a pool's promises rest on: how often its machines fail, how long they are away, and how
//! long one takes from power-on to production. Measured where there is enough to measure.

use crate::capacity;
use crate::node::{Cause, cause};
use api::incident::{End, Stage};
use api::instance_type::Acceptance;
use api::state::State;
use api::{Incident, Machine};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// How far back failures are counted.
pub const WINDOW: Duration = Duration::from_secs(30 * 86_400);

/// Fewer failures than this say nothing: the rate of ten is known to about a third.
const ENOUGH_FAILURES: usize = 10;

/// Fewer machines than this say nothing about the next one.
const ENOUGH_BRING_UPS: usize = 3;

/// Failures of a node in 1,000 days where none were measured: Meta's RSC-1, 16,000 A100s, the worse
/// of the two clusters of arXiv 2410.21680.
const DEFAULT_RATE: f64 = 6.5;

/// How long nodes are away where it was not measured: four of five are cured by a reboot, the fifth
/// waits for a part.
const DEFAULT_MIX: [(f64, Duration); 2] =
    [(0.8, Duration::from_secs(3_600)), (0.2, Duration::from_secs(5 * 86_400))];

/// A time in which a machine was away for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// When its incident was opened.
    pub from: Timestamp,
    /// When it was back; none if it is still away.
    pub until: Option<Timestamp>,
}

/// When a machine was away for an incident, if that was about a fault. One that was handed over is
/// away until it is in production again.
pub fn outage(incident: &Incident, machine: &Machine) -> Option<Outage> {
    if !matches!(cause(&incident.spec.cause), Cause::Fault(_)) {
        return None;
    }
    let from = incident.spec.opened;
    let status = incident.status.as_ref();
    let Some(closed) = status.filter(|s| s.stage == Stage::Closed).and_then(|s| s.closed) else {
        return Some(Outage { from, until: None });
    };
    if status.and_then(|status| status.end) != Some(End::HandedOver) {
        return Some(Outage { from, until: Some(closed) });
    }
    let since = machine.status.as_ref().and_then(|status| status.since);
    let back = since.filter(|_| machine.state() == State::Production);
    Some(Outage { from, until: back.map(|back| back.max(closed)) })
}

/// Mean number of `machines` machines that are away at one time: as measured over the last 30 days,
/// or, where too little happened to measure, by the default rate if that is more.
pub fn mean_out(machines: usize, outages: &[Outage], now: Timestamp) -> f64 {
    let window = SignedDuration::try_from(WINDOW).unwrap_or(SignedDuration::MAX);
    let begin = now.checked_sub(window).unwrap_or(Timestamp::MIN);
    let first = outages.iter().map(|outage| outage.from).min().unwrap_or(now);
    let from = first.max(begin);
    let span = now.duration_since(from).as_secs_f64();
    let away = |outage: &Outage| {
        let until = outage.until.unwrap_or(now).min(now);
        until.duration_since(outage.from.max(from)).as_secs_f64().max(0.0)
    };
    let recent = outages.iter().filter(|outage| outage.from >= begin).count();
    let measured = outages.iter().map(away).sum::<f64>() / span.max(1.0);
    // A day is the least in which the time of day cannot deceive.
    if recent >= ENOUGH_FAILURES && span >= 86_400.0 {
        return measured;
    }
    let nodes = u32::try_from(machines).unwrap_or(u32::MAX);
    capacity::mean_outages(f64::from(nodes), DEFAULT_RATE, &DEFAULT_MIX)
}

/// How long a machine took the last time from its sea trial to production, as its history says.
pub fn brought_up(machine: &Machine) -> Option<Duration> {
    let history = &machine.status.as_ref()?.history;
    // Newest first.
    let end = history.iter().position(|entry| entry.what == State::Production.name())?;
    let before = history.get(end..)?;
    let begin = before.iter().find(|entry| entry.what == State::SeaTrial.name())?;
    let took = history.get(end)?.at.duration_since(begin.at);
    Duration::try_from(took).ok()
}

/// How long a machine takes from power-on to production: what nine of ten took, or, where too few
/// were measured, the sum of the usual times.
pub fn bring_up(acceptance: Acceptance, measured: &mut [Duration]) -> Duration {
    if measured.len() >= ENOUGH_BRING_UPS {
        let ninth = (measured.len() * 9).div_ceil(10) - 1;
        return *measured.select_nth_unstable(ninth).1;
    }
    // 150 s to DHCP and 240 s to the agent, a minute of inventory, a wipe of 10 minutes at most.
    let before = Duration::from_secs(150 + 240 + 60 + 600);
    before
        + match acceptance {
            Acceptance::Quick => Duration::from_secs(600),
            Acceptance::Full => Duration::from_secs(86_400),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::incident::{IncidentSpec, IncidentStatus};
    use api::machine::{Entry, MachineSpec, MachineStatus};

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3_600).unwrap()
    }

    fn hours(hours: u64) -> Duration {
        Duration::from_secs(hours * 3_600)
    }

    fn incident(cause: &str, opened: i64, closed: Option<(i64, End)>) -> Incident {
        let spec =
            IncidentSpec { cause: cause.to_owned(), opened: at(opened), ..IncidentSpec::default() };
        let mut incident = Incident::new("i", spec);
        incident.status = closed.map(|(closed, end)| IncidentStatus {
            stage: Stage::Closed,
            closed: Some(at(closed)),
            end: Some(end),
            ..IncidentStatus::default()
        });
        incident
    }

    fn machine(state: State, since: i64) -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.status =
            Some(MachineStatus { state, since: Some(at(since)), ..MachineStatus::default() });
        machine
    }

    #[test]
    fn one_that_was_handed_over_is_away_until_it_is_back() {
        let there = machine(State::Production, 90);
        let gone = machine(State::Triage, 3);
        let check = |incident: &Incident, machine: &Machine, until: Option<i64>| {
            let outage = outage(incident, machine).unwrap();
            assert_eq!(outage, Outage { from: at(1), until: until.map(at) });
        };
        check(&incident("xid/95", 1, None), &there, None);
        check(&incident("xid/95", 1, Some((2, End::Solved))), &there, Some(2));
        check(&incident("xid/95", 1, Some((2, End::HandedOver))), &there, Some(90));
        check(&incident("xid/95", 1, Some((2, End::HandedOver))), &gone, None);
        for wanted in ["phase/Reboot", "phase-now/Test", "pool/release"] {
            assert_eq!(outage(&incident(wanted, 1, None), &there), None, "{wanted}");
        }
    }

    #[test]
    fn what_was_measured_counts_once_there_is_enough() {
        let outages: Vec<Outage> =
            (0..20).map(|n| Outage { from: at(n * 24), until: Some(at(n * 24 + 12)) }).collect();
        let mean = mean_out(100, &outages, at(20 * 24));
        assert!((mean - 0.5).abs() < 1e-9, "{mean}");
        let few = mean_out(100, &outages[..9], at(20 * 24));
        let usual = 0.65 * (0.8 / 24.0 + 0.2 * 5.0);
        assert!((few - usual).abs() < 1e-9, "{few}");
        assert_eq!(mean_out(100, &[], at(0)), few);
        // Ten at one instant are a wave, and no rate.
        let wave = [Outage { from: at(0), until: None }; 10];
        assert_eq!(mean_out(100, &wave, at(1)), few);
        // What is long ago no longer counts, one that lasts does.
        let old = [Outage { from: at(0), until: None }; 12];
        assert_eq!(mean_out(100, &old, at(40 * 24)), few);
    }

    #[test]
    fn the_time_of_the_last_bring_up_is_that_of_the_history() {
        let mut machine = machine(State::Production, 0);
        assert_eq!(brought_up(&machine), None);
        let entry =
            |what: &str, hour| Entry { at: at(hour), what: what.to_owned(), why: String::new() };
        machine.status.as_mut().unwrap().history = vec![
            entry("Reboot", 60),
            entry("Production", 50),
            entry("Test", 26),
            entry("SeaTrial", 24),
            entry("Production", 9),
            entry("SeaTrial", 8),
        ];
        assert_eq!(brought_up(&machine), Some(hours(26)));
    }

    #[test]
    fn promises_rest_on_what_nine_of_ten_took() {
        let usual = Duration::from_secs(1_650);
        assert_eq!(bring_up(Acceptance::Quick, &mut [hours(9), hours(9)]), usual);
        assert_eq!(bring_up(Acceptance::Full, &mut []), Duration::from_secs(1_050) + hours(24));
        let mut measured: Vec<Duration> = (1..=10).map(hours).collect();
        measured.reverse();
        assert_eq!(bring_up(Acceptance::Quick, &mut measured), hours(9));
        assert_eq!(bring_up(Acceptance::Quick, &mut [hours(1), hours(2), hours(3)]), hours(3));
    }
}
