//! How many pods of a disruption budget may be evicted.
//!
//! Numbers, reasons and rounding are kube-controller-manager's: a percentage is of what the pods'
//! controllers want, not of what is there, and is rounded up.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How long an evicted pod is waited for before its eviction counts as not having happened.
pub const AGE_OUT: SignedDuration = SignedDuration::from_secs(120);

/// A pod that the budget's selector selects.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// It is ready.
    pub ready: bool,
    /// Somebody has deleted it.
    pub deleting: bool,
}

/// What the budget asks for.
#[derive(Clone, Debug)]
pub enum Bound {
    /// At least so many are healthy.
    MinAvailable(IntOrString),
    /// At most so many are not.
    MaxUnavailable(IntOrString),
}

impl Bound {
    /// It can only be judged by how many pods their controllers want.
    pub fn needs_scale(&self) -> bool {
        !matches!(self, Self::MinAvailable(IntOrString::Int(_)))
    }
}

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What the budget asks for; `None` asks for nothing.
    pub bound: Option<Bound>,
    /// Its pods.
    pub pods: Vec<Member>,
    /// How many pods their controllers want, or why that is not known.
    pub scale: Result<i32, String>,
    /// Pods whose eviction was allowed, and when.
    pub disrupted: BTreeMap<String, Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// The counts of a budget's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Healthy pods.
    pub current: i32,
    /// How many shall be.
    pub desired: i32,
    /// How many pods there shall be.
    pub expected: i32,
    /// How many may be evicted.
    pub allowed: i32,
}

/// What the budget's status shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The counts; `Err` says why there are none, and then nothing may be evicted.
    pub counts: Result<Counts, String>,
    /// Evicted pods that are still waited for.
    pub disrupted: BTreeMap<String, Timestamp>,
    /// When the first of them is waited for no longer.
    pub next: Option<Timestamp>,
}

/// Decides about a budget.
pub fn plan(observed: &Observed) -> Plan {
    let ends = |since: &Timestamp| since.checked_add(AGE_OUT).unwrap_or(Timestamp::MAX);
    let waited = |(name, since): &(&String, &Timestamp)| {
        let there = observed.pods.iter().any(|pod| pod.name == **name && !pod.deleting);
        there && ends(since) > observed.now
    };
    let disrupted: BTreeMap<String, Timestamp> = observed
        .disrupted
        .iter()
        .filter(waited)
        .map(|(name, since)| (name.clone(), *since))
        .collect();
    let healthy = |pod: &&Member| pod.ready && !pod.deleting && !disrupted.contains_key(&pod.name);
    let current = count(observed.pods.iter().filter(healthy).count());
    let counts = bounds(observed).map(|(expected, desired)| {
        let allowed = if expected <= 0 { 0 } else { current.saturating_sub(desired).max(0) };
        Counts { current, desired, expected, allowed }
    });
    let next = disrupted.values().map(ends).min();
    Plan { counts, disrupted, next }
}

/// How many pods there shall be, and how many of them healthy.
fn bounds(observed: &Observed) -> Result<(i32, i32), String> {
    let there = count(observed.pods.len());
    let part = |of: &IntOrString, all: i32| match of {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => percent(text, all),
    };
    match &observed.bound {
        None => Ok((there, 0)),
        Some(bound) if !bound.needs_scale() => {
            let Bound::MinAvailable(IntOrString::Int(number)) = bound else { return Ok((0, 0)) };
            Ok((there, *number))
        }
        Some(Bound::MinAvailable(least)) => {
            let all = observed.scale.clone()?;
            Ok((all, part(least, all)?))
        }
        Some(Bound::MaxUnavailable(most)) => {
            let all = observed.scale.clone()?;
            Ok((all, all.saturating_sub(part(most, all)?).max(0)))
        }
    }
}

/// So many percent of a number, rounded up.
fn percent(text: &str, all: i32) -> Result<i32, String> {
    let number = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
    let number =
        number.ok_or_else(|| format!("{text:?} is no percentage; write it like \"50%\""))?;
    let part = (i64::from(all.max(0)) * i64::from(number)).div_euclid(100)
        + i64::from((i64::from(all.max(0)) * i64::from(number)) % 100 != 0);
    Ok(i32::try_from(part).unwrap_or(i32::MAX))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn observed(bound: Bound, ready: usize, all: usize, scale: i32) -> Observed {
        let pod = |n: usize| Member { name: format!("p{n}"), ready: n < ready, deleting: false };
        Observed {
            bound: Some(bound),
            pods: (0..all).map(pod).collect(),
            scale: Ok(scale),
            disrupted: BTreeMap::new(),
            now: at(0),
        }
    }

    fn counts(bound: Bound, ready: usize, all: usize, scale: i32) -> (i32, i32, i32, i32) {
        let counts = plan(&observed(bound, ready, all, scale)).counts.unwrap();
        (counts.current, counts.desired, counts.expected, counts.allowed)
    }

    fn percentage(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }

    #[test]
    fn bounds_are_of_what_the_controllers_want() {
        let (least, most) = (Bound::MinAvailable, Bound::MaxUnavailable);
        assert_eq!(counts(least(IntOrString::Int(2)), 3, 3, 99), (3, 2, 3, 1));
        assert_eq!(counts(least(percentage("50%")), 3, 3, 5), (3, 3, 5, 0));
        assert_eq!(counts(most(IntOrString::Int(1)), 5, 5, 5), (5, 4, 5, 1));
        assert_eq!(counts(most(percentage("30%")), 7, 7, 7), (7, 4, 7, 3));
        assert_eq!(counts(most(IntOrString::Int(9)), 2, 3, 3), (2, 0, 3, 2));
        assert_eq!(counts(most(IntOrString::Int(1)), 0, 0, 0), (0, 0, 0, 0));
    }

    #[test]
    fn an_evicted_pod_counts_until_it_is_gone_or_two_minutes_have_passed() {
        let mut observed = observed(Bound::MinAvailable(IntOrString::Int(1)), 3, 3, 3);
        observed.disrupted = BTreeMap::from([("p0".into(), at(0)), ("gone".into(), at(0))]);
        observed.now = at(119);
        let waits = plan(&observed);
        assert_eq!(waits.counts.unwrap().allowed, 1);
        assert_eq!(waits.disrupted.keys().collect::<Vec<_>>(), ["p0"]);
        assert_eq!(waits.next, Some(at(120)));
        observed.now = at(120);
        let over = plan(&observed);
        assert_eq!((over.counts.unwrap().allowed, over.next), (2, None));
    }

    #[test]
    fn a_scale_that_is_not_known_is_said_so() {
        let mut one = observed(Bound::MaxUnavailable(percentage("half")), 1, 1, 1);
        assert!(plan(&one).counts.is_err());
        one.scale = Err("no controller".to_owned());
        one.bound = Some(Bound::MaxUnavailable(IntOrString::Int(1)));
        assert_eq!(plan(&one).counts, Err("no controller".to_owned()));
    }
}
