//! Which spare is nearest: on the same leaf no traffic takes a longer way than before.

use super::Seat;
use api::Machine;

/// The nearest of `free` to a machine: same NVLink domain, leaf, rack, row, site, in this order; of
/// equals the one with fewer failures, then the first by name. Without a machine to be near, that.
pub fn nearest(to: Option<&Machine>, free: &[&Seat<'_>]) -> Option<usize> {
    let rank = |seat: &&Seat<'_>| {
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
        let lemon =
            seat.machine.status.as_ref().and_then(|s| s.lemon.as_ref()).map_or(0, |l| l.score);
        (far, lemon, seat.machine.name().to_owned())
    };
    free.iter().enumerate().min_by_key(|(_, seat)| rank(seat)).map(|(index, _)| index)
}
