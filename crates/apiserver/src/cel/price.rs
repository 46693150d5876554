//! What a call costs at run time, in Kubernetes' own currency.
//!
//! Guarantees: prices that depend on the arguments alone are paid before the function runs; only
//! those of [`Price::Join`] and [`Price::ListResult`] need the result, and their functions bound
//! what they build.

use super::format::Format;
use super::library::Price;
use super::meter::Fail;
use super::value::Val;

/// What one character costs to walk over.
pub(super) const PER_CHAR: f64 = 0.1;
/// What one character of a pattern multiplies the cost of the text with.
pub(super) const PER_PATTERN_CHAR: f64 = 0.25;
/// What a list literal costs, besides its items.
pub(super) const LIST: u64 = 10;
/// What a map literal costs, besides its entries.
pub(super) const MAP: u64 = 30;

/// What a question about rights costs.
pub(super) const AUTHORIZE: u64 = 350_000;

/// So many units of something that costs a fraction each, rounded up.
pub(super) fn times(units: u64, each: f64) -> u64 {
    // The cast saturates.
    (units as f64 * each).ceil() as u64
}

/// The price of a call; `result` is there once the call has been made.
pub(super) fn of(price: Price, args: &[Val<'_>], result: Option<&Val<'_>>) -> Result<u64, Fail> {
    let size = |i: usize| args.get(i).map_or(1, Val::size);
    let textual = |i: usize| matches!(args.get(i), Some(Val::Str(_) | Val::Bytes(_)));
    let cost =
        match price {
            Price::Unit => 1,
            Price::Authorize => AUTHORIZE,
            Price::Scan(factor) => match args.first() {
                // `cidr.ip()` shares its name with `ip(string)`.
                Some(Val::Cidr(..)) => 1,
                _ => times(size(0), factor * PER_CHAR),
            },
            Price::Walk => args.first().map_or(Ok(0), walk)?,
            Price::Regex => times(size(0).saturating_add(1), PER_CHAR)
                .saturating_mul(times(size(1), PER_PATTERN_CHAR)),
            Price::Contains => times(size(0), PER_CHAR).saturating_mul(times(size(1), PER_CHAR)),
            Price::Compare if textual(0) => times(size(0).min(size(1)), PER_CHAR),
            Price::Add if textual(0) => times(size(0).saturating_add(size(1)), PER_CHAR),
            Price::Compare | Price::Add => 1,
            Price::Equal => match args.first() {
                Some(
                    Val::Quantity(_)
                    | Val::Ip(_)
                    | Val::Cidr(..)
                    | Val::Format(_)
                    | Val::Url(_)
                    | Val::Semver(_),
                ) => 1,
                _ => times(size(0).min(size(1)), PER_CHAR),
            },
            Price::In => match args.get(1) {
                Some(Val::List(list)) => list.len() as u64,
                _ => 1,
            },
            Price::Convert => match (args.first(), result) {
                (Some(Val::Str(_)), Some(Val::Bytes(_)))
                | (Some(Val::Bytes(_)), Some(Val::Str(_))) => times(size(0), PER_CHAR),
                _ => 1,
            },
            Price::ContainsIp | Price::ContainsCidr => {
                let mut cost = times(size(0) * 2, PER_CHAR);
                if price == Price::ContainsCidr {
                    cost += times(size(0), PER_CHAR) + 1;
                }
                if textual(1) {
                    cost += times(size(1), PER_CHAR);
                }
                cost
            }
            Price::Validate => match args.first() {
                Some(Val::Format(Format { regex_size, .. })) => times(size(1) + 1, PER_CHAR)
                    .saturating_mul(times(*regex_size, PER_PATTERN_CHAR)),
                _ => 1,
            },
            Price::Join => times(result.map_or(0, Val::size), 2.0 * PER_CHAR),
            Price::ListResult => result.map_or(1, Val::size) + 1 + LIST,
            Price::Flatten => {
                let depth = match args.get(1) {
                    Some(Val::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                    _ => 1,
                };
                size(0).saturating_mul(depth).saturating_add(1 + LIST)
            }
            Price::Square(i) => {
                let first = match args.get(i) {
                    Some(Val::List(list)) if list.len() > 0 => Some(list.get(0)?),
                    _ => None,
                };
                let each = match first {
                    Some(Val::Str(_) | Val::Bytes(_)) => 2.0 + PER_CHAR,
                    _ => 2.0,
                };
                let compared = size(i).saturating_mul(size(i)) as f64 * each;
                (compared as u64).saturating_add(1 + LIST)
            }
            Price::Sets(factor) => {
                size(0).saturating_mul(size(1)).saturating_mul(factor).saturating_add(1)
            }
        };
    Ok(cost)
}

/// The cost of walking a value as a tree.
fn walk(v: &Val<'_>) -> Result<u64, Fail> {
    Ok(match v {
        Val::Str(s) => (s.len() as f64 * PER_CHAR) as u64,
        Val::Bytes(b) => (b.len() as f64 * PER_CHAR) as u64,
        Val::List(list) => {
            let mut cost = 0;
            for item in list.iter() {
                cost += walk(&item?)?;
            }
            cost
        }
        Val::Map(map) => {
            let mut cost = 0;
            for (key, value) in map.entries()? {
                cost += walk(&key)? + walk(&value)?;
            }
            cost
        }
        _ => 1,
    })
}

/// Whether the price is known only from the result.
pub(super) fn needs_result(price: Price) -> bool {
    matches!(price, Price::Join | Price::ListResult | Price::Convert)
}
