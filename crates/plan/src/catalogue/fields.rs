//! Reads the fields of one row or policy and collects what is wrong with them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::{CatalogueError, UnknownWord};
use crate::words::{Word, nearest};

/// More faults than this help nobody.
pub(super) const MAX_ERRORS: usize = 100;
/// The longest text of a field, in bytes.
const MAX_TEXT: usize = 500;
/// The most elements of a list.
const MAX_LIST: usize = 64;
/// The longest time that a field may name: no rule looks back further.
const MAX_DURATION: Duration = Duration::from_secs(400 * 86_400);

/// The row that is being read, with which file set which of its fields.
pub(super) struct Context<'a> {
    /// The row's or policy's name.
    pub(super) row: &'a str,
    /// The file that named the row first.
    pub(super) file: &'a str,
    /// The file that set each field.
    pub(super) files: &'a BTreeMap<String, String>,
    /// What is wrong so far.
    pub(super) errors: &'a RefCell<Vec<CatalogueError>>,
}

impl Context<'_> {
    /// Notes a fault of a field; `path` may go into it, as in `seen[0].metric`.
    pub(super) fn wrong(&self, path: &str, reason: impl Into<String>) {
        let top = path.split(['[', '.']).next().unwrap_or(path);
        let file = self.files.get(top).map_or(self.file, String::as_str);
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MAX_ERRORS {
            errors.push(CatalogueError {
                file: file.to_owned(),
                row: Some(self.row.to_owned()),
                field: Some(path.to_owned()),
                reason: reason.into(),
            });
        }
    }
}

