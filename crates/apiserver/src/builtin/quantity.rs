//! Resource quantities in the form in which a kube-apiserver writes them: `1000m` is `1`, `1024Mi`
//! is `1Gi`, `0.5` is `500m`.
//!
//! Decimal quantities are rewritten digit by digit, without bound. Binary ones are exact up to 19
//! digits behind the point. Some spellings that are not the shortest are kept as sent (`1.500`),
//! because upstream keeps them.

/// The largest binary quantity; greater ones become it.
const LARGEST: u128 = i64::MAX as u128;

/// Digits of a fraction that a binary suffix multiplies.
const FRACTION: usize = 19;

const SYNTAX: &str = "quantities must match the regular expression \
    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const DECIMAL: [(&str, i64); 10] = [
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

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Why a text is no quantity, as clients read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseError {
    #[error("{SYNTAX}")]
    Syntax,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    /// A power of ten, written by its letter.
    Decimal(i64),
    /// A power of ten, written as an exponent.
    Exponent(i64),
    /// A power of two.
    Binary(u32),
}

/// The text of a quantity as the server writes it.
pub(super) fn canonical(text: &str) -> Result<String, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ParseError::Syntax);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let number = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if digits(number) != number.len() {
        return Err(ParseError::Syntax);
    }
    let suffix = read_suffix(suffix)?;
    let whole = whole.trim_start_matches('0');
    if kept(whole, fraction, suffix) {
        return Ok(text.to_owned());
    }
    let written = match suffix {
        Suffix::Binary(power) => binary(whole, fraction, power),
        Suffix::Decimal(power) => decimal(&[whole, fraction].concat(), power, fraction, false),
        Suffix::Exponent(power) => decimal(&[whole, fraction].concat(), power, fraction, true),
    };
    Ok(if negative && written != "0" { format!("-{written}") } else { written })
}

fn read_suffix(text: &str) -> Result<Suffix, ParseError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(suffix, _)| *suffix == text) {
        return Ok(Suffix::Decimal(*power));
    }
    if let Some(n) = BINARY.iter().position(|suffix| *suffix == text) {
        return Ok(Suffix::Binary((n as u32 + 1) * 10));
    }
    let exponent = text.strip_prefix(['e', 'E']).ok_or(ParseError::Suffix)?;
    let exponent: i64 = exponent.parse().map_err(|_| ParseError::Suffix)?;
    // Upstream keeps 32 bits of it.
    Ok(Suffix::Exponent((exponent as i32).into()))
}

/// Whether upstream takes the text for canonical, and so repeats it.
fn kept(whole: &str, fraction: &str, suffix: Suffix) -> bool {
    let len = whole.len().max(1) + fraction.len();
    match suffix {
        Suffix::Binary(power) => {
            // The last bits of the number say whether a greater suffix could do.
            let fits = whole.len().max(1) as u32 + power * 3 / 10 < 15;
            let odd = whole.parse::<u64>().is_ok_and(|n| n & 7 != 0);
            fraction.is_empty() && fits && odd
        }
        Suffix::Decimal(power) | Suffix::Exponent(power) => {
            let scale = power - fraction.len() as i64;
            let zeros = if fraction.len() >= 3 {
                fraction.ends_with("000")
            } else {
                [whole, fraction].concat().ends_with("000")
            };
            len <= 18 && scale >= -9 && scale % 3 == 0 && !zeros && !whole.is_empty()
        }
    }
}

/// A decimal quantity: the digits times the power of ten that the suffix and the fraction say.
fn decimal(digits: &str, power: i64, fraction: &str, exponent: bool) -> String {
    let mut scale = power - fraction.len() as i64;
    let mut digits = digits.trim_start_matches('0').to_owned();
    if scale < -9 && !digits.is_empty() {
        // Finer than a billionth: rounded away from zero.
        let cut = usize::try_from(-9 - scale).unwrap_or(usize::MAX);
        let (kept, lost) = digits.split_at(digits.len().saturating_sub(cut));
        let up = lost.len() < cut && !lost.is_empty() || lost.bytes().any(|d| d != b'0');
        digits = if up { increment(kept) } else { kept.to_owned() };
        scale = -9;
    }
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    scale += (digits.len() - significant.len()) as i64;
    let pad = scale.rem_euclid(3);
    scale -= pad;
    let number = format!("{significant}{}", &"00"[..pad as usize]);
    let letter = DECIMAL.iter().find(|(_, power)| *power == scale).map(|(suffix, _)| *suffix);
    match (exponent, scale) {
        (true, 0) => number,
        (true, scale) => format!("{number}e{scale}"),
        // Upstream has no letter for what is beyond, and writes none.
        (false, _) => number + letter.unwrap_or_default(),
    }
}

