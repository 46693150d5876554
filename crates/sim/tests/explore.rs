//! The explorer holds the shipped decisions, and finds what is planted.

use sim::explore::{Bug, explore, hunt};

/// A few hundred in every run of the tests; `cargo xtask test` plays 50,000 with optimisation.
#[test]
fn nothing_goes_wrong_and_the_same_numbers_are_the_same_schedules() {
    let alone = explore(1, 150, 1, None, &|_, _| {});
    assert!(alone.wrong.is_empty(), "{:#?}", alone.wrong);
    assert!(alone.percentile(50) >= 40, "median {}", alone.percentile(50));
    let shared = explore(1, 150, 3, None, &|_, _| {});
    assert_eq!((alone.hash, &alone.steps), (shared.hash, &shared.steps));
    assert_eq!(alone.coverage, shared.coverage);
    assert_ne!(alone.hash, explore(2, 150, 1, None, &|_, _| {}).hash);
}

/// `cargo xtask explore --bugs 50000` finds all of them; without optimisation there is time for those
/// that show at once.
#[test]
fn planted_bugs_are_found() {
    let late = [
        Bug::NoVersionCheck,
        Bug::RetryLostReply,
        Bug::IgnoreLastReset,
        Bug::BudgetPerController,
        Bug::TrustAnyAnswer,
    ];
    for (bug, invariant) in Bug::ALL.iter().filter(|(bug, _)| !late.contains(bug)) {
        assert!(hunt(1, 60, *bug).is_some(), "{bug:?} is not found: {invariant}");
    }
}

/// `cargo xtask explore --real 2000` plays more.
#[cfg(feature = "site")]
mod through_the_server {
    use sim::explore::real::{Sabotage, explore, hunt};

    #[test]
    fn nothing_goes_wrong() {
        let played = explore(1, 2, 1, None, &|_, _| {});
        assert!(played.wrong.is_empty(), "{:#?}", played.wrong);
        assert!(played.percentile(50) >= 40, "median {}", played.percentile(50));
    }

    #[test]
    fn what_is_done_behind_the_objects_is_found() {
        for what in [Sabotage::NoEvents, Sabotage::NoAudit, Sabotage::Reset] {
            assert!(hunt(1, 5, what).is_some(), "{what:?} is not found");
        }
    }
}
