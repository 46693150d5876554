//! The example trace is read as its authors describe it.

use std::time::Duration;

use jiff::Timestamp;
use plan::catalogue::{Basis, Catalogue, TraceMap};
use plan::pool::availability;
use sim::replay::show::show;
use sim::replay::trace::Trace;

fn example() -> Trace {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fault-trace/fault_trace.json");
    Trace::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_example_is_what_its_readme_says() {
    let trace = example();
    assert_eq!((trace.nodes.len(), trace.faults.len()), (231, 584));
    assert!((trace.length.as_secs_f64() / 86_400.0 - 348.98).abs() < 0.01);
    let about = |word: &str| trace.warnings.iter().filter(|w| w.what.contains(word)).count();
    assert_eq!((about("no time"), about("while that of"), trace.warnings.len()), (14, 2, 16));
    let sum: Duration = trace.faults.iter().map(|fault| fault.to - fault.from).sum();
    assert_eq!(sum.as_secs() / 86_400, 3_232);
}

#[test]
fn the_waves_take_more_spares_than_poisson_says() {
    let trace = example();
    let end = Timestamp::UNIX_EPOCH.checked_add(trace.length).unwrap();
    let at = |time: Duration| Timestamp::UNIX_EPOCH.checked_add(time).unwrap();
    let outages: Vec<_> = trace.outages().iter().map(|(from, to)| (at(*from), at(*to))).collect();
    let curve = availability(&outages, Timestamp::UNIX_EPOCH, end);
    let percent = |spares: usize| (curve[spares] * 10_000.0).round() / 100.0;
    assert_eq!(curve.len(), 36, "at most 35 were out at once");
    assert_eq!(
        [11, 20, 25, 30].map(percent).map(|p| (p * 10.0).round() / 10.0),
        [78.5, 86.2, 94.8, 98.8]
    );
    assert_eq!([32, 33].map(percent), [99.79, 99.97]);
    assert_eq!(curve.iter().position(|share| *share >= 0.999), Some(33));
    let mean: f64 = curve.iter().map(|share| 1.0 - share).sum();
    assert!((mean - 9.26).abs() < 0.005, "{mean}");
    assert_eq!(trace.independent_spares(), Some(20));
}

#[test]
fn every_word_of_the_example_is_known() {
    let trace = example();
    let map = TraceMap::load(&Catalogue::load(&[]).unwrap(), &[]).unwrap();
    let (shown, warnings) = show(&trace, &map, 1);
    assert_eq!((shown.len(), warnings.len()), (584, 0));
    let assumed = shown.iter().filter(|fault| fault.basis == Basis::Assumed).count();
    // Unknown errors, software of no name, suspects, modules at the other end, and numberless XIDs.
    assert!((180..=190).contains(&assumed), "{assumed}");
}
