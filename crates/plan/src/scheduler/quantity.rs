//! Quantities in thousandths, rounded up, which is how requests and capacities are compared.

/// Reads a quantity; one that cannot be read is `None`. What is too large to hold counts as the most.
pub(super) fn millis(text: &str) -> Option<i128> {
    let split =
        text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (mut number, mut tens, mut binary) = (number, 3_i32, 1_i128);
    match suffix {
        "" => {}
        "n" => tens -= 9,
        "u" => tens -= 6,
        "m" => tens -= 3,
        "k" => tens += 3,
        "M" => tens += 6,
        "G" => tens += 9,
        "T" => tens += 12,
        "P" => tens += 15,
        "E" => tens += 18,
        "Ki" => binary = 1 << 10,
        "Mi" => binary = 1 << 20,
        "Gi" => binary = 1 << 30,
        "Ti" => binary = 1 << 40,
        "Pi" => binary = 1 << 50,
        "Ei" => binary = 1 << 60,
        exponent => tens += exponent.strip_prefix(['e', 'E'])?.parse::<i8>().map(i32::from).ok()?,
    }
    let negative = number.starts_with('-');
    number = number.trim_start_matches(['-', '+']);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + part.len() > 24 || whole.len() + part.len() == 0 {
        return None;
    }
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let tens = tens - i32::try_from(part.len()).ok()?;
    let scaled = digits.saturating_mul(binary);
    let power = 10_i128.saturating_pow(tens.unsigned_abs());
    let value = if tens >= 0 {
        scaled.saturating_mul(power)
    } else {
        scaled / power + i128::from(scaled % power != 0)
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_read_and_rounded_up() {
        let rows = [
            ("1", Some(1000)),
            ("100m", Some(100)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("2e3", Some(2_000_000)),
            ("1n", Some(1)),
            ("3M", Some(3_000_000_000)),
            ("-1", Some(-1000)),
            ("9E", Some(9_000_000_000_000_000_000_000)),
            ("1e127", Some(i128::MAX)),
            ("", None),
            ("1x", None),
            ("1.2.3", None),
        ];
        for (text, expected) in rows {
            assert_eq!(millis(text), expected, "{text}");
        }
    }
}
