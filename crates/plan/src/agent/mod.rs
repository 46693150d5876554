//! What an agent says about its node: which faults it holds to be there, and which conditions the
//! node shall show for them.
//!
//! A number that is out of bounds holds until it is back. A log line never says that it is over, so
//! what follows from one holds for the boot, unless something newer speaks against it: a chore that
//! cures such a fault was carried out, a test of the whole node was passed, or the row is one whose
//! policy only waits for quiet and it has been quiet for long enough.
//!
//! A node has one condition of each type. Of several faults with the same type the one is shown whose
//! answer the others follow; the rest are shown when their turn comes, none is forgotten. What
//! others wrote is left alone: the lease monitor's and the peers' findings, and a person's.

mod conditions;
mod faults;

pub use conditions::{Said, Writer, read};
pub use faults::{Faults, Witness, word};

use crate::catalogue::{Metric, Row, Rule, Signal};

/// Whether an agent can see the fault of a row on its own machine. What only a comparison with other
/// nodes shows, or silence, is for others to say.
#[must_use]
pub fn sees(row: &Row) -> bool {
    row.seen.iter().any(|signal| match signal {
        Signal::Metric { metric, rule } => !matches!(rule, Rule::Peers { .. }) && !silence(*metric),
        _ => true,
    })
}

/// Whether the fault of a row shows only beside peers.
#[must_use]
pub fn compares(row: &Row) -> bool {
    let beside =
        |signal: &Signal| matches!(signal, Signal::Metric { rule: Rule::Peers { .. }, .. });
    !sees(row) && row.seen.iter().any(beside)
}

/// Whether a number tells how long something has been silent: nobody says that of themselves.
#[must_use]
pub const fn silence(metric: Metric) -> bool {
    matches!(metric, Metric::HeartbeatAge | Metric::KubeletAge | Metric::AgentAge | Metric::BmcAge)
}
