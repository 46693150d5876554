//! Small fleets that go through small traces.

use std::time::Duration;

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
    for case in &found.cases[..2] {
        let noticed = case.noticed.unwrap() - case.at;
        assert!(noticed <= minute, "{case:?}");
        assert!(case.swap().unwrap() <= minute, "{case:?}");
        assert!(case.returned.unwrap() >= case.end, "{case:?}");
        assert!(case.returned.unwrap() <= case.end + 60 * minute, "{case:?}");
    }
    assert_eq!(found.verdict, Default::default());
}