/// The next number.
fn increment(digits: &str) -> String {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    let (head, _) = digits.split_at(digits.len() - nines);
    let mut out: String = match head.char_indices().next_back() {
        Some((n, last)) => {
            let next = char::from_digit(last.to_digit(10).unwrap_or(0) + 1, 10).unwrap_or('9');
            format!("{}{next}", &head[..n])
        }
        None => "1".to_owned(),
    };
    out.extend(std::iter::repeat_n('0', nines));
    out
}

/// A binary quantity.
fn binary(whole: &str, fraction: &str, power: u32) -> String {
    const UNIT: u128 = 1_000_000_000;
    let whole = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u128::MAX) };
    let whole = whole.saturating_mul(1 << power);
    let fraction = &fraction[..fraction.len().min(FRACTION)];
    let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().unwrap_or(0) };
    // At most 19 digits times 2^60: within 128 bits.
    let scaled = parts << power;
    let base = 10u128.pow(fraction.len() as u32);
    let whole = whole.saturating_add(scaled / base);
    // Billionths, rounded up: the remainder is below 10^19, so this is too.
    let nanos = (scaled % base * UNIT).div_ceil(base);
    let (whole, nanos) = if nanos == UNIT { (whole.saturating_add(1), 0) } else { (whole, nanos) };
    if whole >= LARGEST {
        return LARGEST.to_string();
    }
    if nanos > 0 || whole < 1024 {
        return decimal(&format!("{whole}{nanos:09}"), 0, "000000000", false);
    }
    let steps = (whole.trailing_zeros() / 10).min(BINARY.len() as u32);
    let number = whole >> (steps * 10);
    match steps {
        0 => number.to_string(),
        steps => format!("{number}{}", BINARY[steps as usize - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_upstream_writes_them() {
        for (sent, expect) in [
            ("0", "0"),
            ("00", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("+1", "+1"),
            ("-1", "-1"),
            ("-0.5", "-500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5."),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100m", "100m"),
            ("2000m", "2"),
            ("1000", "1k"),
            ("10000", "10k"),
            ("1234", "1234"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e2", "1200"),
            ("1000e3", "1e6"),
            ("100e-1", "10"),
            ("1e-10", "1e-9"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.5n", "2n"),
            ("9.9n", "10n"),
            ("1000n", "1u"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1025Mi", "1025Mi"),
            ("3072Ki", "3Mi"),
            ("512Mi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Mi", "104857600m"),
            ("0.0001Ki", "102400u"),
            ("8Ei", "9223372036854775807"),
            ("1000000", "1M"),
            ("1000E", "1"),
            (" 1 ", "1"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("100000000000000000000", "100E"),
            ("1e99999999999", "10e1215752190"),
            (".", "0"),
            ("-", "0"),
            (".G", "0"),
            ("1.", "1."),
            ("-1.5Gi", "-1536Mi"),
            ("0.000", "0"),
            ("007", "007"),
            ("1e+3", "1e+3"),
            ("1e20", "100e18"),
            ("8Gi", "8Gi"),
            ("16Gi", "16Gi"),
            ("1.5E", "1500P"),
            ("2.5e3", "2500"),
            ("1.0", "1"),
            ("100.0", "100"),
            ("1000.0", "1k"),
            ("2.0Gi", "2Gi"),
        ] {
            assert_eq!(canonical(sent).as_deref(), Ok(expect), "{sent}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for (sent, expect) in [
            ("", ParseError::Syntax),
            ("lots", ParseError::Syntax),
            ("1.2.3", ParseError::Syntax),
            ("1 Gi", ParseError::Syntax),
            ("1Zi", ParseError::Syntax),
            ("1mm", ParseError::Suffix),
            ("1e", ParseError::Suffix),
            ("1Kii", ParseError::Suffix),
        ] {
            assert_eq!(canonical(sent), Err(expect), "{sent}");
        }
        assert!(canonical(&"9".repeat(100_000)).is_ok());
        assert!(canonical("0.1e-2147483648").is_ok());
    }
}
