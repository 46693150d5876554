//! Quantities that are added up and compared, and the lists of resources that they are of.
//!
//! A sum is written as upstream writes it: in the style of the first amount that was not zero. It is
//! exact to the billionth; what is beyond 128 bits stays at the largest.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::quantity::canonical;
use super::validate::nanos;

/// A billionth, which is the finest that a quantity tells apart.
const UNIT: i128 = 1_000_000_000;

/// Resources and how much there is of each.
pub(crate) type Resources = BTreeMap<String, Quantity>;

/// How a quantity is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Style {
    #[default]
    Decimal,
    Exponent,
    Binary,
}

/// An amount, and how it is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quantity {
    nanos: i128,
    style: Style,
}

impl Quantity {
    /// Reads the text of a quantity that is known to be well formed.
    pub(crate) fn read(text: &str) -> Self {
        let style = if text.ends_with('i') {
            Style::Binary
        } else if text.find(['e', 'E']).is_some_and(|at| at + 1 < text.len()) {
            Style::Exponent
        } else {
            Style::Decimal
        };
        Self { nanos: nanos(text), style }
    }

    /// So many of something.
    pub(crate) fn count(n: usize) -> Self {
        let n = i128::try_from(n).unwrap_or(i128::MAX);
        Self { nanos: n.saturating_mul(UNIT), style: Style::Decimal }
    }

    /// The amount in billionths.
    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether there is none.
    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The amount in thousandths, rounded up.
    pub(crate) fn millis(self) -> i128 {
        self.nanos.div_euclid(1_000_000) + i128::from(self.nanos.rem_euclid(1_000_000) > 0)
    }

    /// The whole amount above, if this one is broken.
    pub(crate) fn rounded_up(self) -> Self {
        let broken = self.nanos.rem_euclid(UNIT);
        let rest = if broken == 0 { 0 } else { UNIT - broken };
        Self { nanos: self.nanos.saturating_add(rest), ..self }
    }

    /// The sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        let style = if self.is_zero() { other.style } else { self.style };
        Self { nanos: self.nanos.saturating_add(other.nanos), style }
    }

    /// What is left, which may be below zero.
    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: other.nanos.saturating_neg(), ..other })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.nanos % UNIT == 0;
        let mut count = self.nanos / UNIT;
        if self.style == Style::Binary && whole && count.abs() >= 1024 {
            let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let mut step = 0;
            while count % 1024 == 0 && step + 1 < suffixes.len() {
                count /= 1024;
                step += 1;
            }
            return write!(f, "{count}{}", suffixes[step]);
        }
        let text = match self.style {
            Style::Exponent if whole && count % 1000 == 0 && count != 0 => format!("{count}e0"),
            _ if whole => count.to_string(),
            _ => format!("{}n", self.nanos),
        };
        f.write_str(&canonical(&text).unwrap_or(text))
    }
}

/// The list of resources in a field of an object.
pub(crate) fn resources(list: &Value) -> Resources {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, text)| Some((name.clone(), Quantity::read(text.as_str()?)))).collect()
}

/// A list of resources as objects carry it.
pub(crate) fn written(resources: &Resources) -> Value {
    let entries = resources.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect::<Map<String, Value>>())
}

/// Adds a list to another.
pub(crate) fn add(into: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let sum = into.get(name).map_or(*amount, |sum| sum.plus(*amount));
        into.insert(name.clone(), sum);
    }
}

/// Raises a list to at least another.
pub(crate) fn raise(into: &mut Resources, least: &Resources) {
    for (name, amount) in least {
        if into.get(name).is_none_or(|there| there < amount) {
            into.insert(name.clone(), *amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_in_the_style_of_what_is_summed() {
        for (one, other, sum) in [
            ("1Gi", "512Mi", "1536Mi"),
            ("0", "512Mi", "512Mi"),
            ("900", "200", "1100"),
            ("1", "500m", "1500m"),
            ("800", "1Ki", "1824"),
            ("1Ki", "1", "1025"),
            ("512Mi", "512Mi", "1Gi"),
            ("1e3", "1", "1001"),
            ("100m", "1n", "100000001n"),
        ] {
            let sum_ = Quantity::read(one).plus(Quantity::read(other));
            assert_eq!(sum_.to_string(), sum, "{one} + {other}");
        }
        assert_eq!(Quantity::read("1").minus(Quantity::read("1500m")).to_string(), "-500m");
        assert_eq!(Quantity::read("100u").millis(), 1);
        assert_eq!(Quantity::read("1500m").rounded_up().to_string(), "2");
        assert_eq!(Quantity::count(3).to_string(), "3");
        let most = Quantity::read("9e99");
        assert_eq!(most.plus(most), most);
    }

    #[test]
    fn lists_grow_by_name() {
        let mut one = resources(&serde_json::json!({"cpu": "1", "memory": "1Gi"}));
        let other = resources(&serde_json::json!({"cpu": "2", "x.io/gpu": "3"}));
        let mut least = one.clone();
        add(&mut one, &other);
        let want = serde_json::json!({"cpu": "3", "memory": "1Gi", "x.io/gpu": "3"});
        assert_eq!(written(&one), want);
        raise(&mut least, &other);
        let want = serde_json::json!({"cpu": "2", "memory": "1Gi", "x.io/gpu": "3"});
        assert_eq!(written(&least), want);
    }
}
