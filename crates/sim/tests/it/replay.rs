//! Small fleets that go through small traces.

use std::time::Duration;

use sim::people::Deed;
use sim::replay::findings::{Findings, Repairs};
use sim::replay::run::{Options, run};
use sim::replay::trace::Trace;

/// Faults as `(day from, day to, node, class, description)`.
fn trace(faults: &[(f64, f64, &str, &str, &str)]) -> Trace {
    let event = |at: f64, edge: &str, node: &str, class: &str, desc: &str| {
        serde_json::json!({
            "node_id": node, "event_time": at, "event_type": edge,
            "fault_type": {"Level": "Hardware Failure", "Class": class, "Desc": desc},
        })
    };
    let events = faults.iter().flat_map(|(from, to, node, class, desc)| {
        let (start, end) = ("fault_start", "fault_end");
        [event(*from, start, node, class, desc), event(*to, end, node, class, desc)]
    });
    Trace::parse(&serde_json::to_string(&events.collect::<Vec<_>>()).unwrap()).unwrap()
}

fn options(trace: Trace) -> Options {
    Options { trace, servers: 8, spares: 2, seed: 1, repairs: Repairs::Recorded }
}

fn replayed(faults: &[(f64, f64, &str, &str, &str)]) -> Findings {
    run(options(trace(faults))).unwrap()
}

const ECC: (&str, &str) = ("GPU", "GPU DBE(Double Bit ECC) > Threshold");

#[test]
fn a_broken_node_is_noticed_swapped_and_taken_back_after_its_recorded_end() {
    let (class, desc) = ECC;
    let found = replayed(&[
        (1.0, 2.0, "a", class, desc),
        (9.0, 9.5, "b", class, desc),
        (12.0, 12.0, "c", class, desc),
    ]);
    let minute = Duration::from_secs(60);
    let empty: Duration = found.pool().gaps().iter().map(|gap| gap.to - gap.from).sum();
    assert!(empty <= minute, "{:#?} {:#?}", found.outages, found.pool().gaps());
    for case in &found.cases[..2] {
        let noticed = case.noticed.unwrap() - case.at;
        assert!(noticed <= minute, "{case:?}");
        assert!(case.swap().unwrap() <= minute, "{case:?}");
        assert!(case.returned.unwrap() >= case.end, "{case:?}");
        assert!(case.returned.unwrap() <= case.end + 60 * minute, "{case:?}");
    }
    assert_eq!(found.verdict, Default::default());
}

#[test]
fn what_is_still_seen_is_not_taken_for_cured() {
    let found = replayed(&[
        (1.0, 2.0, "a", "Parameter Plane Cable", "Link Down"),
        (4.0, 4.0, "a", "Parameter Plane Cable", "Link Down"),
    ]);
    let case = &found.cases[0];
    assert!(case.handed_over.is_some(), "{case:?}");
    assert!(case.returned.unwrap() >= case.end, "{case:?}");
    assert_eq!(found.verdict, Default::default());
}

#[test]
fn a_wave_is_swapped_as_one_and_a_person_is_asked() {
    let (class, desc) = ECC;
    let names = ["a", "b", "c"];
    let mut faults: Vec<_> = names.iter().map(|name| (1.0, 2.0, *name, class, desc)).collect();
    faults.push((5.0, 5.0, "d", class, desc));
    let found = replayed(&faults);
    // Three fell ill at once and there are two spares.
    assert_eq!(found.cases.iter().filter(|case| case.warm).count(), 2);
    assert_eq!(found.warm_swaps().count(), 2);
    let gaps = found.pool().gaps();
    assert!(gaps.iter().any(|gap| gap.to - gap.from > Duration::from_secs(3_600)), "{gaps:?}");
    let opened = found.actions.iter().filter(|action| action.action == "OpenBreaker").count();
    let asked = found.people.iter().filter(|act| act.what == Deed::Acknowledged).count();
    assert_eq!((opened, asked), (1, 1), "they hang on one leaf");
    assert!(found.cases[..3].iter().all(|case| case.returned.is_some()), "{:#?}", found.cases);
    assert_eq!(found.verdict, Default::default());
}

#[test]
fn what_the_operator_keeps_is_left_alone_until_it_is_given_back() {
    let (class, desc) = ECC;
    let found = replayed(&[
        (1.0, 2.5, "a", class, desc),
        (3.0, 4.5, "b", class, desc),
        (5.0, 5.0, "c", class, desc),
    ]);
    let acts: Vec<Deed> = found.people.iter().map(|act| act.what).collect();
    let kept = |deed| acts.iter().filter(|act| **act == deed).count();
    assert_eq!((kept(Deed::HandsOff), kept(Deed::GaveBack)), (1, 1), "{acts:?}");
    let case = &found.cases[1];
    let given_back = case.at + Duration::from_secs(7_210);
    let own: Vec<_> = found.actions.iter().filter(|action| action.node == case.node).collect();
    let within = |action: &&&sim::replay::findings::Action| {
        let since = Duration::from_secs_f64(action.t).saturating_sub(case.at);
        since > Duration::from_secs(60) && case.at + since < given_back
    };
    assert_eq!(own.iter().filter(within).count(), 0, "{own:#?}");
    assert!(case.handed_over.unwrap() > given_back, "then the ladder is tried: {own:#?}");
    assert!(case.returned.unwrap() >= case.end, "{case:?}");
    assert_eq!(found.verdict, Default::default());
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let (class, desc) = ECC;
    let faults = [(0.5, 1.0, "a", class, desc), (0.5, 2.0, "b", "Unknown Error", "no such fault")];
    let report = || replayed(&faults).report().json().unwrap();
    assert_eq!(report(), report());
}

#[test]
fn a_trace_of_more_servers_than_the_fleet_is_refused() {
    let (class, desc) = ECC;
    let names: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
    let faults: Vec<_> = names.iter().map(|name| (1.0, 2.0, &**name, class, desc)).collect();
    let refused = run(options(trace(&faults))).unwrap_err().to_string();
    assert_eq!(refused, "the trace names 9 servers; --servers must be at least that, not 8");
}
