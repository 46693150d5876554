//! The explorer holds the shipped decisions, and finds what is planted.

use sim::explore::{Bug, explore, hunt};

/// A few hundred in every run of the tests; `cargo xtask test` plays 50,000 with optimisation.
#[test]
fn nothing_goes_wrong_and_the_same_numbers_are_the_same_schedules() {
    let alone = explore(1, 150, 1, None);
    assert!(alone.wrong.is_empty(), "{:#?}", alone.wrong);
    assert!(alone.percentile(50) >= 40, "median {}", alone.percentile(50));
    let shared = explore(1, 150, 3, None);
    assert_eq!((alone.hash, &alone.steps), (shared.hash, &shared.steps));
    assert_eq!(alone.coverage, shared.coverage);
    assert_ne!(alone.hash, explore(2, 150, 1, None).hash);
}

#[test]
fn each_planted_bug_is_found() {
    for (bug, invariant) in Bug::ALL {
        // Without optimisation this is what a test may cost; all are found far below 50,000.
        let found = hunt(1, 3_000, bug);
        assert!(found.is_some(), "{bug:?} is not found: {invariant}");
    }
}
