//! The five fields of a cron schedule: what is wrong with one, in the words of upstream's parser.

use crate::schema::print;

/// The values that a field may have, and the names of some.
struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

static FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds {
        least: 1,
        most: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Bounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const WORDS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, if anything is.
pub(super) fn wrong(text: &str) -> Option<String> {
    let rest = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => text,
    };
    if rest.starts_with('@') {
        let known = WORDS.contains(&rest) || rest.starts_with("@every ");
        return (!known).then(|| format!("unrecognized descriptor: {rest}"));
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = format!("[{}]", fields.join(" "));
        return Some(format!("expected exactly 5 fields, found {}: {found}", fields.len()));
    }
    // Upstream tells the first that is wrong.
    fields.iter().zip(&FIELDS).find_map(|(field, bounds)| {
        field.split(',').filter(|part| !part.is_empty()).find_map(|part| range(part, bounds).err())
    })
}

fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let limits: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(limits[0], "*" | "?") {
        (bounds.least, bounds.most)
    } else {
        let start = number_or_name(limits[0], bounds)?;
        match limits.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if limits.len() == 1 {
                end = bounds.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let (least, most) = (bounds.least, bounds.most);
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().position(|known| *known == name) {
        Some(n) => Ok(n as u64 + bounds.least),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => {
            let shown = print::quote(text);
            Err(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {shown}: invalid syntax"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream_reads_them() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan-mar ?", "@hourly", "@every 1h", "0 0 * * sun"] {
            assert_eq!(wrong(good), None, "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("@never", "unrecognized descriptor: @never"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
        ] {
            assert_eq!(wrong(bad).as_deref(), Some(why));
        }
    }
}