/// A map of fields, at the top of a row or inside one of its fields.
pub(super) struct Fields<'a> {
    context: &'a Context<'a>,
    prefix: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of the row; every name must be one of `known`.
    pub(super) fn new(
        context: &'a Context<'a>,
        map: &'a Map<String, Value>,
        known: &[&str],
    ) -> Self {
        Self::inside(context, String::new(), map, known)
    }

    fn inside(
        context: &'a Context<'a>,
        prefix: String,
        map: &'a Map<String, Value>,
        known: &[&str],
    ) -> Self {
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let valid = UnknownWord::new(name, known.iter().copied());
            context.wrong(&format!("{prefix}{name}"), format!("field {valid}"));
        }
        Self { context, prefix, map }
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Notes a fault of a field.
    pub(super) fn wrong(&self, name: &str, reason: impl Into<String>) {
        self.context.wrong(&self.path(name), reason);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    fn required(&self, name: &str) -> Option<&'a Value> {
        let value = self.map.get(name);
        if value.is_none() {
            self.wrong(name, "is missing");
        }
        value
    }

    /// A required text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.text_of(name, self.required(name)?)
    }

    fn text_of(&self, name: &str, value: &Value) -> Option<String> {
        match value.as_str() {
            Some(text) if !text.is_empty() && text.len() <= MAX_TEXT => Some(text.to_owned()),
            _ => {
                self.wrong(name, format!("must be a text of 1 to {MAX_TEXT} bytes"));
                None
            }
        }
    }

    /// A text that may be absent.
    pub(super) fn optional_text(&self, name: &str) -> Option<String> {
        self.map.get(name).and_then(|value| self.text_of(name, value))
    }

    /// A required word.
    pub(super) fn word<W: Word>(&self, name: &str) -> Option<W> {
        let text = self.text(name)?;
        self.word_of(name, &text)
    }

    /// The value that `text` spells.
    pub(super) fn word_of<W: Word>(&self, name: &str, text: &str) -> Option<W> {
        let word = W::read(text);
        if word.is_none() {
            let words = W::WORDS.iter().map(|(_, spelling)| *spelling);
            self.wrong(name, UnknownWord::new(text, words).to_string());
        }
        word
    }

    /// A list of texts; empty when absent.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.list(name).iter().filter_map(|value| self.text_of(name, value)).collect()
    }

    /// A list of words; empty when absent.
    pub(super) fn words<W: Word>(&self, name: &str) -> Vec<W> {
        self.texts(name).iter().filter_map(|text| self.word_of(name, text)).collect()
    }

    fn list(&self, name: &str) -> &'a [Value] {
        match self.map.get(name) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) if list.len() <= MAX_LIST => list,
            Some(_) => {
                self.wrong(name, format!("must be a list of at most {MAX_LIST}"));
                &[]
            }
        }
    }

    /// A list of maps, each read by `read`; empty when absent.
    pub(super) fn maps<T>(
        &self,
        name: &str,
        known: &[&str],
        mut read: impl FnMut(&Self) -> Option<T>,
    ) -> Vec<T> {
        let mut found = Vec::new();
        for (i, value) in self.list(name).iter().enumerate() {
            let Value::Object(map) = value else {
                self.wrong(&format!("{name}[{i}]"), "must be a map");
                continue;
            };
            let prefix = format!("{}{name}[{i}].", self.prefix);
            found.extend(read(&Self::inside(self.context, prefix, map, known)));
        }
        found
    }

    /// A map inside this one.
    pub(super) fn map(&self, name: &str, known: &[&str]) -> Option<Self> {
        let Value::Object(map) = self.map.get(name)? else {
            self.wrong(name, "must be a map");
            return None;
        };
        let prefix = format!("{}{name}.", self.prefix);
        Some(Self::inside(self.context, prefix, map, known))
    }

    /// A whole number from `low` to `high`; absent is none.
    pub(super) fn optional_number(&self, name: &str, low: u64, high: u64) -> Option<u64> {
        let value = self.map.get(name)?;
        let number = match value {
            Value::String(text) => {
                text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
            }
            value => value.as_u64(),
        };
        let Some(number) = number.filter(|number| (low..=high).contains(number)) else {
            let nearest = value.as_u64().map_or(low, |number| number.clamp(low, high));
            self.wrong(
                name,
                format!("must be a whole number from {low} to {high}; the nearest valid value is {nearest}"),
            );
            return None;
        };
        Some(number)
    }

    /// A required whole number from `low` to `high`.
    pub(super) fn number(&self, name: &str, low: u64, high: u64) -> Option<u64> {
        self.required(name)?;
        self.optional_number(name, low, high)
    }

    /// A finite number.
    pub(super) fn real(&self, name: &str) -> Option<f64> {
        let number = self.required(name)?.as_f64().filter(|number| number.is_finite());
        if number.is_none() {
            self.wrong(name, "must be a number");
        }
        number
    }

    /// Yes or no; absent is none.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.map.get(name)?;
        if value.as_bool().is_none() {
            self.wrong(name, "must be true or false");
        }
        value.as_bool()
    }

    /// The value itself.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// A required time such as `30s`, `10m`, `24h` or `7d`.
    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        let text = self.text(name)?;
        let duration = duration(&text);
        if duration.is_none() {
            let units = ["s", "m", "h", "d"];
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = text.strip_suffix(unit).filter(|n| !n.is_empty()).unwrap_or("30");
            let unit = nearest(unit, units.into_iter()).unwrap_or("s");
            self.wrong(
                name,
                format!("{text:?} is no time of 0s to 400d; the nearest valid value is \"{number}{unit}\""),
            );
        }
        duration
    }

    /// A time that may be absent.
    pub(super) fn optional_duration(&self, name: &str) -> Option<Duration> {
        self.has(name).then(|| self.duration(name)).flatten()
    }
}

fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let duration = Duration::from_secs(number.checked_mul(seconds)?);
    (duration <= MAX_DURATION).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_unit_and_an_end() {
        assert_eq!(duration("90s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Some(Duration::from_secs(604_800)));
        for wrong in ["", "s", "5", "5 m", "-5m", "1h30m", "401d", "99999999999999999999d", "5é"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
