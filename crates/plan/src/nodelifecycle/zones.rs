//! Which nodes drive their pods away, and how many at a time.
//!
//! A zone loses one node in ten seconds. When most of a zone is gone it loses one in a hundred, and
//! none if it is small. When every zone is gone altogether, nothing is driven away, and what was
//! tainted is freed: the network between them and us is the likelier fault.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{NOT_READY, UNREACHABLE, later, whole};

/// Between two nodes of a zone.
const PACE: SignedDuration = SignedDuration::from_secs(10);

/// The same while most of a large zone is gone.
const SLOW: SignedDuration = SignedDuration::from_secs(100);

/// A zone of more nodes is large.
const LARGE: usize = 50;

/// So many nodes of a hundred that are not ready are most.
const MOST: usize = 55;

const EFFECT: &str = "NoExecute";

/// The region and zone of a node.
pub type Zone = (String, String);

/// How large a zone is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its nodes.
    pub all: usize,
    /// Those of them that are ready.
    pub ready: usize,
}

/// A node as its zone sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its region and zone.
    pub zone: Zone,
    /// Its `Ready` condition: the status, and since when; `None` if it has none yet.
    pub ready: Option<(String, Timestamp)>,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// All that the decision rests on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Every zone.
    pub zones: BTreeMap<Zone, Size>,
    /// Every node that [is not as it should be](Member::is_troubled), in the order of names.
    pub troubled: Vec<Member>,
    /// When a zone last lost a node.
    pub last: BTreeMap<Zone, Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// What shall be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Give these nodes exactly these taints.
    pub taints: Vec<(String, Vec<Taint>)>,
    /// These zones lose a node now.
    pub spent: Vec<Zone>,
    /// When the next node may follow.
    pub next: Option<Timestamp>,
}

impl Member {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(status, _)| status == "True")
    }

    /// Whether there may be something to decide about it: it is not ready, or was not. All others
    /// count for the size of their zone only.
    pub fn is_troubled(&self) -> bool {
        !self.is_ready() || self.is_tainted()
    }

    /// The taint that its condition asks for.
    fn wanted(&self) -> Option<&'static str> {
        match self.ready.as_ref()?.0.as_str() {
            "True" => None,
            "False" => Some(NOT_READY),
            _ => Some(UNREACHABLE),
        }
    }

    fn is_tainted(&self) -> bool {
        self.taints.iter().any(is_ours)
    }

    /// Its taints with exactly this one of ours; `None` if they are so already.
    fn with(&self, wanted: Option<&str>, now: Timestamp) -> Option<Vec<Taint>> {
        let stays = |taint: &&Taint| !is_ours(taint) || wanted == Some(taint.key.as_str());
        let mut all: Vec<Taint> = self.taints.iter().filter(stays).cloned().collect();
        if let Some(key) = wanted
            && !all.iter().any(is_ours)
        {
            all.push(Taint {
                key: key.to_owned(),
                effect: EFFECT.to_owned(),
                time_added: Some(Time(whole(now))),
                ..Taint::default()
            });
        }
        (all != self.taints).then_some(all)
    }
}

fn is_ours(taint: &Taint) -> bool {
    taint.effect == EFFECT && (taint.key == NOT_READY || taint.key == UNREACHABLE)
}

/// How fast a zone may lose nodes; `None`: not at all.
fn pace(zone: Size) -> Option<SignedDuration> {
    let gone = zone.all.saturating_sub(zone.ready);
    let most = gone > 2 && gone * 100 >= zone.all * MOST;
    match most && gone < zone.all {
        false => Some(PACE),
        true if zone.all > LARGE => Some(SLOW),
        true => None,
    }
}

