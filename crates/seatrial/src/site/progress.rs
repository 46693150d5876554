//! How far a site has come: every machine on its way from switched-off metal to a node that serves.

use std::collections::BTreeMap;

use api::Machine;
use api::request::{Effect, Power};
use api::state::State;
use serde::{Deserialize, Serialize};

/// What a machine has behind it, in the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Its power was switched on.
    PowerOn,
    /// Its system speaks.
    Boot,
    /// It is what its type says.
    SeaTrial,
    /// Its disks are wiped, its firmware is the profile's.
    Zap,
    /// It passed its test.
    AcceptanceTest,
    /// It is a Ready node, or a proven spare.
    Production,
}

impl Step {
    /// Every step, in order.
    pub(crate) const ALL: [Self; 6] = [
        Self::PowerOn,
        Self::Boot,
        Self::SeaTrial,
        Self::Zap,
        Self::AcceptanceTest,
        Self::Production,
    ];

    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PowerOn => "power on",
            Self::Boot => "boot (network)",
            Self::SeaTrial => "sea trial",
            Self::Zap => "zap",
            Self::AcceptanceTest => "acceptance test",
            Self::Production => "in production",
        }
    }

    /// What is done in it.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::PowerOn => "at most 4 at once in a rack",
            Self::Boot => "",
            Self::SeaTrial => "inventory and cabling against the instance type",
            Self::Zap => "disks wiped, firmware brought to the profile",
            Self::AcceptanceTest => "quick; full burn-in is 24 h",
            Self::Production => "",
        }
    }
}

/// How far a machine has come; none if it is still switched off.
pub(crate) fn reached(machine: &Machine, ready: bool) -> Option<Step> {
    let status = machine.status.as_ref()?;
    let told = status.operation.as_ref().is_some_and(|o| {
        matches!(o.effect, Effect::Power(p) if p != Power::Off) && o.told.is_some()
    });
    let before = match status.state {
        State::Onboard | State::SeaTrial => None,
        State::Zap | State::ZapFailed => Some(Step::SeaTrial),
        State::Test | State::Triage | State::Debug | State::Rma => Some(Step::Zap),
        State::Production if ready => Some(Step::Production),
        State::Production => Some(Step::AcceptanceTest),
    };
    before
        .or_else(|| status.agent.is_some().then_some(Step::Boot))
        .or(told.then_some(Step::PowerOn))
}

/// Counts machines by how far they have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    machines: BTreeMap<String, (Option<Step>, State)>,
    done: [usize; 6],
}

impl Progress {
    /// Takes note of a machine.
    pub(crate) fn see(&mut self, machine: &Machine, ready: bool) {
        let step = reached(machine, ready);
        let before = self.machines.insert(machine.name().to_owned(), (step, machine.state()));
        self.count(before.and_then(|(step, _)| step), step);
    }

    /// A machine's object is gone.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Some((step, _)) = self.machines.remove(name) {
            self.count(step, None);
        }
    }

    fn count(&mut self, before: Option<Step>, after: Option<Step>) {
        for (step, done) in Step::ALL.into_iter().zip(&mut self.done) {
            *done -= usize::from(before >= Some(step));
            *done += usize::from(after >= Some(step));
        }
    }

    /// How many have a step behind them.
    pub(crate) fn done(&self, step: Step) -> usize {
        Step::ALL.into_iter().zip(self.done).find(|(s, _)| *s == step).map_or(0, |(_, n)| n)
    }

    /// How many there are.
    pub(crate) fn total(&self) -> usize {
        self.machines.len()
    }

    /// Those that wait for people, and where.
    pub(crate) fn aside(&self) -> impl Iterator<Item = (&str, State)> {
        let waits = |state: State| state.waits_for_people() && state != State::Onboard;
        self.machines
            .iter()
            .filter(move |(_, (_, state))| waits(*state))
            .map(|(name, (_, state))| (name.as_str(), *state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine::MachineStatus;

    fn machine(name: &str, state: State) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        machine.status = Some(MachineStatus { state, ..MachineStatus::default() });
        machine
    }

    #[test]
    fn machines_are_counted_once_wherever_they_go() {
        let mut progress = Progress::default();
        progress.see(&machine("a", State::Onboard), false);
        progress.see(&machine("b", State::Test), false);
        progress.see(&machine("b", State::Production), true);
        assert_eq!((progress.total(), progress.done(Step::Zap)), (2, 1));
        assert_eq!(progress.done(Step::Production), 1);
        progress.see(&machine("b", State::Production), false);
        assert_eq!(progress.done(Step::Production), 0);
        progress.see(&machine("b", State::Rma), false);
        assert_eq!(progress.aside().collect::<Vec<_>>(), [("b", State::Rma)]);
        progress.forget("b");
        assert!(Step::ALL.iter().all(|step| progress.done(*step) == 0));
    }
}
