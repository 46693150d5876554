//! Which spare is nearest: on the same leaf no traffic takes a longer way than before.

use super::Seat;
use api::Machine;

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

fn rank<'a>(to: Option<&Machine>, seat: &Seat<'a>) -> Rank<'a> {
    let there = &seat.machine.spec.place;
    let far = to.map_or(0, |to| {
        let here = &to.spec.place;
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        let site = here.site == there.site;
        [
            site && same(&here.nvlink_domain, &there.nvlink_domain),
            site && same(&here.leaf, &there.leaf),
            site && here.rack == there.rack,
            site && same(&here.row, &there.row),
            site,
        ]
        .iter()
        .position(|near| *near)
        .unwrap_or(5)
    });
    let lemon = seat.machine.status.as_ref().and_then(|s| s.lemon.as_ref()).map_or(0, |l| l.score);
    (far, lemon, seat.machine.name())
}
