//! Verification: which test proves a machine, and whether a result passes.
//!
//! A test passes when its agent says so and no figure is below the floor of the instance type. A
//! floor without a figure is a failure too: what was not measured is not proven. Only tests that
//! measure (quick, idle, full) are held to floors.
//!
//! It also says when an idle node is due for its hourly test; user work passes before any test, so
//! a node with work is never due, and a running test is taken back as soon as work arrives.

use crate::machine::later;
use crate::rules::Rules;
use api::InstanceType;
use api::machine::{MAX_TESTS, TestResult};
use api::request::{Chore, Outcome, Report};
use jiff::Timestamp;
use std::time::Duration;

/// Whether a result passes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it passes.
    pub passed: bool,
    /// What was found, as one sentence.
    pub detail: String,
}

/// Whether a chore proves something, so that its failure is a finding and not an accident.
pub const fn is_test(chore: Chore) -> bool {
    matches!(
        chore,
        Chore::TestReadiness
            | Chore::TestQuick
            | Chore::TestIdle
            | Chore::TestFull
            | Chore::Diagnose
    )
}

/// The chore's name in results and operation ids.
pub const fn name(chore: Chore) -> &'static str {
    match chore {
        Chore::Inventory => "inventory",
        Chore::Sanitise => "sanitise",
        Chore::Firmware => "firmware",
        Chore::ResetGpu => "reset-gpu",
        Chore::RestartService => "restart-service",
        Chore::TestReadiness => "readiness",
        Chore::TestQuick => "quick",
        Chore::TestIdle => "idle",
        Chore::TestFull => "full",
        Chore::Diagnose => "diagnose",
    }
}

/// Judges a report against the floors of the machine's type.
pub fn judge(chore: Chore, report: &Report, kind: Option<&InstanceType>) -> Verdict {
    let measured = matches!(chore, Chore::TestQuick | Chore::TestIdle | Chore::TestFull);
    if report.outcome != Outcome::Succeeded || !measured {
        let passed = report.outcome == Outcome::Succeeded;
        return Verdict { passed, detail: report.detail.clone() };
    }
    let floors = kind.into_iter().flat_map(|kind| &kind.spec.floors);
    let low: Vec<String> = floors
        .filter_map(|(name, floor)| match report.figures.get(name) {
            // Written so that a figure that is no number does not pass.
            Some(figure) if *figure >= *floor => None,
            Some(figure) => Some(format!("{name} is {figure}, the floor is {floor}")),
            None => Some(format!("{name} was not measured, the floor is {floor}")),
        })
        .collect();
    if low.is_empty() {
        return Verdict { passed: true, detail: report.detail.clone() };
    }
    Verdict { passed: false, detail: low.join(", ") }
}

/// Puts a result before the others, and forgets the oldest of that test.
pub fn keep(tests: &mut Vec<TestResult>, result: TestResult) {
    let test = result.test.clone();
    tests.insert(0, result);
    let mut there = 0;
    tests.retain(|kept| {
        there += usize::from(kept.test == test);
        kept.test != test || there <= MAX_TESTS
    });
}

/// How long a test of idle time that came to nothing (refused, or taken back) is not asked for again.
const FRUITLESS: Duration = Duration::from_secs(3_600);

/// When an idle node is tested next: an hour after its last test that proves as much, and once it
/// has been idle for a while; `tried` is when the last such test was answered, whatever came of it.
/// Never where the rules say so.
pub fn idle_test_due(
    idle_since: Timestamp,
    tests: &[TestResult],
    tried: Option<Timestamp>,
    rules: &Rules,
) -> Option<Timestamp> {
    let every = rules.idle_test_every?;
    let settled = later(idle_since, rules.idle_before_test);
    // What refuses a test at once would refuse it again at once, for as long as its cause lasts.
    let again = tried.map(|tried| later(tried, every.min(FRUITLESS)));
    let settled = again.map_or(settled, |again| again.max(settled));
    let proven = tests
        .iter()
        .filter(|test| matches!(test.test.as_str(), "idle" | "quick" | "full"))
        .map(|test| later(test.at, every))
        .max();
    Some(proven.map_or(settled, |proven| proven.max(settled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::instance_type::InstanceTypeSpec;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn kind() -> InstanceType {
        let floors = BTreeMap::from([("allreduce_gbps".to_owned(), 460.0)]);
        InstanceType::new("h100", InstanceTypeSpec { floors, ..InstanceTypeSpec::default() })
    }

    fn report(outcome: Outcome, figure: Option<f64>) -> Report {
        Report {
            id: "t".to_owned(),
            boot: "b".to_owned(),
            outcome,
            detail: "8 GPUs".to_owned(),
            part: None,
            figures: figure.into_iter().map(|f| ("allreduce_gbps".to_owned(), f)).collect(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_figure_must_reach_its_floor() {
        let kind = kind();
        let judge =
            |outcome, figure| judge(Chore::TestQuick, &report(outcome, figure), Some(&kind));
        assert!(judge(Outcome::Succeeded, Some(460.0)).passed);
        for (outcome, figure) in [
            (Outcome::Succeeded, Some(459.9)),
            (Outcome::Succeeded, Some(f64::NAN)),
            (Outcome::Succeeded, None),
            (Outcome::Failed, Some(500.0)),
            (Outcome::Running, Some(500.0)),
        ] {
            assert!(!judge(outcome, figure).passed, "{outcome:?} {figure:?}");
        }
        let low = judge(Outcome::Succeeded, Some(100.0));
        assert_eq!(low.detail, "allreduce_gbps is 100, the floor is 460");
    }

    #[test]
    fn chores_that_measure_nothing_have_no_floors() {
        let report = report(Outcome::Succeeded, None);
        assert!(judge(Chore::Diagnose, &report, Some(&kind())).passed);
        assert!(judge(Chore::TestReadiness, &report, Some(&kind())).passed);
    }

    fn at(seconds: u64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
    }

    fn test(name: &str, seconds: u64) -> TestResult {
        TestResult {
            test: name.to_owned(),
            passed: true,
            detail: String::new(),
            image: None,
            kernel: None,
            figures: BTreeMap::new(),
            at: at(seconds),
        }
    }

    #[test]
    fn tests_of_every_hour_do_not_push_out_the_burn_in() {
        let mut tests = Vec::new();
        keep(&mut tests, test("full", 0));
        for hour in 1..=100 {
            keep(&mut tests, test("idle", hour * 3_600));
        }
        let kept: Vec<_> = tests.iter().map(|kept| (kept.test.as_str(), kept.at)).collect();
        let idle = [100, 99, 98, 97].map(|hour| ("idle", at(hour * 3_600)));
        assert_eq!(kept, [&idle[..], &[("full", at(0))]].concat());
    }

    #[test]
    fn idle_nodes_are_tested_hourly() {
        let rules = Rules::default();
        assert_eq!(idle_test_due(at(100), &[], None, &rules), Some(at(400)));
        let refused = idle_test_due(at(100), &[], Some(at(405)), &rules);
        assert_eq!(refused, Some(at(4_005)), "what came to nothing is not asked for at once again");
        assert_eq!(idle_test_due(at(100), &[test("quick", 50)], None, &rules), Some(at(3_650)));
        assert_eq!(idle_test_due(at(9_000), &[test("idle", 50)], None, &rules), Some(at(9_300)));
        assert_eq!(idle_test_due(at(100), &[test("readiness", 90)], None, &rules), Some(at(400)));
    }
}
