//! The curve of spares that a recorded time really needed.
//!
//! The formula ([`crate::capacity`]) takes outages for independent; real ones come in waves, and the
//! gap between both is a finding.

use jiff::Timestamp;

/// The share of the time between `from` and `to` in which at most S nodes were out, for S = 0, 1, …
/// up to the first S that always sufficed. Outages may overlap; what lies outside is cut off.
pub fn availability(
    outages: &[(Timestamp, Timestamp)],
    from: Timestamp,
    to: Timestamp,
) -> Vec<f64> {
    let total = to.duration_since(from).as_secs_f64();
    if total <= 0.0 {
        return Vec::new();
    }
    let mut changes: Vec<(Timestamp, i64)> = outages
        .iter()
        .map(|(start, end)| ((*start).max(from), (*end).min(to)))
        .filter(|(start, end)| start < end)
        .flat_map(|(start, end)| [(start, 1), (end, -1)])
        .collect();
    changes.sort_unstable();
    let mut time_at: Vec<f64> = Vec::new();
    let (mut out, mut since) = (0_i64, from);
    for (at, change) in changes.into_iter().chain([(to, 0)]) {
        let index = usize::try_from(out).unwrap_or_default();
        if time_at.len() <= index {
            time_at.resize(index + 1, 0.0);
        }
        if let Some(time) = time_at.get_mut(index) {
            *time += at.duration_since(since).as_secs_f64();
        }
        out += change;
        since = at;
    }
    let mut sum = 0.0;
    time_at
        .into_iter()
        .map(|time| {
            sum += time;
            sum / total
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_that_of_the_trace() {
        let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
        let outages = [(at(1), at(3)), (at(2), at(4)), (at(8), at(99)), (at(5), at(5))];
        assert_eq!(availability(&outages, at(0), at(10)), [0.5, 0.9, 1.0]);
        assert_eq!(availability(&[], at(0), at(10)), [1.0]);
        assert!(availability(&[], at(1), at(1)).is_empty());
    }
}
