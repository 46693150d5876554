//! Slow but alive: a part against its peers, with statistics that one slow part cannot bend.

use jiff::Timestamp;

use super::metric::number;
use super::{Finding, evidence};
use crate::catalogue::{Catalogue, Metric, Part, Rule, Signal};

/// Scales the median of absolute deviations to the standard deviation of a normal distribution.
const TO_SIGMA: f64 = 1.4826;
/// Beyond this many such deviations a value is an outlier: Iglewicz and Hoaglin's usual bound.
const OUTLIER: f64 = 3.5;

/// Which of the values are worse than their peers: the position of each and what was found. Values
/// are of one metric, measured for the same work at the same time. Values that are not finite are
/// left out, and fewer peers than a row asks for give no verdict. When more than half are slow, the
/// others are not: that is what floors are for.
#[must_use]
pub fn peers(
    catalogue: &Catalogue,
    metric: Metric,
    at: Timestamp,
    values: &[(Part, f64)],
) -> Vec<(usize, Finding)> {
    let finite: Vec<f64> = values.iter().map(|(_, v)| *v).filter(|v| v.is_finite()).collect();
    let Some(middle) = median(finite.clone()) else { return Vec::new() };
    let spread =
        median(finite.iter().map(|v| (v - middle).abs()).collect()).unwrap_or(0.0) * TO_SIGMA;
    let mut found = Vec::new();
    for row in catalogue.rows() {
        for signal in &row.seen {
            let Signal::Metric { metric: of, rule: Rule::Peers { factor, peers } } = signal else {
                continue;
            };
            if *of != metric || finite.len() < *peers as usize {
                continue;
            }
            for (index, (part, value)) in values.iter().enumerate() {
                let worse =
                    if *factor > 1.0 { *value > middle * factor } else { *value < middle * factor };
                if !worse || (value - middle).abs() <= OUTLIER * spread {
                    continue;
                }
                let text = format!(
                    "{metric} {}: the median of {} peers is {}",
                    number(*value),
                    finite.len(),
                    number(middle)
                );
                let part = part.clone();
                let evidence = evidence(text.as_bytes());
                found.push((
                    index,
                    Finding { row: row.id.clone(), part, at, present: true, evidence },
                ));
            }
        }
    }
    found
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper))
}
