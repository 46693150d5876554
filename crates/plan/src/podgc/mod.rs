//! Which pods are only records of what is over.
//!
//! Numbers, words and order are kube-controller-manager's.

use jiff::{SignedDuration, Timestamp};

/// How long a node must be gone before its pods are.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// How many ended pods a cluster keeps.
pub const THRESHOLD: usize = 12_500;

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On no node.
    Nowhere,
    /// On a node that is there.
    Node {
        /// It is not ready, and somebody has declared it out of service.
        out_of_service: bool,
    },
    /// On a node that has been gone since.
    Gone(Timestamp),
}

/// All that the decision about a pod rests on.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Where it is.
    pub place: Place,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It stays.
    Keep,
    /// It stays until then.
    Until(Timestamp),
    /// Its node is gone, and so is it.
    Orphaned,
    /// Nobody is left who could end it.
    Abandoned,
}

/// Decides about a pod.
pub fn plan(observed: Observed) -> Plan {
    match observed.place {
        Place::Gone(since) => {
            let end = since.checked_add(QUARANTINE).unwrap_or(Timestamp::MAX);
            if end <= observed.now { Plan::Orphaned } else { Plan::Until(end) }
        }
        Place::Nowhere | Place::Node { out_of_service: true } if observed.deleting => {
            Plan::Abandoned
        }
        _ => Plan::Keep,
    }
}

/// A pod that has ended.
#[derive(Clone, Debug)]
pub struct Ended<K> {
    /// Which.
    pub pod: K,
    /// Its node threw it out.
    pub evicted: bool,
    /// When it was made.
    pub created: Timestamp,
}

/// The pods beyond the threshold: evicted ones first, then the oldest.
pub fn surplus<K: Ord>(mut ended: Vec<Ended<K>>, threshold: usize) -> Vec<K> {
    let surplus = ended.len().saturating_sub(threshold);
    ended.sort_by(|a, b| (!a.evicted, a.created, &a.pod).cmp(&(!b.evicted, b.created, &b.pod)));
    ended.into_iter().take(surplus).map(|ended| ended.pod).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn a_pod_goes_with_its_node_and_when_nobody_can_end_it() {
        let decide = |place, deleting| plan(Observed { place, deleting, now: at(100) });
        assert_eq!(decide(Place::Gone(at(70)), false), Plan::Until(at(110)));
        assert_eq!(decide(Place::Gone(at(60)), false), Plan::Orphaned);
        assert_eq!(decide(Place::Nowhere, true), Plan::Abandoned);
        assert_eq!(decide(Place::Nowhere, false), Plan::Keep);
        assert_eq!(decide(Place::Node { out_of_service: true }, true), Plan::Abandoned);
        assert_eq!(decide(Place::Node { out_of_service: true }, false), Plan::Keep);
        assert_eq!(decide(Place::Node { out_of_service: false }, true), Plan::Keep);
    }

    #[test]
    fn evicted_pods_go_first_and_then_the_oldest() {
        let ended = |pod, evicted, second| Ended { pod, evicted, created: at(second) };
        let all = vec![ended("new", false, 9), ended("old", false, 1), ended("out", true, 10)];
        assert_eq!(surplus(all.clone(), 1), ["out", "old"]);
        assert!(surplus(all, 3).is_empty());
    }
}
