//! Which spare is nearest: on the same leaf no traffic takes a longer way than before.

use super::Seat;
use api::Machine;
use api::machine::Place;

/// How far a seat is from a machine, and which of equals comes first.
type Rank<'a> = (usize, u32, &'a str);

/// The nearest of `free` to a machine: same NVLink domain, leaf, rack, row, site, in this order; of
/// equals the one with fewer failures, then the first by name. Without a machine to be near, that.
pub fn nearest(to: Option<&Machine>, free: &[&Seat<'_>]) -> Option<usize> {
    let first = free.iter().enumerate().min_by(|(_, a), (_, b)| rank(to, a).cmp(&rank(to, b)));
    first.map(|(index, _)| index)
}

/// Sorts `free`, the nearest to a machine last.
pub(super) fn farthest_first(to: Option<&Machine>, free: &mut [&Seat<'_>]) {
    free.sort_by(|a, b| rank(to, b).cmp(&rank(to, a)));
}

/// The nearest thing that two machines have in common, in words: `same leaf`.
pub fn near(to: &Machine, other: &Machine) -> Option<&'static str> {
    WAYS.get(distance(&to.spec.place, &other.spec.place)).copied()
}

/// What two machines may have in common, the nearest first.
const WAYS: [&str; 5] = ["same NVLink domain", "same leaf", "same rack", "same row", "same site"];

/// The position in [`WAYS`] of the nearest thing that two places have in common; behind its end if
/// there is none.
fn distance(here: &Place, there: &Place) -> usize {
    let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
    let site = here.site == there.site;
    let common = [
        site && same(&here.nvlink_domain, &there.nvlink_domain),
        site && same(&here.leaf, &there.leaf),
        site && here.rack == there.rack,
        site && same(&here.row, &there.row),
        site,
    ];
    common.iter().position(|near| *near).unwrap_or(common.len())
}

fn rank<'a>(to: Option<&Machine>, seat: &Seat<'a>) -> Rank<'a> {
    let far = to.map_or(0, |to| distance(&to.spec.place, &seat.machine.spec.place));
    let lemon = seat.machine.status.as_ref().and_then(|s| s.lemon.as_ref()).map_or(0, |l| l.score);
    (far, lemon, seat.machine.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, leaf: &str, rack: &str, row: &str) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        machine.spec.place = Place {
            site: "s".to_owned(),
            row: Some(row.to_owned()),
            rack: rack.to_owned(),
            leaf: Some(leaf.to_owned()),
            ..Place::default()
        };
        machine
    }

    #[test]
    fn a_spare_on_the_same_leaf_comes_before_one_in_the_same_rack_or_row() {
        let sick = machine("sick", "leaf-2a", "r2", "row-1");
        let spares = [
            machine("a-far", "leaf-9a", "r9", "row-9"),
            machine("b-row", "leaf-1a", "r1", "row-1"),
            machine("c-rack", "leaf-2b", "r2", "row-1"),
            machine("d-leaf", "leaf-2a", "r3", "row-1"),
        ];
        let mut seats: Vec<Seat<'_>> = spares
            .iter()
            .map(|machine| Seat { machine, in_service: true, sick: false, kept: false, idle: true })
            .collect();
        let mut order = Vec::new();
        while let Some(index) = nearest(Some(&sick), &seats.iter().collect::<Vec<_>>()) {
            let taken = seats.remove(index).machine;
            order.push((taken.name().to_owned(), near(&sick, taken).unwrap()));
        }
        let expected = [
            ("d-leaf", "same leaf"),
            ("c-rack", "same rack"),
            ("b-row", "same row"),
            ("a-far", "same site"),
        ];
        assert_eq!(order, expected.map(|(name, near)| (name.to_owned(), near)));
    }
}
