//! Lemons: machines that fail more than their peers, though each single repair succeeds.
//!
//! The seven signals are those of Meta's study of its research clusters (arXiv 2410.21680, section
//! on lemon nodes). A signal stands out where a machine has at least twice the count that 99 % of its
//! peers stay below, and never for a count that chance explains. Two signals make a lemon.

use api::machine::Lemon;

/// The seven signals of one machine over 28 days.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Jobs whose owners excluded the node by name.
    pub excluded_jobs: f64,
    /// Different XIDs seen.
    pub xids: f64,
    /// Repair tickets.
    pub tickets: f64,
    /// Times out of service.
    pub outs: f64,
    /// Failures of jobs over several nodes that are put down to this one.
    pub multi_node_failures: f64,
    /// Failures of jobs on this node alone.
    pub single_node_failures: f64,
    /// The share of jobs on this node alone that failed, from 0 to 1.
    pub single_node_failure_rate: f64,
}

impl Signals {
    /// Each signal with its name and the least value that can stand out.
    fn all(&self) -> [(&'static str, f64, f64); 7] {
        [
            ("jobs exclude it", self.excluded_jobs, 3.0),
            ("different XIDs", self.xids, 3.0),
            ("tickets", self.tickets, 2.0),
            ("times out of service", self.outs, 3.0),
            ("failures of larger jobs", self.multi_node_failures, 3.0),
            ("failures of single jobs", self.single_node_failures, 3.0),
            ("share of single jobs failed", self.single_node_failure_rate, 0.2),
        ]
    }
}

/// The score from which a machine is a lemon: two of seven signals.
pub const LEMON: u32 = 28;

/// The bounds that most machines stay below, from the signals of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds([f64; 7]);

impl Bounds {
    /// The 99th percentile of each signal.
    pub fn of(fleet: &[Signals]) -> Self {
        let mut bounds = [0.0; 7];
        for (index, bound) in bounds.iter_mut().enumerate() {
            let mut values: Vec<f64> =
                fleet.iter().filter_map(|s| s.all().get(index).map(|signal| signal.1)).collect();
            values.sort_by(f64::total_cmp);
            // At most 1 % of a fleet may lie above; of fewer than 100 machines none has to.
            let rank = values.len().saturating_sub(1 + values.len() / 100);
            *bound = values.get(rank.min(values.len() * 9 / 10)).copied().unwrap_or_default();
        }
        Self(bounds)
    }
}

/// The score of a machine among its peers.
pub fn score(own: &Signals, peers: &Bounds) -> Lemon {
    let signals: Vec<String> = own
        .all()
        .iter()
        .zip(peers.0)
        .filter(|((_, value, least), bound)| *value >= *least && *value >= bound * 2.0)
        .map(|((name, value, _), bound)| format!("{name}: {value}, peers {bound}"))
        .collect();
    let score = u32::try_from(signals.len()).unwrap_or(7) * 100 / 7;
    Lemon { score, signals }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_stands_out_twice_is_a_lemon() {
        let mut fleet = vec![Signals { outs: 1.0, xids: 1.0, ..Signals::default() }; 400];
        let bad = Signals { outs: 6.0, xids: 4.0, ..Signals::default() };
        fleet[7] = bad;
        let bounds = Bounds::of(&fleet);
        assert!(score(&bad, &bounds).score >= LEMON);
        assert_eq!(score(&bad, &bounds).signals.len(), 2);
        assert_eq!(score(&fleet[8], &bounds).score, 0);
    }

    #[test]
    fn small_counts_and_sick_fleets_make_no_lemons() {
        let quiet = vec![Signals::default(); 100];
        let one = Signals { outs: 2.0, xids: 2.0, tickets: 1.0, ..Signals::default() };
        assert_eq!(score(&one, &Bounds::of(&quiet)).score, 0, "chance");
        let sick = vec![Signals { outs: 6.0, xids: 6.0, ..Signals::default() }; 100];
        assert_eq!(score(&sick[0], &Bounds::of(&sick)).score, 0, "all alike");
        assert_eq!(Bounds::of(&[]), Bounds([0.0; 7]));
    }
}
