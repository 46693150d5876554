//! How many spares a pool needs, and how much of its time a job makes progress.
//!
//! The formulas that the field uses, so that a measurement can stand beside them. They assume that
//! faults are independent; a real fleet's are not, which is why [`spares_measured`] exists.

use std::time::Duration;

/// More spares than this are never the answer; it bounds the work for a hostile input.
const MAX_SPARES: usize = 100_000;

/// One cause of outages: how many are out at the same time on average, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// Mean number of such outages at any moment.
    pub mean: f64,
    /// How many units each takes out: 1 for a node, 18 for the trays of an NVL72 rack.
    pub size: u32,
}

/// Mean number of nodes that are out at any moment: nodes times failures per 1,000 node-days times the
/// mean outage, of a mix of outages with their shares.
#[must_use]
pub fn mean_outages(nodes: f64, per_thousand_node_days: f64, mix: &[(f64, Duration)]) -> f64 {
    let days: f64 = mix.iter().map(|(share, outage)| share * outage.as_secs_f64() / 86_400.0).sum();
    nodes * per_thousand_node_days / 1_000.0 * days
}

/// The smallest number of spares with which all outages are covered for `target` of the time (0.999 for
/// 99.9 %), each cause Poisson and independent. None when the target is not in (0, 1), a mean is no
/// number of 0 or more, or more than 100,000 would be needed.
#[must_use]
pub fn spares(causes: &[Outages], target: f64) -> Option<usize> {
    let valid = |cause: &Outages| cause.mean.is_finite() && cause.mean >= 0.0 && cause.size > 0;
    let possible = target > 0.0 && target < 1.0;
    if !possible || !causes.iter().all(valid) {
        return None;
    }
    let units: f64 = causes.iter().map(|cause| cause.mean * f64::from(cause.size)).sum();
    let spread: f64 = causes.iter().map(|cause| cause.mean * f64::from(cause.size).powi(2)).sum();
    // Forty deviations hold any target that a float can tell from 1.
    let reach = units + 40.0 * (spread.sqrt() + f64::from(largest(causes)));
    if reach > MAX_SPARES as f64 {
        return None;
    }
    let length = reach.ceil().max(1.0) as usize + 1;
    let mut out = vec![0.0; length];
    out[0] = 1.0;
    for cause in causes {
        out = with(&out, cause);
    }
    let mut covered = 0.0;
    out.iter().position(|share| {
        covered += share;
        covered >= target
    })
}

fn largest(causes: &[Outages]) -> u32 {
    causes.iter().map(|cause| cause.size).max().unwrap_or(1)
}

/// The distribution of units out, with one cause more.
fn with(out: &[f64], cause: &Outages) -> Vec<f64> {
    let size = cause.size as usize;
    let mut sum = vec![0.0; out.len()];
    let mut log = -cause.mean;
    for k in 0..=out.len() / size {
        if k > 0 {
            log += cause.mean.ln() - (k as f64).ln();
        }
        let share = log.exp();
        // What is smaller changes no sum.
        if share < 1e-18 {
            if k as f64 > cause.mean {
                break;
            }
            continue;
        }
        for (i, before) in out.iter().enumerate().take(out.len().saturating_sub(k * size)) {
            sum[i + k * size] += before * share;
        }
    }
    sum
}

/// The smallest number of spares that covered the outages for `target` of a measured time: the time spent
/// with each number of units out. None when nothing was measured or the target is not in (0, 1].
#[must_use]
pub fn spares_measured(out: &[(usize, Duration)], target: f64) -> Option<usize> {
    let total: f64 = out.iter().map(|(_, time)| time.as_secs_f64()).sum();
    if total <= 0.0 || !(target > 0.0 && target <= 1.0) {
        return None;
    }
    let mut out: Vec<(usize, Duration)> = out.to_vec();
    out.sort_unstable();
    let mut covered = 0.0;
    for (units, time) in &out {
        covered += time.as_secs_f64();
        // A hair's breadth, because a sum of floats may miss the whole by one.
        if covered >= target * total * (1.0 - 1e-12) {
            return Some(*units);
        }
    }
    None
}

