//! Whether a fence still holds, asked by whoever carries out a deed, at the moment of the deed.

use crate::deed::Fence;
use api::incident::Stage;

/// How things stand at that moment, read where they are kept and not from a cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// The UID of the machine.
    pub machine_uid: Option<&'a str>,
    /// The generation of the machine's spec.
    pub generation: Option<i64>,
    /// The UID of the node.
    pub node_uid: Option<&'a str>,
    /// The boot that runs: as the agent says for a machine, as the kubelet says for a node.
    pub boot: Option<&'a str>,
    /// What the BMC says about its last reset.
    pub last_reset: Option<&'a str>,
    /// The stage of the incident that the fence names, by UID or name; none if there is no such.
    pub incident: Option<Stage>,
    /// The reason of the condition that the fence names, while the node says that it holds.
    pub shows: Option<&'a str>,
}

impl Fence {
    /// What differs from what the deed was decided upon; nothing if it may be done.
    pub fn broken(&self, now: &Standing<'_>) -> Option<&'static str> {
        let differs = |meant: &Option<String>, is: Option<&str>| {
            meant.as_deref().is_some_and(|meant| is != Some(meant))
        };
        if differs(&self.machine_uid, now.machine_uid) {
            return Some("it is another machine");
        }
        if self.generation.is_some() && self.generation != now.generation {
            return Some("the machine is described anew");
        }
        if differs(&self.node_uid, now.node_uid) {
            return Some("it is another node");
        }
        if differs(&self.boot, now.boot) {
            return Some("another boot runs");
        }
        if differs(&self.last_reset, now.last_reset) {
            return Some("the BMC has reset the machine since");
        }
        if self.shown.as_ref().is_some_and(|meant| now.shows != Some(meant.reason.as_str())) {
            return Some("the node no longer shows the fault");
        }
        self.incident.as_ref()?;
        match (now.incident, self.stage) {
            (None | Some(Stage::Closed), _) => Some("the incident is over"),
            (Some(is), Some(meant)) if is != meant => Some("the incident has moved on"),
            (Some(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use api::request::Shown;

    use super::*;

    #[test]
    fn one_difference_breaks_it_and_what_is_not_given_is_not_compared() {
        let now = Standing {
            machine_uid: Some("m"),
            generation: Some(1),
            node_uid: Some("n"),
            boot: Some("b"),
            last_reset: Some("r"),
            incident: Some(Stage::Acting),
            shows: Some("s"),
        };
        let some = |word: &str| Some(word.to_owned());
        let fence = Fence {
            machine_uid: some("m"),
            generation: Some(1),
            node_uid: some("n"),
            boot: some("b"),
            last_reset: some("r"),
            incident: some("i"),
            stage: Some(Stage::Acting),
            shown: Some(Shown { condition: "c".to_owned(), reason: "s".to_owned() }),
        };
        assert_eq!(fence.broken(&now), None);
        assert_eq!(Fence::default().broken(&Standing::default()), None);
        let others = [
            Standing { machine_uid: Some("x"), ..now },
            Standing { generation: None, ..now },
            Standing { node_uid: None, ..now },
            Standing { boot: Some("x"), ..now },
            Standing { last_reset: Some("x"), ..now },
            Standing { incident: None, ..now },
            Standing { incident: Some(Stage::Closed), ..now },
            Standing { incident: Some(Stage::Open), ..now },
            Standing { shows: None, ..now },
            Standing { shows: Some("x"), ..now },
        ];
        for other in others {
            assert!(fence.broken(&other).is_some(), "{other:?}");
        }
    }
}
