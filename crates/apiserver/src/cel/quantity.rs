//! Kubernetes quantities such as `1.5Gi` and `100m`.
//!
//! A quantity is a number of 128 bits times a power of ten, and no finer than a billionth; digits
//! beyond the thirty-sixth are dropped.

use std::cmp::Ordering;

use super::meter::{Meter, fail, no_overload};
use super::value::{Out, Val};

const FINEST: i32 = -9;
const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A number with a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantity {
    digits: i128,
    /// The power of ten.
    scale: i32,
    /// Whether the digits fit a 64-bit integer, which is what "being an integer" is asked of.
    small: bool,
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            None => {
                return Err(
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                );
            }
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || whole.is_empty() && fraction.is_empty() {
            return Err(MALFORMED);
        }
        let (binary, exponent) = read_suffix(suffix)?;
        let whole = whole.trim_start_matches('0');
        let precise = match binary {
            None => whole.len() + fraction.len() <= 18,
            Some(power) => fraction.is_empty() && whole.len() as i32 + power * 3 / 10 < 15,
        };
        let mut scale = exponent.saturating_sub(fraction.len() as i32);
        let shown: String = [whole, fraction].concat();
        // More digits than fit a number of 128 bits.
        let kept = shown.len().min(36);
        let digits: i128 = if kept == 0 { 0 } else { shown[..kept].parse().unwrap_or(i128::MAX) };
        scale = scale.saturating_add((shown.len() - kept) as i32);
        let mut value = Self { digits, scale, small: precise };
        if let Some(power) = binary {
            let times = 1i128 << power;
            value.digits = value.digits.saturating_mul(times);
        }
        value.round_up();
        if negative {
            value.digits = -value.digits;
        }
        Ok(value)
    }

    /// Nothing finer than a billionth survives, and what is cut counts as one more.
    fn round_up(&mut self) {
        if self.scale >= FINEST {
            return;
        }
        self.small = false;
        let by = FINEST.saturating_sub(self.scale).unsigned_abs();
        self.scale = FINEST;
        self.digits = match 10i128.checked_pow(by) {
            Some(unit) => self.digits / unit + i128::from(self.digits % unit != 0),
            None => i128::from(self.digits != 0),
        };
    }

    /// Which is greater.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (self.digits, other.digits);
        if a.signum() != b.signum() || a == 0 {
            return a.signum().cmp(&b.signum());
        }
        let raise = |digits: i128, by: i32| {
            10i128.checked_pow(by.unsigned_abs()).and_then(|unit| digits.checked_mul(unit))
        };
        let larger = if a > 0 { Ordering::Greater } else { Ordering::Less };
        let by = self.scale.saturating_sub(other.scale);
        if by >= 0 {
            raise(a, by).map_or(larger, |a| a.cmp(&b))
        } else {
            raise(b, by).map_or(larger.reverse(), |b| a.cmp(&b))
        }
    }

    fn plus(self, other: Self) -> Self {
        if other.digits == 0 {
            return self;
        }
        if self.digits == 0 {
            return other;
        }
        let scale = self.scale.min(other.scale);
        let at = |q: Self| {
            let unit = 10i128.checked_pow(q.scale.saturating_sub(scale).unsigned_abs());
            unit.and_then(|u| q.digits.checked_mul(u))
        };
        match (at(self), at(other)) {
            (Some(a), Some(b)) => {
                let digits = a.saturating_add(b);
                let small = self.small && other.small && i64::try_from(digits).is_ok();
                Self { digits, scale, small }
            }
            // Too far apart to matter to each other.
            (None, _) => self,
            (_, None) => other,
        }
    }

    fn negated(self) -> Self {
        Self { digits: self.digits.saturating_neg(), ..self }
    }

    fn integer(&self) -> Option<i64> {
        if !self.small || self.scale < 0 {
            return None;
        }
        let unit = 10i64.checked_pow(self.scale.unsigned_abs())?;
        i64::try_from(self.digits).ok()?.checked_mul(unit)
    }
}

/// The power of two, if the suffix is of that kind, or the power of ten.
fn read_suffix(suffix: &str) -> Result<(Option<i32>, i32), &'static str> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(i) = binary.iter().position(|s| *s == suffix) {
        return Ok((Some(10 * (i as i32 + 1)), 0));
    }
    let decimal = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some((_, power)) = decimal.iter().find(|(s, _)| *s == suffix) {
        return Ok((None, *power));
    }
    let Some(exponent) = suffix.strip_prefix(['e', 'E']) else {
        return Err(match suffix.chars().all(|c| "eEinumkKMGTP+-0123456789".contains(c)) {
            true => "unable to parse quantity's suffix",
            false => MALFORMED,
        });
    };
    exponent
        .parse::<i32>()
        .map(|power| (None, power))
        .map_err(|_| "unable to parse quantity's suffix")
}

pub(super) fn parse<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Quantity::parse(s).map_or_else(fail, |q| Ok(Val::Quantity(q))),
        _ => no_overload(),
    }
}

pub(super) fn is_quantity<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::Bool(Quantity::parse(s).is_ok())),
        _ => no_overload(),
    }
}

pub(super) fn sign<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Quantity(q)] => Ok(Val::Int(q.digits.signum() as i64)),
        _ => no_overload(),
    }
}

pub(super) fn as_float<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        // Reading the digits back rounds once, as no product of floats would.
        [Val::Quantity(q)] => {
            Ok(Val::Double(format!("{}e{}", q.digits, q.scale).parse().unwrap_or(f64::NAN)))
        }
        _ => no_overload(),
    }
}

pub(super) fn as_integer<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Quantity(q)] => match q.integer() {
            Some(i) => Ok(Val::Int(i)),
            None => fail("cannot convert value to integer"),
        },
        _ => no_overload(),
    }
}

pub(super) fn is_integer<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Quantity(q)] => Ok(Val::Bool(q.integer().is_some())),
        _ => no_overload(),
    }
}

fn operands(args: &[Val<'_>]) -> Option<(Quantity, Quantity)> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Some((*a, *b)),
        [Val::Quantity(a), Val::Int(i)] => {
            Some((*a, Quantity { digits: (*i).into(), scale: 0, small: true }))
        }
        _ => None,
    }
}

pub(super) fn add<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match operands(args) {
        Some((a, b)) => Ok(Val::Quantity(a.plus(b))),
        None => no_overload(),
    }
}

pub(super) fn sub<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match operands(args) {
        Some((a, b)) => Ok(Val::Quantity(a.plus(b.negated()))),
        None => no_overload(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_across_units() {
        let cases = [
            ("1Ki", "1024", Ordering::Equal),
            ("1k", "1000", Ordering::Equal),
            ("100m", "0.1", Ordering::Equal),
            ("1", "1.0", Ordering::Equal),
            ("-1", "1", Ordering::Less),
            ("1e3", "1k", Ordering::Equal),
            ("1Ei", "1E", Ordering::Greater),
            ("0.0000000001", "1n", Ordering::Equal),
            ("99999999999999999999999", "9223372036854775807", Ordering::Greater),
            ("1e999999999", "1", Ordering::Greater),
            ("-1e999999999", "1e-999999999", Ordering::Less),
        ];
        for (a, b, expect) in cases {
            let (a, b) = (Quantity::parse(a).unwrap(), Quantity::parse(b).unwrap());
            assert_eq!(a.compare(&b), expect, "{a:?} {b:?}");
        }
        for bad in ["", "x", "1x", "1.2.3", "--1", ".", "1 ", "1e", "1é"] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }
}
