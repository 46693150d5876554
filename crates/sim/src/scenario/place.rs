//! Which machine a script breaks: one that computes, beside a spare or far from all.

use api::Machine;
use api::state::{Role, State};
use plan::pool::near;
use serde::Deserialize;

/// Where a script strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// On a leaf that has a spare.
    BesideASpare,
    /// On a leaf that has none.
    FarFromSpares,
    /// Anywhere: the first by name.
    #[default]
    Anywhere,
}

/// No machine stands where the script wants to strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no machine that computes stands {}", self.0.words())]
pub struct NoPlace(Where);

impl Where {
    const fn words(self) -> &'static str {
        match self {
            Self::BesideASpare => "on a leaf with a spare",
            Self::FarFromSpares => "on a leaf without a spare",
            Self::Anywhere => "anywhere",
        }
    }
}

/// The machine to break: the first by name of those on whose nodes a rank computes. Spares are those
/// that could take its place.
///
/// # Errors
/// If none stands there.
pub fn choose(
    place: Where,
    machines: &[Machine],
    computes: impl Fn(&str) -> bool,
) -> Result<&Machine, NoPlace> {
    let spares: Vec<&Machine> = machines.iter().filter(|machine| is_spare(machine)).collect();
    let beside = |machine: &Machine| {
        let kind = &machine.spec.instance_type;
        let mut alike = spares.iter().filter(|spare| spare.spec.instance_type == *kind);
        alike.any(|spare| near(machine, spare) == Some("same leaf"))
    };
    let node = |machine: &Machine| {
        let status = machine.status.as_ref()?;
        status.node.as_ref().map(|node| node.name.clone())
    };
    let fits = |machine: &&Machine| {
        node(machine).is_some_and(|node| computes(&node))
            && match place {
                Where::BesideASpare => beside(machine),
                Where::FarFromSpares => !beside(machine),
                Where::Anywhere => true,
            }
    };
    machines.iter().filter(fits).min_by_key(|machine| machine.name()).ok_or(NoPlace(place))
}

fn is_spare(machine: &Machine) -> bool {
    let role = machine.status.as_ref().map(|status| status.role);
    machine.state() == State::Production
        && role == Some(Role::Spare)
        && machine.spec.assignment.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine::{MachineStatus, NodeReference};

    fn machine(name: &str, leaf: &str, role: Role) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        machine.spec.place.leaf = Some(leaf.to_owned());
        let node = Some(NodeReference { name: name.to_owned(), uid: "u".to_owned() });
        let state = State::Production;
        machine.status = Some(MachineStatus { role, node, state, ..MachineStatus::default() });
        machine
    }

    #[test]
    fn a_script_strikes_where_it_says() {
        let machines = [
            machine("c", "l2", Role::Member),
            machine("b", "l2", Role::Member),
            machine("a", "l1", Role::Member),
            machine("s", "l2", Role::Spare),
        ];
        let chosen = |place, computes: &[&str]| {
            let computes = |node: &str| computes.contains(&node);
            choose(place, &machines, computes).map(|machine| machine.name().to_owned())
        };
        assert_eq!(chosen(Where::BesideASpare, &["a", "b", "c"]).unwrap(), "b");
        assert_eq!(chosen(Where::FarFromSpares, &["a", "b", "c"]).unwrap(), "a");
        assert_eq!(chosen(Where::Anywhere, &["c", "b"]).unwrap(), "b");
        let none = chosen(Where::FarFromSpares, &["b"]).unwrap_err().to_string();
        assert_eq!(none, "no machine that computes stands on a leaf without a spare");
    }
}
