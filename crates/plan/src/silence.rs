//! Whether a node of which nothing is heard, or whose agent says nothing, is reported as a fault.
//!
//! That a node is silent is found by [`nodelifecycle`](crate::nodelifecycle), which marks it; here it
//! becomes evidence with the boot that fell silent, in the catalogue's row `node/heartbeat-lost`. An
//! agent that is silent beside a kubelet that speaks is found here, as the row `node/agent-silent`:
//! nothing is known of such a node's health. The silence of a machine that is being worked on is
//! expected and no evidence, and that of a whole node says nothing of its agent.

use jiff::{SignedDuration, Timestamp};

/// How long a node must have been marked: with the grace before the mark this is the row's bound.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How long an agent may be silent: the row's bound, three signs of life that did not come.
pub const AGENT_PATIENCE: SignedDuration = SignedDuration::from_secs(180);

/// Who is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// The node, as far as Kubernetes can tell.
    Node,
    /// Its agent alone.
    Agent,
}

impl Silent {
    /// The reason in the catalogue's row.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Node => "HeartbeatLost",
            Self::Agent => "AgentSilent",
        }
    }

    /// Who is silent, if the reason says that.
    #[must_use]
    pub fn of(reason: &str) -> Option<Self> {
        [Self::Node, Self::Agent].into_iter().find(|silent| silent.reason() == reason)
    }
}

/// What is known of an agent's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Nothing: it has never been heard of, or whoever listens hears nobody.
    Unknown,
    /// It will go on until something else is said.
    Beats,
    /// It was heard of, last at this time.
    Last(Timestamp),
}

/// All that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Since when the node's readiness is unknown, if it is.
    pub unknown: Option<Timestamp>,
    /// The life of its agent.
    pub agent: Life,
    /// Whose silence is reported.
    pub reported: Option<Silent>,
    /// Whether its machine is in production and nothing is being done to it that would silence it.
    pub unexpected: bool,
    /// The time.
    pub now: Timestamp,
}

/// What shall be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// This one is silent.
    Silent(Silent),
    /// This one is silent no longer.
    Heard(Silent),
}

/// What shall be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to report.
    pub report: Option<Report>,
    /// When it will have been silent for too long.
    pub next: Option<Timestamp>,
}

/// Decides about a node.
pub fn plan(observed: &Observed) -> Plan {
    match observed.unknown {
        Some(since) => silent_node(since, observed),
        None => speaking_node(observed),
    }
}

/// Says nothing of its agent, which may be the reason or not.
fn silent_node(since: Timestamp, observed: &Observed) -> Plan {
    // Whatever is done about it silences it further.
    if observed.reported == Some(Silent::Node) || !observed.unexpected {
        return Plan::default();
    }
    let due = since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
    match due <= observed.now {
        true => Plan { report: Some(Report::Silent(Silent::Node)), next: None },
        false => Plan { report: None, next: Some(due) },
    }
}

fn speaking_node(observed: &Observed) -> Plan {
    let heard = |silent: Option<Silent>| Plan { report: silent.map(Report::Heard), next: None };
    let last = match observed.agent {
        Life::Beats => return heard(observed.reported),
        Life::Unknown => return heard(observed.reported.filter(|silent| *silent == Silent::Node)),
        Life::Last(last) => last,
    };
    let due = last.checked_add(AGENT_PATIENCE).unwrap_or(Timestamp::MAX);
    if due > observed.now {
        let next = observed.unexpected.then_some(due);
        return Plan { next, ..heard(observed.reported) };
    }
    match observed.reported {
        Some(Silent::Agent) => Plan::default(),
        _ if observed.unexpected => {
            Plan { report: Some(Report::Silent(Silent::Agent)), next: None }
        }
        reported => heard(reported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    const NOTHING: Plan = Plan { report: None, next: None };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn say(report: Report) -> Plan {
        Plan { report: Some(report), next: None }
    }

    fn until(second: i64) -> Plan {
        Plan { report: None, next: Some(at(second)) }
    }

    #[test]
    fn it_is_reported_once_and_taken_back_when_the_node_speaks() {
        let plan = |unknown: Option<i64>, reported: bool, unexpected, now| {
            let (unknown, reported) = (unknown.map(at), reported.then_some(Silent::Node));
            let agent = Life::Beats;
            super::plan(&Observed { unknown, agent, reported, unexpected, now: at(now) })
        };
        assert_eq!(plan(None, false, true, 100), NOTHING);
        assert_eq!(plan(Some(95), false, true, 100), until(105));
        assert_eq!(plan(Some(90), false, true, 100), say(Report::Silent(Silent::Node)));
        assert_eq!(plan(Some(90), false, false, 100), NOTHING, "it reboots");
        assert_eq!(plan(Some(90), true, false, 100), NOTHING, "its repair silences it further");
        assert_eq!(plan(None, true, false, 100), say(Report::Heard(Silent::Node)));
    }

    #[test]
    fn an_agent_that_is_silent_beside_its_kubelet_is_reported_and_taken_back() {
        let plan = |agent, reported, unexpected| {
            super::plan(&Observed { unknown: None, agent, reported, unexpected, now: at(1_000) })
        };
        let agent = Some(Silent::Agent);
        let (quiet, long_quiet) = (Life::Last(at(821)), Life::Last(at(820)));
        assert_eq!(plan(Life::Beats, None, true), NOTHING);
        assert_eq!(plan(Life::Unknown, None, true), NOTHING, "an agent that never beat");
        assert_eq!(plan(quiet, None, true), until(1_001));
        assert_eq!(plan(quiet, None, false), NOTHING);
        assert_eq!(plan(long_quiet, None, true), say(Report::Silent(Silent::Agent)));
        assert_eq!(plan(long_quiet, None, false), NOTHING, "it reboots");
        assert_eq!(plan(long_quiet, agent, true), NOTHING, "once");
        assert_eq!(plan(Life::Beats, agent, true), say(Report::Heard(Silent::Agent)));
        assert_eq!(plan(quiet, agent, false), say(Report::Heard(Silent::Agent)));
        assert_eq!(
            plan(Life::Unknown, agent, true),
            NOTHING,
            "who hears nobody takes nothing back"
        );
    }

    #[test]
    fn a_silent_node_goes_before_its_agent() {
        let plan = |unknown: Option<i64>, reported| {
            let (unknown, agent) = (unknown.map(at), Life::Last(at(100)));
            let (unexpected, now) = (true, at(1_000));
            super::plan(&Observed { unknown, agent, reported, unexpected, now })
        };
        assert_eq!(plan(Some(995), Some(Silent::Agent)), until(1_005));
        assert_eq!(plan(Some(990), Some(Silent::Agent)), say(Report::Silent(Silent::Node)));
        assert_eq!(plan(Some(990), Some(Silent::Node)), NOTHING);
        let agent = say(Report::Silent(Silent::Agent));
        assert_eq!(plan(None, Some(Silent::Node)), agent, "the kubelet came back alone");
    }

    #[test]
    fn the_catalogue_has_its_rows() {
        let catalogue = Catalogue::load(&[]).unwrap();
        for (row, silent) in
            [("node/heartbeat-lost", Silent::Node), ("node/agent-silent", Silent::Agent)]
        {
            let row = catalogue.row(row).unwrap();
            let said = (row.condition.as_str(), row.reason.as_str());
            assert_eq!(said, ("NodeSilent", silent.reason()));
            assert_eq!(Silent::of(silent.reason()), Some(silent));
        }
    }
}
