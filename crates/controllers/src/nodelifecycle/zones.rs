//! Every zone's size, and the nodes that are not as they should be, kept up with every change.
//!
//! A fleet that comes up changes each node several times and needs no look at its zones; one that
//! falls silent as a whole needs few. So nodes that are well are only counted, and looks at many that
//! are not rest in between, for a share of the time that does not grow with the fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use plan::nodelifecycle::zones::{Member, Size, Zone};

use super::Observed;
use super::observe::{created, ready, taints};

/// How long zones rest after a look, for each node that is not well: of 10,000, a second.
const REST: Duration = Duration::from_micros(100);

/// So many nodes cost so little that there need be no rest.
const FEW: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Zones {
    sizes: BTreeMap<Zone, Size>,
    /// The zone of each node, and whether it is ready.
    nodes: BTreeMap<String, (Zone, bool)>,
    troubled: BTreeMap<String, Member>,
    /// When a zone last lost a node.
    last: BTreeMap<Zone, Timestamp>,
    rests: Option<Timestamp>,
}

impl Zones {
    /// A node is as it is, or gone; says whether there may be something to decide.
    pub(super) fn see(&mut self, name: &str, node: Option<&Node>) -> bool {
        let member = node.map(|node| member(name, node));
        let fresh = member.as_ref().map(|member| (member.zone.clone(), member.is_ready()));
        let counts = self.nodes.get(name) != fresh.as_ref();
        if counts {
            self.count(name, fresh);
        }
        let trouble = member.filter(Member::is_troubled);
        let known = self.troubled.get(name);
        if known != trouble.as_ref() {
            match trouble {
                Some(member) => self.troubled.insert(name.to_owned(), member),
                None => self.troubled.remove(name),
            };
            return true;
        }
        counts && !self.troubled.is_empty()
    }

    fn count(&mut self, name: &str, fresh: Option<(Zone, bool)>) {
        if let Some((zone, was_ready)) = self.nodes.remove(name)
            && let Some(size) = self.sizes.get_mut(&zone)
        {
            size.all -= 1;
            size.ready -= usize::from(was_ready);
            if size.all == 0 {
                self.sizes.remove(&zone);
            }
        }
        if let Some((zone, is_ready)) = fresh {
            let size = self.sizes.entry(zone.clone()).or_default();
            size.all += 1;
            size.ready += usize::from(is_ready);
            self.nodes.insert(name.to_owned(), (zone, is_ready));
        }
    }

    /// What there is to know, unless it was looked at a moment ago.
    pub(super) fn look(&mut self, now: Timestamp) -> Observed {
        if let Some(until) = self.rests.filter(|until| *until > now) {
            return Observed::Resting(until);
        }
        let rest = rest(self.troubled.len());
        self.rests = rest.map(|rest| now.checked_add(rest).unwrap_or(Timestamp::MAX));
        Observed::Zones(plan::nodelifecycle::zones::Observed {
            zones: self.sizes.clone(),
            troubled: self.troubled.values().cloned().collect(),
            last: self.last.clone(),
            now,
        })
    }

    /// These zones have lost a node.
    pub(super) fn spent(&mut self, zones: Vec<Zone>, now: Timestamp) {
        self.last.extend(zones.into_iter().map(|zone| (zone, now)));
    }
}

fn rest(troubled: usize) -> Option<Duration> {
    let count = u32::try_from(troubled).unwrap_or(u32::MAX);
    (troubled > FEW).then(|| REST.saturating_mul(count))
}

fn member(name: &str, node: &Node) -> Member {
    let label = |name: &str| {
        let labels = node.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(name)).cloned().unwrap_or_default()
    };
    let ready = ready(node).map(|ready| {
        let since = ready.last_transition_time.as_ref().map_or(created(node), |time| time.0);
        (ready.status.clone(), since)
    });
    Member {
        name: name.to_owned(),
        zone: (label(api::names::REGION), label(api::names::ZONE)),
        ready,
        taints: taints(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, zone: &str) -> Node {
        serde_json::from_value(serde_json::json!({
            "metadata": {"labels": {api::names::ZONE: zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_fleet_that_is_well_is_counted_and_never_looked_at() {
        let mut zones = Zones::default();
        let looks = (0..1_000).filter(|n| zones.see(&format!("n{n}"), Some(&node("True", "a"))));
        assert_eq!(looks.count(), 0);
        assert!(zones.see("n7", Some(&node("Unknown", "a"))));
        assert!(!zones.see("n7", Some(&node("Unknown", "a"))), "a heartbeat is no news");
        assert!(zones.see("n8", Some(&node("True", "b"))), "the zone of one that waits is smaller");
        let zone = |name: &str| (String::new(), name.to_owned());
        assert_eq!(zones.sizes[&zone("a")], Size { all: 999, ready: 998 });
        assert_eq!(zones.sizes[&zone("b")], Size { all: 1, ready: 1 });
        assert!(zones.see("n7", None));
        assert!(!zones.see("n8", None));
        assert!(!zones.sizes.contains_key(&zone("b")) && zones.troubled.is_empty());
    }

    #[test]
    fn many_that_are_not_well_are_looked_at_once_in_a_while() {
        let (mut zones, now) = (Zones::default(), Timestamp::UNIX_EPOCH);
        let mut looks = 0;
        for n in 0..6_000 {
            assert!(zones.see(&format!("n{n:04}"), Some(&node("Unknown", "a"))));
            looks += usize::from(matches!(zones.look(now), Observed::Zones(_)));
        }
        assert!(looks <= FEW + 2, "{looks}");
        let later = now + Duration::from_secs(1);
        let Observed::Zones(seen) = zones.look(later) else { panic!("it rests for ever") };
        assert_eq!(seen.troubled.len(), 6_000);
    }
}