/// A job, its faults and what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Mean time between its failures; [`mttf`] gives it.
    pub mttf: Duration,
    /// What writing a checkpoint costs.
    pub write: Duration,
    /// From a failure until the job runs again: detection, swap, queue and restart.
    pub restart: Duration,
}

/// Mean time between failures of a job on so many nodes; none when it never fails.
#[must_use]
pub fn mttf(nodes: f64, per_thousand_node_days: f64) -> Option<Duration> {
    let seconds = 86_400.0 / (nodes * per_thousand_node_days / 1_000.0);
    Duration::try_from_secs_f64(seconds).ok()
}

impl Job {
    /// The share of its time in which the job makes progress, with a checkpoint every `interval`:
    /// (1 - (restart + interval/2) / mttf) / (1 + write / interval). It holds while a failure costs
    /// much less than the time between two; at or below 0 the job gets nowhere.
    #[must_use]
    pub fn ettr(&self, interval: Duration) -> f64 {
        let mttf = self.mttf.as_secs_f64();
        let every = interval.as_secs_f64();
        let lost = (self.restart.as_secs_f64() + every / 2.0) / mttf;
        (1.0 - lost) / (1.0 + self.write.as_secs_f64() / every)
    }

    /// The interval at which [`ettr`](Self::ettr) is largest: sqrt(w² + 2w(mttf - restart)) - w. None when
    /// the job fails again before it runs.
    #[must_use]
    pub fn best_interval(&self) -> Option<Duration> {
        let write = self.write.as_secs_f64();
        let useful = self.mttf.as_secs_f64() - self.restart.as_secs_f64();
        if useful <= 0.0 || write <= 0.0 {
            return None;
        }
        let every = (write * write + 2.0 * write * useful).sqrt() - write;
        Duration::try_from_secs_f64(every).ok().filter(|every| !every.is_zero())
    }

    /// Young's and Daly's interval, sqrt(2 · write · mttf), which most people use.
    #[must_use]
    pub fn young_daly(&self) -> Duration {
        let seconds = (2.0 * self.write.as_secs_f64() * self.mttf.as_secs_f64()).sqrt();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const RSC_1: f64 = 6.50;
    const RSC_2: f64 = 2.34;

    fn mix_a() -> [(f64, Duration); 2] {
        [(0.8, HOUR), (0.2, HOUR * 24 * 5)]
    }

    fn mix_b() -> [(f64, Duration); 2] {
        [(0.9, HOUR), (0.1, HOUR * 24 * 2)]
    }

    fn needed(nodes: f64, rate: f64, mix: &[(f64, Duration)]) -> usize {
        spares(&[Outages { mean: mean_outages(nodes, rate, mix), size: 1 }], 0.999).unwrap()
    }

    #[test]
    fn the_reference_table_of_spares_is_met() {
        let table = [
            (128.0, 5, 3, 3),
            (512.0, 10, 5, 6),
            (1_024.0, 16, 7, 9),
            (2_048.0, 27, 10, 13),
            (4_096.0, 45, 15, 21),
        ];
        for (nodes, a, b, calm) in table {
            assert_eq!(needed(nodes, RSC_1, &mix_a()), a, "{nodes} A");
            assert_eq!(needed(nodes, RSC_1, &mix_b()), b, "{nodes} B");
            assert_eq!(needed(nodes, RSC_2, &mix_a()), calm, "{nodes} RSC-2");
        }
    }

    #[test]
    fn racks_fail_in_batches() {
        let racks = |days: f64| 256.0 * 4.0 / 24.0 / days;
        let spare = |days: f64| spares(&[Outages { mean: racks(days), size: 1 }], 0.999);
        assert_eq!((spare(90.0), spare(30.0)), (Some(4), Some(6)));
        let batch = Outages { mean: racks(90.0), size: 18 };
        assert_eq!(spares(&[batch], 0.999), Some(72), "four racks of 18 trays");
        let trays = Outages { mean: mean_outages(4_608.0, RSC_2, &mix_a()), size: 1 };
        assert_eq!(spares(&[trays], 0.999), Some(23));
        let both = spares(&[trays, batch], 0.999).unwrap();
        assert!((72..=95).contains(&both), "{both}");
    }

    #[test]
    fn the_traces_mean_alone_asks_for_twenty() {
        assert_eq!(spares(&[Outages { mean: 9.26, size: 1 }], 0.999), Some(20));
    }

    #[test]
    fn a_measured_time_says_what_it_needed() {
        let hours = |units, hours: u32| (units, HOUR * hours);
        let out = [hours(30, 1), hours(0, 900), hours(5, 90), hours(9, 9)];
        assert_eq!(spares_measured(&out, 0.90), Some(0));
        assert_eq!(spares_measured(&out, 0.99), Some(5));
        assert_eq!(spares_measured(&out, 0.999), Some(9));
        assert_eq!(spares_measured(&out, 1.0), Some(30));
        assert_eq!(spares_measured(&[], 0.9), None);
    }

    #[test]
    fn odd_input_has_no_answer() {
        let one = |mean, size| spares(&[Outages { mean, size }], 0.999);
        assert_eq!(one(0.0, 1), Some(0));
        for (mean, size) in
            [(f64::NAN, 1), (-1.0, 1), (f64::INFINITY, 1), (1.0, 0), (1e9, 1), (1.0, u32::MAX)]
        {
            assert_eq!(one(mean, size), None, "{mean} {size}");
        }
        for target in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
            assert_eq!(spares(&[Outages { mean: 1.0, size: 1 }], target), None);
        }
        assert_eq!(mttf(0.0, 1.0), None);
    }