/// Decides which nodes drive their pods away.
pub fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let mut zones: BTreeMap<&Zone, Vec<&Member>> = BTreeMap::new();
    for node in &observed.troubled {
        zones.entry(&node.zone).or_default().push(node);
    }
    let all_gone = observed.zones.values().all(|zone| zone.ready == 0);
    for (zone, members) in zones {
        let mut waiting = Vec::new();
        for member in &members {
            let wanted = member.wanted().filter(|_| !all_gone);
            if wanted.is_some() && !member.is_tainted() {
                waiting.push(*member);
            } else if let Some(taints) = member.with(wanted, observed.now) {
                plan.taints.push((member.name.clone(), taints));
            }
        }
        let size = observed.zones.get(zone).copied().unwrap_or_default();
        let Some(pace) = pace(size).filter(|_| !waiting.is_empty()) else { continue };
        // Who has been away longest goes first.
        waiting.sort_by_key(|member| (member.ready.as_ref().map(|ready| ready.1), &member.name));
        let mut free = observed.last.get(zone).map(|last| later(*last, pace));
        if free.is_none_or(|free| free <= observed.now) {
            let first = waiting.remove(0);
            if let Some(taints) = first.with(first.wanted(), observed.now) {
                plan.taints.push((first.name.clone(), taints));
            }
            plan.spent.push(zone.clone());
            free = Some(later(observed.now, pace));
        }
        if !waiting.is_empty() {
            plan.next = plan.next.into_iter().chain(free).min();
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn zone(name: &str) -> Zone {
        ("r".to_owned(), name.to_owned())
    }

    /// What is seen of these nodes.
    fn seen(nodes: Vec<Member>, second: i64) -> Observed {
        let mut zones: BTreeMap<Zone, Size> = BTreeMap::new();
        for node in &nodes {
            let size = zones.entry(node.zone.clone()).or_default();
            size.all += 1;
            size.ready += usize::from(node.is_ready());
        }
        let troubled = nodes.into_iter().filter(Member::is_troubled).collect();
        Observed { zones, troubled, now: at(second), ..Observed::default() }
    }

    fn member(name: &str, in_zone: &str, ready: &str) -> Member {
        Member {
            name: name.to_owned(),
            zone: zone(in_zone),
            ready: Some((ready.to_owned(), at(0))),
            taints: Vec::new(),
        }
    }

    /// So many nodes of a zone, the first of them not ready.
    fn members(in_zone: &str, count: usize, gone: usize) -> Vec<Member> {
        let status = |n: usize| if n < gone { "Unknown" } else { "True" };
        (0..count).map(|n| member(&format!("{in_zone}{n:03}"), in_zone, status(n))).collect()
    }

    fn tainted(plan: &Plan) -> Vec<&str> {
        plan.taints.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_zone_loses_one_node_at_a_time() {
        let mut observed = seen(members("a", 10, 2), 100);
        let first = plan(&observed);
        assert_eq!((tainted(&first), first.next), (vec!["a000"], Some(at(110))));
        observed.troubled[0].taints = first.taints[0].1.clone();
        observed.last.insert(zone("a"), at(100));
        observed.now = at(109);
        let waits = plan(&observed);
        assert_eq!((tainted(&waits), waits.next), (vec![], Some(at(110))));
        observed.now = at(110);
        let second = plan(&observed);
        assert_eq!((tainted(&second), second.next), (vec!["a001"], None));
    }

    #[test]
    fn a_node_that_recovers_is_freed_at_once_and_a_change_of_mind_is_not_held_back() {
        let mut node = member("a", "a", "Unknown");
        node.taints = node.with(Some(UNREACHABLE), at(0)).unwrap();
        let other = member("b", "a", "True");
        let decide = |status: &str| {
            let mut node = node.clone();
            node.ready = Some((status.to_owned(), at(5)));
            let last = BTreeMap::from([(zone("a"), at(9))]);
            plan(&Observed { last, ..seen(vec![node, other.clone()], 10) })
        };
        assert_eq!(decide("True").taints, [("a".to_owned(), vec![])]);
        assert_eq!(decide("False").taints[0].1[0].key, NOT_READY);
        assert_eq!(decide("Unknown").taints, []);
    }

    #[test]
    fn most_of_a_zone_gone_slows_down_or_stops() {
        let decide = |nodes: Vec<Member>| plan(&seen(nodes, 100));
        assert_eq!(tainted(&decide(members("a", 10, 6))), [""; 0]);
        assert_eq!(decide(members("a", 60, 40)).next, Some(at(200)));
        // One zone that is wholly gone is evacuated while another lives.
        let mut both = members("a", 4, 4);
        both.extend(members("b", 4, 0));
        assert_eq!(tainted(&decide(both)), ["a000"]);
    }

    #[test]
    fn when_all_is_gone_nothing_is_driven_away() {
        let mut nodes = members("a", 3, 3);
        nodes[1].taints = nodes[1].with(Some(UNREACHABLE), at(0)).unwrap();
        let freed = plan(&seen(nodes, 100));
        assert_eq!(freed.taints, [("a001".to_owned(), vec![])]);
        assert_eq!(freed.next, None);
    }
}
