//! When a pod leaves a node whose taints drive pods away.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Taint, Toleration};

/// The effect of a taint that drives pods away.
pub const NO_EXECUTE: &str = "NoExecute";

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Somebody has deleted the pod.
    pub deleting: bool,
    /// What the pod endures.
    pub tolerations: Vec<Toleration>,
    /// The taints of its node.
    pub taints: Vec<Taint>,
    /// Since when the pod is known to be on a tainted node: what counts for taints that do not say
    /// when they were set.
    pub since: Timestamp,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It stays.
    Keep,
    /// It stays until then.
    Until(Timestamp),
    /// It goes.
    Evict,
}

/// Decides about a pod: the taint that it endures least long counts.
pub fn plan(observed: &Observed) -> Plan {
    if observed.deleting {
        return Plan::Keep;
    }
    let drives = |taint: &&Taint| taint.effect == NO_EXECUTE;
    let mut earliest: Option<Timestamp> = None;
    for taint in observed.taints.iter().filter(drives) {
        let Some(used) = observed.tolerations.iter().find(|t| tolerates(t, taint)) else {
            return Plan::Evict;
        };
        let Some(seconds) = used.toleration_seconds else { continue };
        let set = taint.time_added.as_ref().map_or(observed.since, |time| time.0);
        let end = set.checked_add(SignedDuration::from_secs(seconds.max(0)));
        let end = end.unwrap_or(Timestamp::MAX);
        earliest = Some(earliest.map_or(end, |known| known.min(end)));
    }
    match earliest {
        None => Plan::Keep,
        Some(end) if end <= observed.now => Plan::Evict,
        Some(end) => Plan::Until(end),
    }
}

/// Whether a toleration is for a taint.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let all = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    let (effect, key) = (all(&toleration.effect), all(&toleration.key));
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => all(&toleration.value) == all(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn taint(key: &str, added: Option<i64>) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: NO_EXECUTE.to_owned(),
            time_added: added.map(|second| Time(at(second))),
            value: None,
        }
    }

    fn endures(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn decide(taints: &[Taint], tolerations: &[Toleration]) -> Plan {
        plan(&Observed {
            deleting: false,
            tolerations: tolerations.to_vec(),
            taints: taints.to_vec(),
            since: at(50),
            now: at(100),
        })
    }

    #[test]
    fn the_taint_that_is_endured_least_long_counts() {
        assert_eq!(decide(&[], &[]), Plan::Keep);
        assert_eq!(decide(&[taint("a", Some(0))], &[]), Plan::Evict);
        assert_eq!(decide(&[taint("a", Some(0))], &[endures("a", None)]), Plan::Keep);
        let both = [endures("a", Some(300)), endures("b", Some(60))];
        assert_eq!(decide(&[taint("a", Some(0))], &both), Plan::Until(at(300)));
        assert_eq!(decide(&[taint("a", Some(0)), taint("b", None)], &both), Plan::Until(at(110)));
        assert_eq!(decide(&[taint("a", Some(0)), taint("b", Some(40))], &both), Plan::Evict);
        assert_eq!(decide(&[taint("c", Some(0))], &both), Plan::Evict);
    }

    #[test]
    fn other_effects_drive_nobody_away() {
        let soft = Taint { effect: "NoSchedule".to_owned(), ..taint("a", None) };
        assert_eq!(decide(&[soft], &[]), Plan::Keep);
    }
}