    #[test]
    fn a_large_mean_does_not_underflow() {
        let many = spares(&[Outages { mean: 5_000.0, size: 1 }], 0.999).unwrap();
        assert!((5_200..5_240).contains(&many), "{many}");
    }

    /// Share of progress with a 20 s checkpoint at Young's interval, restart in 1, 5 and 20 minutes. The
    /// table's own rounding is met to one in the last place; the best interval is never worse.
    #[test]
    fn the_reference_table_of_ettr_is_met() {
        let table: [(f64, f64, [Option<f64>; 3]); 8] = [
            (1_024.0, RSC_1, [Some(0.980), Some(0.978), Some(0.969)]),
            (8_192.0, RSC_1, [Some(0.942), Some(0.924), Some(0.856)]),
            (16_384.0, RSC_1, [Some(0.916), Some(0.880), Some(0.747)]),
            (98_304.0, RSC_1, [Some(0.775), Some(0.572), None]),
            (1_024.0, RSC_2, [Some(0.988), Some(0.987), Some(0.984)]),
            (8_192.0, RSC_2, [Some(0.966), Some(0.959), Some(0.935)]),
            (16_384.0, RSC_2, [Some(0.951), Some(0.938), Some(0.889)]),
            (98_304.0, RSC_2, [Some(0.873), Some(0.797), Some(0.514)]),
        ];
        for (gpus, rate, expected) in table {
            for (minutes, expected) in [1, 5, 20].into_iter().zip(expected) {
                let job = Job {
                    mttf: mttf(gpus / 8.0, rate).unwrap(),
                    write: Duration::from_secs(20),
                    restart: Duration::from_secs(60 * minutes),
                };
                let ettr = job.ettr(job.young_daly());
                let Some(expected) = expected else {
                    assert!(ettr < 0.0 && job.best_interval().is_none(), "{ettr}");
                    continue;
                };
                assert!(
                    (ettr - expected).abs() < 0.001_1,
                    "{gpus} at {rate}, {minutes} min: {ettr}"
                );
                assert!(job.ettr(job.best_interval().unwrap()) >= ettr);
            }
        }
    }

    #[test]
    fn a_job_of_2048_nodes_fails_every_108_minutes() {
        let minutes = mttf(2_048.0, RSC_1).unwrap().as_secs_f64() / 60.0;
        assert_eq!(minutes.round(), 108.0);
        let job = Job { mttf: HOUR, write: Duration::from_secs(20), restart: HOUR * 2 };
        assert_eq!(job.best_interval(), None);
        assert!(job.ettr(job.young_daly()) < 0.0);
    }
}
